"""The tree: expressions, statements, buffers, functions and modules of TVM's loop IR, immutable.

An expression knows its type (`dtype`, spelt as in `corpus/tir/types.py`). Variables and buffers are told
apart by their names, which are unique in a function. A body is a tuple of statements; an empty one does
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from corpus.tir.types import is_float, lanes, with_lanes

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "mod", "floordiv", "floormod", "min", "max"})
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
LOGIC = frozenset({"and", "or"})
BITWISE = frozenset({"bitand", "bitor", "bitxor", "shl", "shr"})
BINARY = ARITHMETIC | COMPARISONS | LOGIC | BITWISE
UNARY = frozenset({"not", "bitnot"})
LOOPS = ("serial", "parallel", "vectorized", "unrolled", "thread")

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Expr:
    """Anything that has a value."""


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A variable's value."""

    name: str
    dtype: str = "int32"


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A scalar literal; a vector of it is a `Broadcast`."""

    value: int | float | bool
    dtype: str = "int32"


@dataclass(frozen=True, slots=True)
class Text(Expr):
    """A string that a call takes, such as the name of what it calls."""

    value: str

    @property
    def dtype(self) -> str:
        """Strings count as addresses."""
        return "handle"


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """One of `BINARY` of two operands of one type."""

    op: str
    a: Expr
    b: Expr

    @property
    def dtype(self) -> str:
        """That of the operands; truth values for comparisons and logic."""
        operand = type_of(self.a)
        return operand if self.op in ARITHMETIC or self.op in BITWISE else with_lanes("bool", lanes(operand))


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`not` of a truth value, `bitnot` of an integer."""

    op: str
    a: Expr

    @property
    def dtype(self) -> str:
        """The operand's."""
        return type_of(self.a)


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """The value in another type with as many lanes."""

    dtype: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """One of two values; both are computed."""

    condition: Expr
    then: Expr
    other: Expr

    @property
    def dtype(self) -> str:
        """That of the branches."""
        return type_of(self.then)


@dataclass(frozen=True, slots=True)
class Ramp(Expr):
    """The vector `base, base + stride, …` of so many lanes."""

    base: Expr
    stride: Expr
    lanes: int

    @property
    def dtype(self) -> str:
        """A vector of the base's type."""
        return with_lanes(type_of(self.base), self.lanes * lanes(type_of(self.base)))


@dataclass(frozen=True, slots=True)
class Broadcast(Expr):
    """A vector of the same value in every lane."""

    value: Expr
    lanes: int

    @property
    def dtype(self) -> str:
        """A vector of the value's type."""
        return with_lanes(type_of(self.value), self.lanes * lanes(type_of(self.value)))


@dataclass(frozen=True, slots=True)
class Shuffle(Expr):
    """The lanes of some vectors, one after the other, picked by constant indices."""

    vectors: tuple[Expr, ...]
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:
        """As many lanes as indices."""
        return with_lanes(type_of(self.vectors[0]), len(self.indices))


@dataclass(frozen=True, slots=True)
class Let(Expr):
    """A value under a name within one expression."""

    var: Var
    value: Expr
    body: Expr

    @property
    def dtype(self) -> str:
        """The body's."""
        return type_of(self.body)


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """What a buffer holds at some indices; a vector where the last index is one."""

    buffer: str
    indices: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class BufferRef(Expr):
    """A buffer itself, as an operand of a call."""

    buffer: str

    @property
    def dtype(self) -> str:
        """Buffers count as addresses."""
        return "handle"


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """An intrinsic by its name in `INTRINSICS`, or another function of the module as `@name`."""

    callee: str
    args: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Range:
    """So many values from the first one on."""

    min: Expr
    extent: Expr


