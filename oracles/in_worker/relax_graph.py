"""A Relax module as data: read out of TVM's own IR, and built again with the types that TVM infers."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import tvm
from tvm import relax, tirx


class NotData(Exception):
    """A module holds something that no data can say."""


# Out of TVM


class Reader:
    """Reads one module; names become unique on the way, functions keep theirs."""

    def __init__(self, module: Any) -> None:
        self.module = relax.transform.Normalize()(module)
        self.taken: dict[str, int] = {}
        self.names: dict[Any, str] = {}
        self.constants: dict[str, Any] = {}
        self.blocks = 0

    def read(self) -> dict[str, Any]:
        found = {var.name_hint: function for var, function in self.module.functions.items()}
        graphs = {name: each for name, each in found.items() if isinstance(each, relax.Function)}
        if not graphs:
            raise NotData("the module holds no Relax function")
        main = "main" if "main" in graphs else next(iter(graphs))
        for name in found:
            self.unique(name)
        first = self.function(graphs[main], main=True)
        functions = {name: self.function(each, main=False) for name, each in graphs.items() if name != main}
        opaque = {
            name: json.loads(tvm.ir.save_json(each)) for name, each in found.items() if name not in graphs
        }
        return {
            "main": first,
            "constants": self.constants,
            "functions": functions,
            "opaque": opaque,
            "facts": {"main": main},
        }

    def unique(self, name: str) -> str:
        name = name or "v"
        count = self.taken.get(name, 0)
        self.taken[name] = count + 1
        return name if not count else self.unique(f"{name}_{count}")

    def named(self, var: Any) -> str:
        if var not in self.names:
            self.names[var] = self.unique(var.name)
        return self.names[var]

    def function(self, function: Any, main: bool) -> dict[str, Any]:
        inputs = []
        for param in function.params:
            if not isinstance(param.ty, relax.TensorType) or param.ty.shape is None:
                kind = "main" if main else "a function"
                raise NotData(f"{kind} takes {param.name!r} of type {param.ty}, not a tensor of known rank")
            inputs.append([self.named(param), dtype_name(param.ty.dtype), dims(param.ty.shape.values)])
        graph = self.sequence(function.body)
        attrs = dict(function.attrs) if function.attrs else {}
        facts: dict[str, Any] = {"pure": bool(function.is_pure), **graph.get("facts", {})}
        if attrs:
            facts["attrs"] = json.loads(tvm.ir.save_json(function.attrs))
        return {**graph, "inputs": inputs, "facts": facts}

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
        if type(value).__name__ in ("Var", "DataflowVar"):
            return self.named(value)
        name = self.unique("result")
        bindings.append([name, "alias", [self.argument(value)], {}])
        return name

    def binding(self, binding: Any, flow: dict[str, Any]) -> list[Any]:
        value = binding.value
        if isinstance(binding, relax.MatchCast):
            item: list[Any] = ["match_cast", [self.argument(value), type_of(binding.ty)], {}]
        else:
            item = self.expression(value)
        return [self.named(binding.var), *item[:2], {**item[2], **flow}]

    def expression(self, value: Any) -> list[Any]:
        if isinstance(value, tvm.ir.Call):
            return self.call(value)
        if isinstance(value, tvm.ir.TupleGetItem):
            return ["getitem", [self.argument(value.tuple_value), int(value.index)], {}]
        if isinstance(value, relax.If):
            then, other = self.sequence(value.true_branch), self.sequence(value.false_branch)
            return ["if", [self.argument(value.cond), {"graph": then}, {"graph": other}], {}]
        return ["alias", [self.argument(value)], {}]

    def call(self, value: Any) -> list[Any]:
        args = [self.argument(each) for each in value.args]
        facts: dict[str, Any] = {}
        if value.attrs is not None:
            facts["attrs"] = json.loads(tvm.ir.save_json(value.attrs))
        if value.ty_args:
            facts["types"] = [type_of(each) for each in value.ty_args]
        if isinstance(value.op, tvm.ir.Op):
            return [value.op.name, args, facts]
        return ["call", [self.argument(value.op), *args], facts]

    def argument(self, value: Any) -> Any:
        if isinstance(value, tvm.ir.GlobalVar):
            return {"function": value.name_hint}
        if type(value).__name__ in ("Var", "DataflowVar") and value in self.names:
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
        if type(value).__name__ == "DataTypeImm":
            return {"dtype": str(value.value)}
        if isinstance(getattr(value, "ty", None), tvm.ir.PrimType):
            return {"prim": [dtype_name(value.ty.dtype), dim(value)]}
        raise NotData(f"the module holds a {type(value).__name__} in an argument")

    def constant(self, array: Any) -> str:
        from oracles.in_worker.arrays import encoded_array

        name = self.unique("c")
        self.constants[name] = encoded_array(array)
        return name


def dtype_name(dtype: Any) -> str:
    return str(getattr(dtype, "dtype", dtype))


def dims(values: Any) -> list[Any]:
    return [dim(each) for each in values]


def dim(value: Any) -> Any:
    """A number, or a dim's arithmetic as text."""
    if isinstance(value, (tirx.IntImm, tirx.FloatImm)):
        return value.value
    return re.sub(r"T\.int(?:32|64)\((-?\d+)\)", r"\1", str(value))


