"""The Relax module of a program's data, with the types that TVM infers."""

from __future__ import annotations

import json
from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import tvm
from tvm import relax, te, tirx

from oracles.worker.arrays import decoded_array
from oracles.worker.tvm.inferred import misfit
from oracles.worker.tvm.read import bound_symbols, called, reads
from oracles.worker.tvm.tir import build as loops
from oracles.worker.tvm.types import NotData, Symbols, attributes_from, type_of

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "max": lambda left, right: tirx.max(left, right),
    "min": lambda left, right: tirx.min(left, right),
}


def primfunc_from(item: dict[str, Any]) -> Any:
    """The PrimFunc of such a formula; see `oracles.worker.relax_reference.program`."""
    told = item["compute"]
    if told.get("inplace"):
        return tvm.script.from_source(script_of(told))["made"].without_attr("global_symbol")
    operands = [
        te.placeholder(sizes(shape), dtype, f"a{at}") for at, (dtype, shape) in enumerate(told["operands"])
    ]

    def element(*places: Any) -> Any:
        found = formula(told["value"], operands, places, told["dtype"])
        return found if isinstance(found, tvm.ir.Expr) else tirx.const(found, told["dtype"])

    result = te.compute(sizes(told["shape"]), element, name="made")
    return te.create_prim_func([*operands, result]).without_attr("global_symbol")


def script_of(told: dict[str, Any]) -> str:
    """The module of such a formula whose result goes where its first operand is."""
    params = ", ".join(
        f"a{at}: T.Buffer(({long_sizes(shape)}), {dtype!r})"
        for at, (dtype, shape) in enumerate(told["operands"])
    )
    count = len(told["shape"])
    loops, axes = (", ".join(f"{letter}{axis}" for axis in range(count)) for letter in "iv")
    return f"""@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def made({params}):
        for {loops} in T.grid({long_sizes(told["shape"])}):
            with T.sblock("made"):
                {axes} = T.axis.remap({"S" * count!r}, [{loops}])
                a0[{axes}] = {text_of(told["value"], told["dtype"])}
"""


def long_sizes(shape: list[int]) -> str:
    """The dims as Relax has them, each with a comma after it."""
    return " ".join(f"T.int64({size})," for size in shape)


def text_of(item: Any, dtype: str) -> str:
    """The formula as TVMScript; a number of an element's own type."""
    if not isinstance(item, list):
        return f"T.{dtype}({item})"
    head, rest = item[0], item[1:]
    if head == "at":
        return f"a{rest[0]}[{', '.join(text_of(each, 'int64') for each in rest[1:]) or '()'}]"
    if head == "index":
        return f"v{rest[0]}"
    left, right = (text_of(each, dtype) for each in rest)
    return f"T.{head}({left}, {right})" if head in ("max", "min") else f"({left} {head} {right})"


def sizes(shape: list[int]) -> tuple[Any, ...]:
    """The dims as Relax has them: of 64 bits."""
    return tuple(tirx.IntImm("int64", size) for size in shape)


def formula(item: Any, operands: list[Any], places: Any, dtype: str) -> Any:
    """The expression at these places; a number of an element's own type."""
    if not isinstance(item, list):
        return tirx.const(item, dtype)
    head, rest = item[0], item[1:]
    if head == "at":
        return operands[rest[0]](*(formula(each, operands, places, "int64") for each in rest[1:]))
    if head == "index":
        return places[rest[0]]
    left, right = (formula(each, operands, places, dtype) for each in rest)
    return OPERATIONS[head](left, right)