@dataclass(frozen=True, slots=True)
class Region:
    """A box in a buffer: a range for each dim."""

    buffer: str
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A typed piece of memory. No strides: row-major. `offset` counts elements from where its data begins.

    `tiled` tells TVM to keep the row-major layout as an explicit tile layout, as it does for scalars.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: str
    strides: tuple[Expr, ...] = ()
    offset: Expr = Const(0)
    scope: str = "global"
    align: int = 64
    offset_factor: int = 1
    tiled: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """A block's iteration variable: `kind` is spatial, reduce, ordered or opaque; `value` is what the loops
    bind.
    """

    var: Var
    domain: Range
    kind: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Match:
    """A buffer that is a region of another one."""

    buffer: Buffer
    source: Region


@dataclass(frozen=True, slots=True)
class Thread:
    """What a loop or a scope is bound to, such as `threadIdx.x`. `domain` and `name` are often absent."""

    tag: str
    name: str = ""
    dtype: str = "int32"
    domain: Range | None = None
    kind: int = 1


@dataclass(frozen=True, slots=True)
class Stmt:
    """Anything that is done."""


Body: TypeAlias = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    """A value put into a buffer; a vector where the last index is one."""

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Bind(Stmt):
    """A value under a name, for the statements that follow in the same body."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Alloc(Stmt):
    """Fresh memory, for the statements that follow in the same body. What it holds is undefined."""

    buffer: Buffer
    annotations: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declare(Stmt):
    """A buffer at an address that already has memory, for the statements that follow in the same body."""

    buffer: Buffer
    data: Expr


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """A loop of one of `LOOPS`. A `step` of None is 1."""

    var: Var
    min: Expr
    extent: Expr
    kind: str
    body: Body
    step: Expr | None = None
    thread: Thread | None = None
    annotations: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class While(Stmt):
    """A loop as long as the condition holds."""

    condition: Expr
    body: Body


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """One of two bodies; `other` is None without an else."""

    condition: Expr
    then: Body
    other: Body | None = None


@dataclass(frozen=True, slots=True)
class Assert(Stmt):
    """An error of that kind where the condition does not hold."""

    condition: Expr
    message: tuple[str, ...] = ()
    kind: str = "RuntimeError"


@dataclass(frozen=True, slots=True)
class Evaluate(Stmt):
    """An expression computed for its effect."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    """The end of the function."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    """The end of the innermost loop."""


@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    """The end of the innermost loop's round."""


@dataclass(frozen=True, slots=True)
class Attr(Stmt):
    """A body under an attribute. `node` is JSON, a `Thread`, an expression or a buffer."""

    node: Json | Thread | Expr
    key: str
    value: Expr
    body: Body


@dataclass(frozen=True, slots=True)
class Seq(Stmt):
    """A sequence within a sequence, which some of TVM's passes leave behind."""

    body: Body


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """A block with its axes, what it reads and writes, its initial statement and its own memory."""

    name: str
    axes: tuple[Axis, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    body: Body
    init: Body | None = None
    predicate: Expr = Const(True, "bool")
    allocs: tuple[Buffer, ...] = ()
    matches: tuple[Match, ...] = ()
    annotations: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Function:
    """A PrimFunc. The dims of its buffers' shapes may be variables that the caller's arrays give a value.

    `returns` is `void`, `missing` (nothing was said) or a type.
    """

    params: tuple[Buffer | Var, ...]
    body: Body
    returns: str = "void"
    attrs: Mapping[str, Json] = field(default_factory=dict)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers among its parameters."""
        return tuple(item for item in self.params if isinstance(item, Buffer))


@dataclass(frozen=True, slots=True)
class Module:
    """Functions by name; the first one is what a case runs."""

    functions: Mapping[str, Function]

    @property
    def entry(self) -> str:
        """The name of the function that is run."""
        return next(iter(self.functions))

    @property
    def main(self) -> Function:
        """The function that is run."""
        return self.functions[self.entry]


def type_of(expr: Expr) -> str:
    """An expression's type."""
    dtype: str = expr.dtype  # type: ignore[attr-defined]
    return dtype


def literal(value: int | float | bool, dtype: str) -> Expr:
    """The constant of that type, a broadcast for a vector."""
    if (count := lanes(dtype)) > 1:
        return Broadcast(literal(value, with_lanes(dtype, 1)), count)
    return Const(float(value), dtype) if is_float(dtype) else Const(value, dtype)
