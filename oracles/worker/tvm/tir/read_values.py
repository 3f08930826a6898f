"""What a PrimFunc's expressions and buffers are as data: node for node, names made unique."""

import keyword
import re
from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import tvm_ffi
from tvm import ir, tirx

from oracles.worker.tvm.tir.build import BINARY, UNARY
from oracles.worker.tvm.types import NotData

_BINARY = {kind: name for name, kind in BINARY.items()}
_UNARY = {kind: name for name, kind in UNARY.items()}


def type_text(kind: Any) -> str:
    """A type's text."""
    if isinstance(kind, ir.PrimType):
        text = str(kind.dtype)
        if "vscale" in text:
            raise NotData(f"a scalable vector ({text})")
        return text or "void"
    if isinstance(kind, ir.PointerType) and isinstance(kind.element_type, ir.PrimType):
        element = type_text(kind.element_type)
        is_handle = element == "void" and not kind.storage_scope
        return "handle" if is_handle else f"ptr:{element}:{kind.storage_scope}"
    raise NotData(f"the type {type(kind).__name__}")


def returned(kind: Any) -> str:
    """Write the type that a function returns."""
    if isinstance(kind, ir.TupleType) and not list(kind.fields):
        return "void"
    return "missing" if kind is None or kind.is_missing() else type_text(kind)


class ValueReader:
    """Reads the expressions and buffers of one function."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set()
        self.in_buffer = False

    # Names

    def define(self, var: Any) -> list[str]:
        """Name a variable: [name, dtype]."""
        self.names[var] = self.fresh(var.name)
        return [self.names[var], type_text(var.ty)]

    def fresh(self, name: str) -> str:
        """Make an identifier that is not taken, close to the name."""
        plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "v"
        plain = "v" + plain if plain[0].isdigit() or keyword.iskeyword(plain) else plain
        found, count = plain, 0
        while found in self.taken:
            count += 1
            found = f"{plain}_{count}"
        self.taken.add(found)
        return found

    # Expressions

    def expressions(self, items: Any) -> list[Any]:
        """Read several expressions, in order."""
        return [self.expression(item) for item in items]

    def expression(self, expr: Any) -> Any:
        """Read an expression. Raises NotData for a kind that the tree cannot say."""
        kind = type(expr)
        if kind in _BINARY:
            return [_BINARY[kind], self.expression(expr.a), self.expression(expr.b)]
        if kind in _UNARY:
            return [_UNARY[kind], self.expression(expr.a)]
        found = _EXPRESSIONS.get(kind)
        if found is None:
            raise NotData(f"the expression {kind.__name__}")
        return found(self, expr)

    def var(self, expr: Any) -> Any:
        """Read a variable: a plain one, a buffer's, or one that a buffer's shape defines."""
        if tirx.is_buffer_var(expr):
            return ["buffer", self.known(expr)]
        if self.in_buffer and expr not in self.names:
            return ["var", *self.define(expr)]
        return self.known(expr)

    def known(self, var: Any) -> str:
        """Give a variable's name. Raises NotData if nothing defines it."""
        if var not in self.names:
            raise NotData(f"the variable {var.name}, which nothing defines")
        return self.names[var]

    def call(self, expr: Any) -> Any:
        """Read a call of an intrinsic or of a function of the module."""
        if expr.attrs is not None or list(expr.ty_args):
            raise NotData(f"a call of {expr.op} with attributes")
        if isinstance(expr.op, ir.GlobalVar):
            callee = "@" + expr.op.name_hint
        elif isinstance(expr.op, ir.Op):
            family, callee = expr.op.name.split(".", 1)
            if family not in ("tirx", "prim"):
                raise NotData(f"a call of {expr.op.name}")
        else:
            raise NotData(f"a call of a {type(expr.op).__name__}")
        args = self.expressions(expr.args)
        is_own = callee.startswith("@")
        dtype = returned(expr.ty) if is_own else type_text(expr.ty)
        last = expr.args[-1] if len(expr.args) else None
        if last is not None and not is_own and _plain_type(last) == dtype:
            return [callee, *args]
        return ["call", callee, dtype, *args]

    def let(self, expr: Any) -> Any:
        """Read a let expression."""
        value = self.expression(expr.value)
        return ["let", *self.define(expr.var), value, self.expression(expr.body)]

    def load(self, expr: Any) -> Any:
        """Read a load from a buffer."""
        return ["load", self.known(expr.source), *self.expressions(expr.indices)]

    # Buffers

    def buffer(self, var: Any) -> dict[str, Any]:
        """Read a buffer; what is as usual is left out."""
        kind = var.ty
        item: dict[str, Any] = {"name": "", "shape": self.dims(kind.shape), "dtype": type_text(kind.dtype)}
        if len(kind.strides):
            item["strides"] = self.dims(kind.strides)
        offset = kind.elem_offset
        usual = kind.shape[0].ty if len(kind.shape) else ir.PrimType("int32")
        if not (isinstance(offset, tirx.IntImm) and offset.value == 0 and offset.ty == usual):
            item["offset"] = self.dims([offset])[0]
        if kind.storage_scope != "global":
            item["scope"] = kind.storage_scope
        if kind.data_alignment != 64:
            item["align"] = kind.data_alignment
        if kind.offset_factor != 1:
            item["offset_factor"] = kind.offset_factor
        if kind.layout is not None:
            self.must_be_plain(kind)
            item["tiled"] = True
        if len(kind.allocated_addr):
            raise NotData("a buffer at a given address")
        item["name"] = self.names[var] = self.fresh(var.name)
        return item

    def must_be_plain(self, kind: Any) -> None:
        """Require the usual layout of a buffer. Raises NotData for another."""
        from tvm.tirx.layout import S, TileLayout

        plain = TileLayout(S[tuple(kind.shape)]) if len(kind.shape) else None
        if plain is None or not tvm_ffi.structural_equal(plain, kind.layout):
            raise NotData(f"the layout {kind.layout}")

    def dims(self, items: Any) -> list[Any]:
        """Expressions of a buffer; a variable that nothing defined yet is given its type there."""
        self.in_buffer = True
        found = self.expressions(items)
        self.in_buffer = False
        return found

    def region(self, region: Any) -> list[Any]:
        """Read a region of a buffer."""
        return [self.known(region.source), *(self.range(one) for one in region.region)]

    def range(self, item: Any) -> list[Any]:
        """Read a range: [first, extent]."""
        return [self.expression(item.min), self.expression(item.extent)]