class Builder:
    """Builds the module of a document, operator by operator."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.entry = str(document["facts"].get("main", "main"))
        self.build = relax.BlockBuilder()
        self.globals: dict[str, Any] = {}
        self.made: dict[Any, Any] = {}
        self.symbols = Symbols()
        self.known: dict[str, Any] = {}
        self.types: dict[str, Any] = {}

    def module(self) -> Any:
        """Build the module: constants, PrimFuncs, then each function after those it calls."""
        for name, item in self.document["constants"].items():
            self.known[name] = relax.const(decoded_array(*item), item[0])
        for name, item in self.document["opaque"].items():
            self.define(name, outside_from(item))
        waiting = dict(self.document["functions"])
        self.declare({**waiting, self.entry: self.document["main"]})
        while waiting:
            ready = [name for name, graph in waiting.items() if called(graph) <= self.globals.keys()]
            if not ready:
                raise NotData("functions of the module call what is not there")
            for name in ready:
                self.define(name, self.function(waiting.pop(name), name))
        self.define(self.entry, self.function(self.document["main"], self.entry))
        facts = self.document["facts"]
        return tvm.IRModule(self.made, attrs=from_json(facts["attrs"]) if "attrs" in facts else None)

    def declare(self, graphs: dict[str, Any]) -> None:
        """The types of functions that call themselves, before any body is built."""
        for name, graph in graphs.items():
            if "returns" in graph.get("facts", {}):
                self.symbols = Symbols()
                params = self.parameters(graph)
                result = self.symbols.type(graph["facts"]["returns"])
                is_pure = graph["facts"].get("pure", True)
                self.global_var(name, relax.FuncType([each.ty for each in params], result, is_pure))

    def define(self, name: str, function: Any) -> None:
        """Give a global name its function."""
        if name not in self.globals:
            self.global_var(name, function.ty)
        self.made[self.globals[name]] = function

    def global_var(self, name: str, ty: Any) -> None:
        """Make a global name of a type."""
        self.globals[name] = tvm.ir.GlobalVar(name)
        relax.expr._update_type(self.globals[name], ty)

    def function(self, graph: dict[str, Any], name: str) -> Any:
        """A function of the module, over symbols of its own."""
        self.symbols = Symbols()
        function = self.closure(graph)
        if unbound := set(self.symbols.known) - bound_symbols(graph):
            raise NotData(f"the dim {min(unbound)!r} is given by no parameter or cast of {name!r}")
        is_named = name == self.entry and "global_symbol" not in dict(function.attrs or {})
        return function.with_attr("global_symbol", name) if is_named else function

    def closure(self, graph: dict[str, Any]) -> Any:
        """A function over the symbols and names around it."""
        params = self.parameters(graph)
        self.known.update({param.name: param for param in params})
        self.build.begin_scope(params)
        body = self.build.normalize(self.sequence(graph))
        self.build.end_scope()
        facts = graph.get("facts", {})
        attrs = from_json(facts["attrs"]) if "attrs" in facts else None
        result = self.symbols.type(facts["returns"]) if "returns" in facts else None
        return relax.Function(params, body, result, is_pure=facts.get("pure", True), attrs=attrs)

    def parameters(self, graph: dict[str, Any]) -> list[Any]:
        """Make a function's parameters, with the types that it declares."""
        return [relax.Var(item[0], self.symbols.type(declared(item))) for item in graph["inputs"]]

    def sequence(self, graph: dict[str, Any]) -> Any:
        """Runs of bindings of a block each; what is read outside of its dataflow block is no inner one."""
        place = {item[0]: item[3].get("block") for item in graph["bindings"]}
        outer = set(graph["outputs"])
        for item in graph["bindings"]:
            outer.update(name for name in reads(item[2]) if place.get(name) != item[3].get("block"))
        blocks: list[Any] = []
        current: list[Any] = []
        block: Any = None
        for item in graph["bindings"]:
            mark = item[3].get("block")
            if current and mark != block:
                blocks.append(block_of(current, block))
                current = []
            block = mark
            current.append(self.binding(item, inner=mark is not None and item[0] not in outer))
        if current:
            blocks.append(block_of(current, block))
        return relax.SeqExpr(blocks, self.result(graph))

    def result(self, graph: dict[str, Any]) -> Any:
        """Make the value that a function returns."""
        results = [self.known[name] for name in graph["outputs"]]
        is_tuple = len(results) > 1 or graph.get("facts", {}).get("tuple")
        return self.build.normalize(tvm.ir.Tuple(results)) if is_tuple else results[0]

    def binding(self, item: list[Any], inner: bool) -> Any:
        """Make one binding, within a dataflow block or outside."""
        name, op, args, kwargs = item
        kind = relax.DataflowVar if inner else relax.Var
        if op == "match_cast":
            ty = self.symbols.type(args[1])
            var = kind(name, ty)
            made = relax.MatchCast(var, self.argument(args[0]), ty)
        else:
            value = self.build.normalize(self.value(op, args, kwargs))
            var = kind(name, self.symbols.type(kwargs["type"]) if "type" in kwargs else value.ty)
            made = relax.VarBinding(var, value)
        self.known[name] = var
        self.types[name] = var.ty
        return made

    def value(self, op: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Make the right-hand side of a binding."""
        if op == "if":
            then, other = (self.sequence(each["graph"]) for each in args[1:3])
            return relax.If(self.argument(args[0]), then, other)
        if op == "function":
            return self.closure(args[0]["graph"])
        given = [self.argument(each) for each in args]
        if op == "alias":
            return given[0]
        if op == "getitem":
            return tvm.ir.TupleGetItem(given[0], int(args[1]))
        attrs = told_attributes(kwargs)
        types = [self.symbols.type(each) for each in kwargs.get("types", [])]
        if op == "call":
            return relax.Call(given[0], given[1:], attrs, types)
        return relax.Call(tvm.ir.Op.get(op), given, attrs, types)

    def argument(self, item: Any) -> Any:
        """Make an operand."""
        if not isinstance(item, dict):
            return relax.prim_value(item)
        ((tag, inner),) = item.items()
        if tag == "ref":
            return self.known[inner]
        if tag == "function":
            return self.globals[inner]
        if tag == "tuple":
            return tvm.ir.Tuple([self.argument(each) for each in inner])
        return self.literal(tag, inner)

    def literal(self, tag: str, inner: Any) -> Any:
        """Make an operand that is written out: a shape, a string, a dtype, a number, an extern."""
        if tag == "shape":
            return relax.ShapeExpr(self.symbols.shape(inner))
        if tag == "string":
            return tvm.ir.StringImm(inner)
        if tag == "extern":
            return relax.ExternFunc(inner)
        if tag == "dtype":
            return tvm.ir.GenericConst(tvm.DataType(inner), relax.AnyType())
        if tag == "prim":
            is_number = not isinstance(inner[1], str)
            return tirx.const(inner[1], inner[0]) if is_number else self.symbols.dim(inner[1])
        raise NotData(f"an argument is tagged {tag!r}")


def outside_from(item: dict[str, Any]) -> Any:
    """A function that is no graph: a formula, a tree of loops, or TVM's own JSON."""
    if "compute" in item:
        return primfunc_from(item)
    return loops.Builder({}).function(item["tir"]) if list(item) == ["tir"] else from_json(item)


def told_attributes(kwargs: dict[str, Any]) -> Any:
    """An operator's attributes, by name or in TVM's own form."""
    if "attributes" in kwargs:
        return attributes_from(kwargs["attributes"])
    return from_json(kwargs["attrs"]) if "attrs" in kwargs else None


def declared(item: list[Any]) -> Any:
    """The type of an input: its own where it has one, else a tensor of its dtype and dims."""
    return item[3] if len(item) > 3 else {"tensor": [item[1], item[2], len(item[2])]}


def block_of(bindings: list[Any], mark: Any) -> Any:
    """Make a block of bindings; one with a mark is a dataflow block."""
    return relax.BindingBlock(bindings) if mark is None else relax.DataflowBlock(bindings)


def from_json(item: Any) -> Any:
    """Load an object that is kept in TVM's own JSON."""
    return tvm.ir.load_json(json.dumps(item))


def externs(document: dict[str, Any]) -> list[str]:
    """The functions outside of the module that it calls by name."""
    graphs = [document["main"], *document["functions"].values()]
    return sorted({name for graph in graphs for name in called(graph, "extern")})


def to_module(document: dict[str, Any]) -> Any:
    """The module of a document; raises what TVM raises for one that is ill-typed."""
    return Builder(document).module()


def describe(program: bytes) -> dict[str, Any]:
    """The types that TVM infers, or why the module is ill-formed."""
    try:
        document = json.loads(program)
        builder = Builder(document)
        module = builder.module()
        if relax.analysis.well_formed(module) is False:
            return {"error": "TVM finds the module ill-formed"}
        if unfit := misfit(module):
            return {"error": unfit}
        if missing := [name for name in externs(document) if tvm.get_global_func(name, True) is None]:
            return {"error": f"the module calls {missing[0]!r}, which this TVM does not have"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
    tensors = {name: ty for name, ty in builder.types.items() if isinstance(ty, relax.TensorType)}
    return {"types": {name: type_of(ty)["tensor"][:2] for name, ty in tensors.items()}}