def type_of(ty: Any) -> Any:
    """A type as JSON."""
    if isinstance(ty, relax.TensorType):
        shape = dims(ty.shape.values) if isinstance(ty.shape, relax.ShapeExpr) else None
        return {"tensor": [dtype_name(ty.dtype) if ty.dtype is not None else None, shape, int(ty.ndim)]}
    if isinstance(ty, relax.ShapeType):
        return {"shape_type": [dims(ty.values) if ty.values is not None else None, int(ty.ndim)]}
    if isinstance(ty, tvm.ir.TupleType):
        return {"tuple_type": [type_of(each) for each in ty.fields]}
    if isinstance(ty, tvm.ir.PrimType):
        return {"prim_type": dtype_name(ty.dtype)}
    if isinstance(ty, (relax.ObjectType, relax.AnyType)):
        return {"any": True}
    raise NotData(f"the module holds a type {type(ty).__name__}")


# Back to TVM


class Builder:
    """Builds the module of a document, operator by operator, with the types that TVM infers."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.build = relax.BlockBuilder()
        self.globals: dict[str, Any] = {}
        self.symbols: dict[str, Any] = {}
        self.known: dict[str, Any] = {}
        self.types: dict[str, Any] = {}

    def module(self) -> Any:
        from oracles.in_worker.arrays import decoded_array

        for name, item in self.document["constants"].items():
            self.known[name] = relax.const(decoded_array(*item))
        for name, item in self.document["opaque"].items():
            self.globals[name] = self.build.add_func(tvm.ir.load_json(json.dumps(item)), name)
        waiting = dict(self.document["functions"])
        while waiting:
            ready = [name for name, graph in waiting.items() if called(graph) <= self.globals.keys()]
            if not ready:
                raise NotData("functions of the module call each other in a circle")
            for name in ready:
                self.add(name, waiting.pop(name))
        self.add(self.document["facts"].get("main", "main"), self.document["main"])
        return self.build.get()

    def add(self, name: str, graph: dict[str, Any]) -> None:
        self.symbols = {}
        params = [
            relax.Var(each, relax.TensorType(self.shape(shape), dtype))
            for each, dtype, shape in graph["inputs"]
        ]
        self.known.update({param.name: param for param in params})
        self.build.begin_scope(params)
        body = self.build.normalize(self.sequence(graph))
        self.build.end_scope()
        facts = graph.get("facts", {})
        attrs = tvm.ir.load_json(json.dumps(facts["attrs"])) if "attrs" in facts else None
        function = relax.Function(params, body, is_pure=facts.get("pure", True), attrs=attrs)
        if name == self.document["facts"].get("main", "main"):
            function = function.with_attr("global_symbol", name)
        self.globals[name] = self.build.add_func(function, name)

    def sequence(self, graph: dict[str, Any]) -> Any:
        """Runs of bindings of a block each; what is read outside of its dataflow block is no inner one."""
        blocks: list[Any] = []
        place = {item[0]: item[3].get("block") for item in graph["bindings"]}
        outer = set(graph["outputs"])
        for item in graph["bindings"]:
            outer.update(name for name in reads(item[2]) if place.get(name) != item[3].get("block"))
        current: list[Any] = []
        block: Any = None
        for item in graph["bindings"]:
            mark = item[3].get("block")
            if current and mark != block:
                blocks.append(
                    relax.DataflowBlock(current) if block is not None else relax.BindingBlock(current)
                )
                current = []
            block = mark
            current.append(self.binding(item, inner=mark is not None and item[0] not in outer))
        if current:
            blocks.append(relax.DataflowBlock(current) if block is not None else relax.BindingBlock(current))
        results = [self.known[name] for name in graph["outputs"]]
        is_tuple = len(results) > 1 or graph.get("facts", {}).get("tuple")
        body = self.build.normalize(tvm.ir.Tuple(results)) if is_tuple else results[0]
        return relax.SeqExpr(blocks, body)

    def binding(self, item: list[Any], inner: bool) -> Any:
        name, op, args, kwargs = item
        kind = relax.DataflowVar if inner else relax.Var
        if op == "match_cast":
            ty = self.type(args[1])
            var = kind(name, ty)
            made = relax.MatchCast(var, self.argument(args[0]), ty)
        else:
            value = self.build.normalize(self.value(op, args, kwargs))
            var = kind(name, value.ty)
            made = relax.VarBinding(var, value)
        self.known[name] = var
        self.types[name] = var.ty
        return made

    def value(self, op: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if op == "if":
            return relax.If(
                self.argument(args[0]), self.sequence(args[1]["graph"]), self.sequence(args[2]["graph"])
            )
        given = [self.argument(each) for each in args]
        if op == "alias":
            return given[0]
        if op == "getitem":
            return tvm.ir.TupleGetItem(given[0], int(args[1]))
        attrs = tvm.ir.load_json(json.dumps(kwargs["attrs"])) if "attrs" in kwargs else None
        types = [self.type(each) for each in kwargs.get("types", [])]
        if op == "call":
            return relax.Call(given[0], given[1:], attrs, types)
        return relax.Call(tvm.ir.Op.get(op), given, attrs, types)

    def argument(self, item: Any) -> Any:
        if not isinstance(item, dict):
            return relax.prim_value(item)
        ((tag, inner),) = item.items()
        if tag == "ref":
            return self.known[inner]
        if tag == "function":
            return self.globals[inner]
        if tag == "tuple":
            return tvm.ir.Tuple([self.argument(each) for each in inner])
        if tag == "shape":
            return relax.ShapeExpr(self.shape(inner))
        if tag == "string":
            return tvm.ir.StringImm(inner)
        if tag == "extern":
            return relax.ExternFunc(inner)
        if tag == "prim":
            return tirx.const(inner[1], inner[0]) if not isinstance(inner[1], str) else self.dim(inner[1])
        if tag == "dtype":
            return relax.DataTypeImm(inner)
        raise NotData(f"an argument is tagged {tag!r}")

    def shape(self, items: list[Any]) -> list[Any]:
        return [self.dim(each) for each in items]

    def dim(self, item: Any) -> Any:
        """A number, or the arithmetic that a text spells, over the function's symbols."""
        return (
            tirx.IntImm("int64", item)
            if isinstance(item, int)
            else self.term(ast.parse(item, mode="eval").body)
        )

    def term(self, node: Any) -> Any:
        if isinstance(node, ast.Constant):
            return tirx.IntImm("int64", int(str(node.value)))
        if isinstance(node, ast.Name):
            if node.id not in self.symbols:
                self.symbols[node.id] = tirx.Var(node.id, "int64")
            return self.symbols[node.id]
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](self.term(node.left), self.term(node.right))
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("min", "max"):
                return getattr(tirx, name)(*map(self.term, node.args))
        raise NotData(f"a dim holds {ast.dump(node)[:60]}")

    def tensor(self, shape: list[Any], dtype: str) -> Any:
        return relax.TensorType(self.shape(shape), dtype)

    def type(self, item: Any) -> Any:
        ((tag, inner),) = item.items()
        if tag == "tensor":
            dtype, shape, rank = inner
            return relax.TensorType(None, dtype, ndim=rank) if shape is None else self.tensor(shape, dtype)
        if tag == "shape_type":
            values, rank = inner
            return relax.ShapeType(ndim=rank) if values is None else relax.ShapeType(self.shape(values))
        if tag == "tuple_type":
            return relax.TupleType([self.type(each) for each in inner])
        return tvm.ir.PrimType(inner) if tag == "prim_type" else relax.ObjectType()


