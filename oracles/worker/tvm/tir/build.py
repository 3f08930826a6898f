"""The IRModule of a `tir` document: TVM's nodes, one for one, nothing simplified on the way."""

from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import tvm
from tvm import ir, s_tir, tirx
from tvm.tirx import _ffi_api as native
from tvm.tirx.layout import S, TileLayout

BINARY = {
    "add": tirx.Add,
    "sub": tirx.Sub,
    "mul": tirx.Mul,
    "div": tirx.Div,
    "mod": tirx.Mod,
    "floordiv": tirx.FloorDiv,
    "floormod": tirx.FloorMod,
    "min": tirx.Min,
    "max": tirx.Max,
    "eq": tirx.EQ,
    "ne": tirx.NE,
    "lt": tirx.LT,
    "le": tirx.LE,
    "gt": tirx.GT,
    "ge": tirx.GE,
    "and": tirx.And,
    "or": tirx.Or,
    "bitand": tirx.BitwiseAnd,
    "bitor": tirx.BitwiseOr,
    "bitxor": tirx.BitwiseXor,
    "shl": tirx.LShift,
    "shr": tirx.RShift,
}
UNARY = {"not": tirx.Not, "bitnot": tirx.BitwiseNot}
LOOPS = {"serial": 0, "parallel": 1, "vectorized": 2, "unrolled": 3, "thread": 4}
_AXES = "spatial thread reduce ordered opaque unrolled vectorized parallel tensorized"
AXES = {name: number for number, name in enumerate(_AXES.split())}
PRIM = ("if_then_else", "vscale", "log2", "likely", "clz", "ceil")


def build_module(document: dict[str, Any], symbol: str = "") -> Any:
    """The module of a document.

    Under a symbol, by which its first function is called, it can be put beside others.
    """
    names = {name: ir.GlobalVar(f"{symbol}_{name}" if symbol else name) for name in document["functions"]}
    if symbol:
        names[next(iter(names))] = ir.GlobalVar(symbol)
    functions = {names[name]: Builder(names).function(item) for name, item in document["functions"].items()}
    return ir.IRModule(functions)


def type_of(text: str) -> Any:
    """Return TVM's type of a type's text."""
    if text == "handle":
        return ir.PointerType(ir.PrimType("void"))
    if text.startswith("ptr:"):
        _, element, scope = text.split(":", 2)
        return ir.PointerType(ir.PrimType(element), scope)
    return ir.PrimType(text)


SPELLED_OUT = {"isfinite": tirx.isfinite, "isinf": tirx.isinf}
"""Intrinsics that TVM's own functions write as comparisons: nothing is registered for a call of them."""


