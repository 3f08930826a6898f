"""A Relax module of TVM as data: functions as graphs of bindings, names made unique; walks over it."""

import json
from typing import Any, Iterator, Mapping, Sequence  # noqa: UP035 (Python 3.8)

import tvm
import tvm_ffi
from tvm import relax

from oracles.worker.tvm.tir.build import Builder
from oracles.worker.tvm.tir.read import Reader as LoopReader
from oracles.worker.tvm.types import (
    NotData,
    attributes_of,
    declarations,
    dim,
    dims,
    dtype_name,
    is_plain,
    type_of,
)


def walk(item: Any) -> Iterator[Any]:
    """Everything inside, bodies included."""
    yield item
    for inner in item if isinstance(item, list) else item.values() if isinstance(item, dict) else ():
        yield from walk(inner)


def called(graph: dict[str, Any], tag: str = "function") -> set[str]:
    """The functions that a graph names, nested bodies included.

    With `extern`, also those of other libraries.
    """
    tagged = (item for item in walk(graph["bindings"]) if isinstance(item, dict) and set(item) == {tag})
    return {item[tag] for item in tagged if isinstance(item[tag], str)}


def bound_symbols(graph: dict[str, Any]) -> set[str]:
    """The symbols that stand alone as dims of a function's parameters, or of what is cast within it."""
    found: set[str] = set()
    for item in walk(graph):
        if isinstance(item, dict) and "inputs" in item and "bindings" in item:
            found.update(alone(item["inputs"]))
        elif isinstance(item, list) and len(item) == 4 and item[1] == "match_cast":
            found.update(alone(item[2][1]))
    return found


def alone(item: Any) -> Iterator[str]:
    """Texts that are one name."""
    return (each for each in walk(item) if isinstance(each, str) and each.isidentifier())


def has_local_functions(document: dict[str, Any]) -> bool:
    """Whether a function of the program defines another one within it."""
    graphs = [document["main"], *document["functions"].values()]
    items = (item for graph in graphs for item in walk(graph["bindings"]))
    return any(isinstance(item, list) and len(item) == 4 and item[1] == "function" for item in items)


def reads(args: list[Any]) -> set[str]:
    """The names that arguments read; a body's results count as read."""
    found = {item["ref"] for item in walk(args) if isinstance(item, dict) and set(item) == {"ref"}}
    for item in walk(args):
        if isinstance(item, dict) and "outputs" in item and "bindings" in item:
            found.update(item["outputs"])
    return found


def in_circles(graphs: Mapping[str, dict[str, Any]]) -> list[str]:
    """The functions that call themselves, by way of others too."""
    calls = {name: called(graph) & graphs.keys() for name, graph in graphs.items()}
    return [name for name in graphs if name in reached(name, calls)]