OPERATORS: dict[Any, Any] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: tirx.floordiv,
    ast.Mod: tirx.floormod,
}


def called(graph: dict[str, Any]) -> set[str]:
    """The functions that a graph names, in bodies too."""
    text = json.dumps(graph["bindings"])
    return {
        item["function"] for item in walk(json.loads(text)) if isinstance(item, dict) and "function" in item
    }


def walk(item: Any) -> Any:
    yield item
    for inner in item if isinstance(item, list) else item.values() if isinstance(item, dict) else ():
        yield from walk(inner)


def reads(args: list[Any]) -> set[str]:
    """The names that arguments read; a body's results count as read."""
    found = {item["ref"] for item in walk(args) if isinstance(item, dict) and set(item) == {"ref"}}
    for item in walk(args):
        if isinstance(item, dict) and "outputs" in item and "bindings" in item:
            found.update(item["outputs"])
    return found


def read_module(module: Any) -> dict[str, Any]:
    """The document of a module."""
    return Reader(module).read()


def to_module(document: dict[str, Any]) -> Any:
    """The module of a document; raises what TVM raises for one that is ill-typed."""
    return Builder(document).module()


def describe(program: bytes) -> dict[str, Any]:
    """The types that TVM infers, or why the module is ill-formed."""
    try:
        builder = Builder(json.loads(program))
        module = builder.module()
        if relax.analysis.well_formed(module) is False:
            return {"error": "TVM finds the module ill-formed"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
    tensors = {name: ty for name, ty in builder.types.items() if isinstance(ty, relax.TensorType)}
    return {"types": {name: type_of(ty)["tensor"][:2] for name, ty in tensors.items()}}


def loaded(program: bytes) -> tuple[Any, str, list[str], list[str]]:
    """The module of a program, its main function, and the names of what that takes and gives."""
    document = json.loads(program)
    main = document["main"]
    taken = [item[0] for item in main["inputs"]]
    return to_module(document), document["facts"].get("main", "main"), taken, list(main["outputs"])