class Builder:
    """Builds one function. Names are unique in it, so one table of each kind will do."""

    def __init__(self, functions: dict[str, Any]) -> None:
        self.functions = functions
        self.vars: dict[str, Any] = {}
        self.buffers: dict[str, Any] = {}

    def function(self, item: dict[str, Any]) -> Any:
        """Build a PrimFunc."""
        for one in item["params"]:
            if isinstance(one, list):
                self.define(*one)
        params = [self.buffer(one) if isinstance(one, dict) else self.vars[one[0]] for one in item["params"]]
        attrs = ir.make_node("ir.DictAttrs", **{key: self.data(one) for key, one in item["attrs"].items()})
        return tirx.PrimFunc(params, self.body(item["body"]), returned(item["returns"]), attrs)

    # Expressions

    def define(self, name: str, dtype: str) -> Any:
        """Make a variable and remember it by name."""
        self.vars[name] = tirx.Var(name, type_of(dtype))
        return self.vars[name]

    def expressions(self, items: Any) -> list[Any]:
        """Build several expressions, in order."""
        return [self.expression(item) for item in items]

    def expression(self, item: Any) -> Any:
        """Build an expression: a name, a literal, a number or a compound."""
        if isinstance(item, list):
            return self.compound(item[0], item[1:])
        if isinstance(item, str):
            return literal(item) if ":" in item else self.vars[item]
        if isinstance(item, bool):
            return tirx.IntImm("bool", item)
        return tirx.FloatImm("float32", item) if isinstance(item, float) else tirx.IntImm("int32", item)

    def compound(self, kind: str, rest: list[Any]) -> Any:
        """Build an expression by its kind; an unknown kind is a call of an intrinsic."""
        if kind in BINARY:
            return BINARY[kind](self.expression(rest[0]), self.expression(rest[1]))
        if kind in UNARY:
            return UNARY[kind](self.expression(rest[0]))
        special = EXPRESSIONS.get(kind)
        if special is not None:
            return special(self, *rest)
        args = self.expressions(rest)
        return self.call(kind, args[-1].ty, args)

    def call(self, callee: str, kind: Any, args: list[Any]) -> Any:
        """Build a call of an intrinsic, or of a function of the module (`@name`)."""
        if callee.startswith("@"):
            op = self.functions[callee[1:]]
        elif callee in SPELLED_OUT:
            return SPELLED_OUT[callee](*args)
        else:
            op = ir.Op.get(("prim." if callee in PRIM else "tirx.") + callee)
        return ir.Call(op, args, ret_ty=kind)

    # Buffers

    def buffer(self, item: dict[str, Any]) -> Any:
        """Make a buffer and remember it by name."""
        shape = self.expressions(item["shape"])
        first = shape[0].ty if shape else "int32"
        offset = self.expression(item["offset"]) if "offset" in item else tirx.IntImm(first, 0)
        layout = TileLayout(S[tuple(shape)]) if item.get("tiled") else None
        kind = native.BufferType(
            item.get("scope", "global"),
            ir.PrimType(item["dtype"]),
            shape,
            self.expressions(item.get("strides", [])),
            offset,
            item.get("align", 64),
            item.get("offset_factor", 1),
            layout,
            (),
            None,
        )
        self.buffers[item["name"]] = native.BufferVar(item["name"], kind, None)
        return self.buffers[item["name"]]

    def region(self, item: list[Any]) -> Any:
        """Build a region of a buffer: a range for each axis."""
        return tirx.BufferRegion(self.buffers[item[0]], [self.range(one) for one in item[1:]])

    def range(self, item: list[Any]) -> Any:
        """Build a range of a first value and an extent."""
        return ir.Range.from_min_extent(*self.expressions(item))

    # Statements

    def body(self, items: list[Any]) -> Any:
        """Build statements; an empty body is Evaluate(0)."""
        if not items:
            return tirx.Evaluate(tirx.IntImm("int32", 0))
        made = [STATEMENTS[item[0]](self, *item[1:]) for item in items]
        return made[0] if len(made) == 1 else tirx.SeqStmt(made)

    def loop(self, name: str, dtype: str, first: Any, extent: Any, kind: str, *rest: Any) -> Any:
        """Build a loop of any kind."""
        more = rest[0] if len(rest) > 1 else {}
        bounds = self.expressions([first, extent])
        step = self.expression(more["step"]) if "step" in more else None
        thread = self.thread(more["thread"]) if "thread" in more else None
        var = self.define(name, dtype)
        body = self.body(rest[-1]["body"])
        annotations = self.annotations(more.get("annotations", {}))
        return tirx.For(var, *bounds, LOOPS[kind], body, thread, annotations, step)

    def branch(self, condition: Any, bodies: dict[str, Any]) -> Any:
        """Build an if."""
        other = self.body(bodies["else"]) if "else" in bodies else None
        return tirx.IfThenElse(self.expression(condition), self.body(bodies["then"]), other)

    def attribute(self, node: Any, key: str, value: Any, bodies: dict[str, Any]) -> Any:
        """Build an AttrStmt."""
        about = self.data(node)
        return tirx.AttrStmt(about, key, self.expression(value), self.body(bodies["body"]))

    def thread(self, item: dict[str, Any]) -> Any:
        """Make the axis of a thread; one name is one variable."""
        domain = self.range(item["domain"]) if "domain" in item else None
        known = self.vars.get(item["name"])
        var = known if known is not None else tirx.Var(item["name"], type_of(item["dtype"]))
        if item["name"]:
            self.vars[item["name"]] = var
        return native.IterVar(domain, var, item["kind"], item["tag"], None)

    def block(self, name: str, told: dict[str, Any], bodies: dict[str, Any]) -> Any:
        """Build a block with its axes, regions, init and predicate."""
        predicate = self.expression(told.get("predicate", True))
        values = [self.expression(axis[5]) for axis in told["axes"]]
        axes = [self.axis(*axis) for axis in told["axes"]]
        allocs = [self.buffer(item) for item in told.get("allocs", [])]
        matches = [
            s_tir.MatchBufferRegion(self.buffer(buffer), self.region(source))
            for buffer, source in told.get("matches", [])
        ]
        reads, writes = ([self.region(item) for item in told[key]] for key in ("reads", "writes"))
        init = self.body(bodies["init"]) if "init" in bodies else None
        body = self.body(bodies["body"])
        annotations = self.annotations(told.get("annotations", {}))
        block = s_tir.SBlock(axes, reads, writes, name, body, init, allocs, matches, annotations)
        return s_tir.SBlockRealize(values, predicate, block)

    def axis(self, name: str, dtype: str, kind: str, first: Any, extent: Any, value: Any) -> Any:
        """Make an axis of a block."""
        domain = self.range([first, extent])
        return native.IterVar(domain, self.define(name, dtype), AXES[kind], "", None)

    # What annotations and attributes hold

    def annotations(self, items: dict[str, Any]) -> dict[str, Any]:
        """Build annotations, by key."""
        return {key: self.data(item) for key, item in items.items()}

    def data(self, item: Any) -> Any:
        """Build what an attribute holds: plain data, an expression, a buffer or a thread."""
        if isinstance(item, list):
            return [self.data(one) for one in item]
        if not isinstance(item, dict):
            return item
        if "expr" in item:
            return self.expression(item["expr"])
        if "buffer" in item:
            return self.buffers[item["buffer"]]
        if "thread" in item:
            return self.thread(item["thread"])
        if "target" in item:
            return tvm.target.Target(item["target"])
        return {key: self.data(one) for key, one in item["map"].items()}