def _plain_type(expr: Any) -> str:
    kind = expr.ty
    return type_text(kind) if isinstance(kind, (ir.PrimType, ir.PointerType)) else ""


def _integer(reader: ValueReader, expr: Any) -> Any:
    dtype = type_text(expr.ty)
    if dtype == "bool":
        return bool(expr.value)
    return int(expr.value) if dtype == "int32" else f"{int(expr.value)}:{dtype}"


def _float(reader: ValueReader, expr: Any) -> Any:
    dtype, value = type_text(expr.ty), float(expr.value)
    is_finite = value - value == 0
    return value if dtype == "float32" and is_finite else f"{value!r}:{dtype}"


def _lanes(item: Any) -> int:
    if not isinstance(item, (int, tirx.IntImm)):
        raise NotData("a scalable vector")
    return int(item)


_EXPRESSIONS: dict[Any, Callable[..., Any]] = {
    ir.Var: ValueReader.var,
    tirx.IntImm: _integer,
    tirx.FloatImm: _float,
    ir.StringImm: lambda reader, expr: ["text", str(expr.value)],
    tirx.Cast: lambda reader, expr: ["cast", type_text(expr.ty), reader.expression(expr.value)],
    tirx.Select: lambda reader, expr: [
        "select",
        *reader.expressions([expr.condition, expr.true_value, expr.false_value]),
    ],
    tirx.Ramp: lambda reader, expr: [
        "ramp",
        *reader.expressions([expr.base, expr.stride]),
        _lanes(expr.lanes),
    ],
    tirx.Broadcast: lambda reader, expr: ["broadcast", reader.expression(expr.value), _lanes(expr.lanes)],
    tirx.Shuffle: lambda reader, expr: [
        "shuffle",
        reader.expressions(expr.vectors),
        reader.expressions(expr.indices),
    ],
    tirx.Let: ValueReader.let,
    ir.TensorLoad: ValueReader.load,
    ir.Call: ValueReader.call,
}