def reached(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    """All functions that a function calls, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        fresh = calls[waiting.pop()] - found
        found |= fresh
        waiting += fresh
    return found


def read_module(module: Any, given: Sequence[Any] = (), entry: str = "") -> dict[str, Any]:
    """The document of a module; `given` is what came along to call its `entry` with, in order."""
    return Reader(module, given).read(entry)


class Reader:
    """Reads one module; functions keep their names."""

    def __init__(self, module: Any, given: Sequence[Any]) -> None:
        self.module = relax.transform.Normalize()(module)
        self.given = given
        self.taken: dict[str, int] = {}
        self.names: dict[Any, str] = {}
        self.constants: dict[str, Any] = {}
        self.blocks = 0

    def read(self, entry: str) -> dict[str, Any]:
        """Read the module from its entry on. Raises NotData without a Relax function."""
        found = {var.name_hint: function for var, function in self.module.functions.items()}
        graphs = {name: each for name, each in found.items() if isinstance(each, relax.Function)}
        if not graphs:
            raise NotData("the module holds no Relax function")
        main = next(name for name in (entry, "main", *graphs) if name in graphs)
        for name in found:
            self.unique(name)
        read = {main: self.main(graphs[main])}
        read.update({name: self.function(each) for name, each in graphs.items() if name != main})
        for name in in_circles(read):
            read[name]["facts"]["returns"] = type_of(graphs[name].ret_ty)
        return {
            "main": read.pop(main),
            "constants": self.constants,
            "functions": read,
            "opaque": {name: outside(each) for name, each in found.items() if name not in graphs},
            "facts": {"main": main, **self.module_facts()},
        }

    def module_facts(self) -> dict[str, Any]:
        """Keep the module's own attributes."""
        attrs = dict(self.module.attrs or {})
        return {"attrs": as_json(self.module.attrs)} if attrs else {}

    def unique(self, name: str) -> str:
        """Make a name unique by a number."""
        name = name or "v"
        count = self.taken.get(name, 0)
        self.taken[name] = count + 1
        return name if not count else self.unique(f"{name}_{count}")

    def named(self, var: Any) -> str:
        """Name a variable, once."""
        if var not in self.names:
            self.names[var] = self.unique(var.name)
        return self.names[var]

    def main(self, function: Any) -> dict[str, Any]:
        """Read the main function; each input gets a dtype and dims, even if its parameter has none."""
        inputs, tuples = declarations(function, self.given, self.named, self.unique)
        graph = self.graph(function)
        return {**graph, "inputs": inputs, "bindings": [*tuples, *graph["bindings"]]}

    def function(self, function: Any) -> dict[str, Any]:
        """Read a function: its graph and its parameters."""
        return {**self.graph(function), "inputs": [self.parameter(each) for each in function.params]}

    def parameter(self, param: Any) -> list[Any]:
        """A parameter of a function that the program itself calls; what no tensor's dims say stands last."""
        if is_plain(param.ty):
            return [self.named(param), dtype_name(param.ty.dtype), dims(param.ty.shape.values)]
        return [self.named(param), "float32", [], type_of(param.ty)]

    def graph(self, function: Any) -> dict[str, Any]:
        """Read a function's body, whether it is pure, and its attributes."""
        for param in function.params:
            self.named(param)
        graph = self.sequence(function.body)
        facts: dict[str, Any] = {"pure": bool(function.is_pure), **graph.get("facts", {})}
        if function.attrs:
            facts["attrs"] = as_json(function.attrs)
        return {**graph, "facts": facts}

    def sequence(self, body: Any) -> dict[str, Any]:
        """The bindings of a body; what it returns gets a name where it has none."""
        bindings: list[Any] = []
        blocks = body.blocks if isinstance(body, relax.SeqExpr) else []
        for block in blocks:
            self.blocks += 1
            flow = {"block": self.blocks} if isinstance(block, relax.DataflowBlock) else {}
            for binding in block.bindings:
                bindings.append(self.binding(binding, flow))
        result = body.body if isinstance(body, relax.SeqExpr) else body
        if isinstance(result, tvm.ir.Tuple):
            if not len(result.fields):
                raise NotData("a function returns nothing")
            outputs = [self.result(each, bindings) for each in result.fields]
            alone: dict[str, Any] = {"facts": {"tuple": True}} if len(outputs) == 1 else {}
            return {"inputs": [], "bindings": bindings, "outputs": outputs, **alone}
        return {"inputs": [], "bindings": bindings, "outputs": [self.result(result, bindings)]}

    def result(self, value: Any, bindings: list[Any]) -> str:
        """Name what a body returns; a value without a name gets a binding."""
        if is_var(value):
            return self.named(value)
        name = self.unique("result")
        bindings.append([name, "alias", [self.argument(value)], {}])
        return name

    def binding(self, binding: Any, flow: dict[str, Any]) -> list[Any]:
        """Read a binding; its type is kept if inference would not give it."""
        value = binding.value
        if isinstance(binding, relax.MatchCast):
            item: list[Any] = ["match_cast", [self.argument(value), type_of(binding.ty)], {}]
        else:
            name = self.named(binding.var)  # before its body is read, which may call it
            item = self.expression(value)
            if not tvm_ffi.structural_equal(binding.var.ty, value.ty):
                item[2] = {**item[2], "type": type_of(binding.var.ty)}
            return [name, *item[:2], {**item[2], **flow}]
        return [self.named(binding.var), *item[:2], {**item[2], **flow}]

    def expression(self, value: Any) -> list[Any]:
        """Read the right-hand side of a binding."""
        if isinstance(value, tvm.ir.Call):
            return self.call(value)
        if isinstance(value, tvm.ir.TupleGetItem):
            return ["getitem", [self.argument(value.tuple_value), int(value.index)], {}]
        if isinstance(value, relax.If):
            then, other = self.sequence(value.true_branch), self.sequence(value.false_branch)
            return ["if", [self.argument(value.cond), {"graph": then}, {"graph": other}], {}]
        if isinstance(value, relax.Function):
            return ["function", [{"graph": self.function(value)}], {}]
        return ["alias", [self.argument(value)], {}]

    def call(self, value: Any) -> list[Any]:
        """Read a call of an operator or of a function."""
        args = [self.argument(each) for each in value.args]
        facts: dict[str, Any] = {}
        if value.attrs is not None:
            facts.update(attribute_facts(value.attrs))
        if value.ty_args:
            facts["types"] = [type_of(each) for each in value.ty_args]
        if isinstance(value.op, tvm.ir.Op):
            return [value.op.name, args, facts]
        return ["call", [self.argument(value.op), *args], facts]

    def argument(self, value: Any) -> Any:
        """Read an operand."""
        if isinstance(value, tvm.ir.GlobalVar):
            return {"function": value.name_hint}
        if is_var(value) and value in self.names:
            return {"ref": self.named(value)}
        if isinstance(value, tvm.ir.GenericConst) and hasattr(value.value, "numpy"):
            return {"ref": self.constant(value.value.numpy())}
        if isinstance(value, tvm.ir.Tuple):
            return {"tuple": [self.argument(each) for each in value.fields]}
        if isinstance(value, relax.ShapeExpr):
            return {"shape": dims(value.values)}
        if isinstance(value, tvm.ir.StringImm):
            return {"string": str(value.value)}
        if isinstance(value, relax.ExternFunc):
            return {"extern": str(value.global_symbol)}
        return self.other(value)

    def other(self, value: Any) -> Any:
        """Read an operand that is a dtype or a number. Raises NotData for another kind."""
        if isinstance(value, tvm.ir.GenericConst) and isinstance(value.value, tvm_ffi.dtype):
            return {"dtype": str(value.value)}
        if isinstance(getattr(value, "ty", None), tvm.ir.PrimType):
            return {"prim": [dtype_name(value.ty.dtype), dim(value)]}
        raise NotData(f"the module holds a {type(value).__name__} in an argument")

    def constant(self, array: Any) -> str:
        """Keep a constant of the module."""
        from oracles.worker.arrays import encoded_array

        name = self.unique("c")
        self.constants[name] = encoded_array(array)
        return name


def attribute_facts(attrs: Any) -> dict[str, Any]:
    """An operator's attributes by name where data can say them, else in TVM's own form."""
    told = attributes_of(attrs)
    return {"attrs": as_json(attrs)} if told is None else {"attributes": told}


def is_var(value: Any) -> bool:
    """Say whether an expression is a variable."""
    return type(value).__name__ in ("Var", "DataflowVar")


def outside(function: Any) -> Any:
    """A function that is no graph: a PrimFunc as a tree of loops, where that says all of it."""
    if isinstance(function, tvm.tirx.PrimFunc):
        try:
            told = LoopReader().function(function)
            if tvm_ffi.structural_equal(Builder({}).function(told), function):
                return {"tir": told}
        except (NotData, KeyError):  # a function of the module that it calls, as well
            pass
    return as_json(function)


def as_json(value: Any) -> Any:
    """Write one of TVM's objects as TVM's own JSON."""
    return json.loads(tvm.ir.save_json(value))