def returned(text: str) -> Any:
    """The type that a function returns."""
    if text == "void":
        return ir.TupleType([])
    return ir.Type.missing() if text == "missing" else type_of(text)


def literal(text: str) -> Any:
    """A literal that spells its type."""
    value, dtype = text.split(":", 1)
    if "float" in dtype:
        return tirx.FloatImm(dtype, float(value))
    return tirx.const(int(value), dtype)


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "var": Builder.define,
    "text": lambda builder, value: ir.StringImm(value),
    "buffer": lambda builder, name: builder.buffers[name],
    "cast": lambda builder, dtype, value: tirx.Cast(dtype, builder.expression(value)),
    "select": lambda builder, *items: tirx.Select(*builder.expressions(items)),
    "ramp": lambda builder, base, stride, count: tirx.Ramp(*builder.expressions([base, stride]), count),
    "broadcast": lambda builder, value, count: tirx.Broadcast(builder.expression(value), count),
    "shuffle": lambda builder, vectors, indices: tirx.Shuffle(
        builder.expressions(vectors), builder.expressions(indices)
    ),
    "let": lambda builder, name, dtype, value, body: tirx.Let(
        builder.define(name, dtype), *builder.expressions([value, body])
    ),
    "load": lambda builder, name, *indices: tirx.BufferLoad(
        builder.buffers[name], builder.expressions(indices)
    ),
    "call": lambda builder, callee, dtype, *args: builder.call(
        callee, returned(dtype) if callee.startswith("@") else type_of(dtype), builder.expressions(args)
    ),
}
STATEMENTS: dict[str, Callable[..., Any]] = {
    "store": lambda builder, name, indices, value: tirx.BufferStore(
        builder.buffers[name], builder.expression(value), builder.expressions(indices)
    ),
    "bind": lambda builder, name, dtype, value: tirx.Bind(
        builder.define(name, dtype), builder.expression(value)
    ),
    "alloc": lambda builder, item, *more: tirx.AllocBuffer(
        builder.buffer(item), builder.annotations(*(more or [{}]))
    ),
    "declare": lambda builder, item, data: tirx.DeclBuffer(
        builder.buffer(item), data=builder.expression(data)
    ),
    "for": Builder.loop,
    "while": lambda builder, condition, bodies: tirx.While(
        builder.expression(condition), builder.body(bodies["body"])
    ),
    "if": Builder.branch,
    "assert": lambda builder, condition, kind, message: native.AssertStmt(
        builder.expression(condition), ir.StringImm(kind), [ir.StringImm(part) for part in message], None
    ),
    "evaluate": lambda builder, value: tirx.Evaluate(builder.expression(value)),
    "return": lambda builder, value: tirx.Return(builder.expression(value)),
    "break": lambda builder: tirx.Break(),
    "continue": lambda builder: tirx.Continue(),
    "attr": Builder.attribute,
    "seq": lambda builder, bodies: tirx.SeqStmt(
        [STATEMENTS[item[0]](builder, *item[1:]) for item in bodies["body"]]
    ),
    "block": Builder.block,
}
