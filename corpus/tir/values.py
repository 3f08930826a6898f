"""The tree's expressions and buffers: all that has a value or holds values, immutable.

An expression knows its type (`dtype`, spelt as in `corpus/tir/forms.py`). Variables and buffers are told
apart by their names, which are unique in a function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from corpus.tir.forms import BufferName, DType, Lanes, Word, form, is_float, lanes, with_lanes

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "mod", "floordiv", "floormod", "min", "max"})
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
LOGIC = frozenset({"and", "or"})
BITWISE = frozenset({"bitand", "bitor", "bitxor", "shl", "shr"})
BINARY = ARITHMETIC | COMPARISONS | LOGIC | BITWISE
UNARY = frozenset({"not", "bitnot"})


@dataclass(frozen=True, slots=True)
class Expr:
    """Anything that has a value."""


Inner: TypeAlias = Expr
"""An expression in which the names that its node defines are visible."""


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A variable's value."""

    name: str
    dtype: DType = "int32"


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A scalar literal; a vector of it is a `Broadcast`."""

    value: int | float | bool
    dtype: DType = "int32"


@form("text value")
@dataclass(frozen=True, slots=True)
class Text(Expr):
    """A string that a call takes, such as the name of what it calls."""

    value: Word

    @property
    def dtype(self) -> str:
        """Strings count as addresses."""
        return "handle"


@form("_ op a b", BINARY)
@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """One of `BINARY` of two operands of one type."""

    op: str
    a: Expr
    b: Expr

    @property
    def dtype(self) -> str:
        """The operands' type; a truth value for comparisons and logic."""
        operand = type_of(self.a)
        return operand if self.op in ARITHMETIC or self.op in BITWISE else with_lanes("bool", lanes(operand))


@form("_ op a", UNARY)
@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`not` of a truth value, `bitnot` of an integer."""

    op: str
    a: Expr

    @property
    def dtype(self) -> str:
        """The operand's."""
        return type_of(self.a)


@form("cast dtype value")
@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """The value in another type with as many lanes."""

    dtype: DType
    value: Expr


@form("select condition then other")
@dataclass(frozen=True, slots=True)
class Select(Expr):
    """One of two values; both are computed."""

    condition: Expr
    then: Expr
    other: Expr

    @property
    def dtype(self) -> str:
        """The branches' type."""
        return type_of(self.then)


@form("ramp base stride lanes")
@dataclass(frozen=True, slots=True)
class Ramp(Expr):
    """The vector `base, base + stride, …` of `lanes` lanes."""

    base: Expr
    stride: Expr
    lanes: Lanes

    @property
    def dtype(self) -> str:
        """A vector of the base's type."""
        return with_lanes(type_of(self.base), self.lanes * lanes(type_of(self.base)))


@form("broadcast value lanes")
@dataclass(frozen=True, slots=True)
class Broadcast(Expr):
    """A vector of the same value in every lane."""

    value: Expr
    lanes: Lanes

    @property
    def dtype(self) -> str:
        """A vector of the value's type."""
        return with_lanes(type_of(self.value), self.lanes * lanes(type_of(self.value)))


@form("shuffle vectors indices")
@dataclass(frozen=True, slots=True)
class Shuffle(Expr):
    """The lanes of some vectors, one after the other, picked by constant indices."""

    vectors: tuple[Expr, ...]
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:
        """The element type with as many lanes as indices."""
        return with_lanes(type_of(self.vectors[0]), len(self.indices))


@form("let *var value body")
@dataclass(frozen=True, slots=True)
class Let(Expr):
    """A value under a name within one expression."""

    var: Var
    value: Expr
    body: Inner

    @property
    def dtype(self) -> str:
        """The body's."""
        return type_of(self.body)


@form("load buffer *indices")
@dataclass(frozen=True, slots=True)
class Load(Expr):
    """A load from a buffer at some indices; it gives a vector if the last index is a vector."""

    buffer: BufferName
    indices: tuple[Expr, ...]
    dtype: DType


@form("buffer buffer")
@dataclass(frozen=True, slots=True)
class BufferRef(Expr):
    """A buffer itself, as an operand of a call."""

    buffer: BufferName

    @property
    def dtype(self) -> str:
        """Buffers count as addresses."""
        return "handle"


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """An intrinsic by its name in `INTRINSICS`, or another function of the module as `@name`."""

    callee: str
    args: tuple[Expr, ...]
    dtype: DType


@form("_ min extent")
@dataclass(frozen=True, slots=True)
class Range:
    """So many values from the first one on."""

    min: Expr
    extent: Expr


@form("_ buffer *ranges")
@dataclass(frozen=True, slots=True)
class Region:
    """A box in a buffer: a range for each dim."""

    buffer: BufferName
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A typed piece of memory. No strides: row-major. `offset` counts elements from where its data begins.

    `tiled` tells TVM to keep the row-major layout as an explicit tile layout, as it does for scalars.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    strides: tuple[Expr, ...] = ()
    offset: Expr = Const(0)
    scope: str = "global"
    align: int = 64
    offset_factor: int = 1
    tiled: bool = False


PLAIN_BUFFER: Mapping[str, Any] = {"scope": "global", "align": 64, "offset_factor": 1, "tiled": False}
"""The rest of a buffer as it usually is; the document leaves it unsaid."""


def plain_offset(shape: tuple[Expr, ...]) -> Const:
    """The offset that the document leaves unsaid: 0 in the type of the first dim."""
    return Const(0, type_of(shape[0]) if shape else "int32")


def type_of(expr: Expr) -> str:
    """An expression's type."""
    dtype: str = expr.dtype  # type: ignore[attr-defined]
    return dtype


def literal(value: int | float | bool, dtype: str) -> Expr:
    """The constant of that type, a broadcast for a vector."""
    if (count := lanes(dtype)) > 1:
        return Broadcast(literal(value, with_lanes(dtype, 1)), count)
    return Const(float(value), dtype) if is_float(dtype) else Const(value, dtype)
