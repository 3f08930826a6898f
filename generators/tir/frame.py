"""What is visible at a place of a function: variables with their ranges, buffers to read and to write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from corpus.tir.forms import is_integer
from corpus.tir.tree import (
    Alloc,
    Attr,
    Bind,
    Block,
    Body,
    Declare,
    For,
    Function,
    If,
    Seq,
    Stmt,
    While,
)
from corpus.tir.values import Buffer, Const, Expr, Var
from corpus.tir.walk import walk

MOST_COUNT = 8
"""What a number is at most that a caller gives."""
FAR = 1 << 20
"""What is assumed of an integer of which nothing is known: it lies within this of zero."""


@dataclass(frozen=True, slots=True)
class Known:
    """A variable, and the range that its integer value lies in, both ends included."""

    var: Var
    low: int = -FAR
    high: int = FAR


@dataclass(frozen=True, slots=True)
class Frame:
    """The names that a statement or an expression at this place may use.

    `written` are buffers that may be stored to: parameters and allocations. `loops` are the variables of the
    loops around, from the outside in. In an `extreme` one buffers hold any value of their types, elsewhere
    small ones. Where it `can_jump`, a loop is around with no block between.
    """

    known: tuple[Known, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    loops: tuple[Known, ...] = ()
    extreme: bool = False
    can_jump: bool = False

    def with_var(self, known: Known) -> Frame:
        """The frame with a variable more."""
        return replace(self, known=(*self.known, known))

    def with_loop(self, known: Known) -> Frame:
        """The frame within a loop over this variable."""
        loops = (*self.loops, known)
        return replace(self, known=(*self.known, known), loops=loops, can_jump=True)

    def with_buffer(self, buffer: Buffer) -> Frame:
        """The frame with a buffer more."""
        return replace(self, buffers=(*self.buffers, buffer))


@dataclass
class Names:
    """Names that nothing in a module has yet."""

    taken: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, function: Function) -> Names:
        """The names that a function does not use yet."""
        named = (getattr(item, "name", "") for item in walk((function,)))
        return cls({name for name in named if isinstance(name, str) and name})

    def fresh(self, stem: str) -> str:
        """A new name that begins so."""
        name = next(f"{stem}{number}" for number in count() if f"{stem}{number}" not in self.taken)
        self.taken.add(name)
        return name


def static_shape(buffer: Buffer) -> tuple[int, ...] | None:
    """The dims of a buffer; None where one is computed."""
    dims = [dim.value for dim in buffer.shape if isinstance(dim, Const)]
    return tuple(map(int, dims)) if len(dims) == len(buffer.shape) else None


def start_of(function: Function, *, extreme: bool = False) -> Frame:
    """The names that are visible at the start of a function."""
    frame = Frame(extreme=extreme)
    for param in function.params:
        if isinstance(param, Buffer):
            frame = frame.with_buffer(param)
        elif is_integer(param.dtype):
            frame = frame.with_var(Known(param, 0, MOST_COUNT))
    return frame


def places(function: Function) -> Iterator[tuple[int, Stmt, Frame]]:
    """Every statement by its position (as `walk.statements` counts), with the names visible before it."""
    yield from _Walk().body(function.body, start_of(function))


class _Walk:
    """Counts statements in pre-order while it goes down."""

    def __init__(self) -> None:
        self.position = -1

    def body(self, body: Body, frame: Frame) -> Iterator[tuple[int, Stmt, Frame]]:
        for stmt in body:
            self.position += 1
            yield self.position, stmt, frame
            yield from self._below(stmt, frame)
            frame = _after(stmt, frame)

    def _below(self, stmt: Stmt, frame: Frame) -> Iterator[tuple[int, Stmt, Frame]]:
        match stmt:
            case For():
                yield from self.body(stmt.body, frame.with_loop(_loop_range(stmt)))
            case If():
                yield from self.body(stmt.then, frame)
                yield from self.body(stmt.other or (), frame)
            case While() | Attr() | Seq():
                yield from self.body(stmt.body, frame)
            case Block():
                inner = _in_block(stmt, frame)
                yield from self.body(stmt.body, inner)
                yield from self.body(stmt.init or (), inner)


def _after(stmt: Stmt, frame: Frame) -> Frame:
    """The names that are visible after a statement in the same body."""
    match stmt:
        case Bind():
            return frame.with_var(Known(stmt.var))
        case Alloc() | Declare():
            return frame.with_buffer(stmt.buffer)
    return frame


def _loop_range(stmt: For) -> Known:
    low, extent = _constant(stmt.min), _constant(stmt.extent)
    if low is None or extent is None:
        return Known(stmt.var, 0, FAR)
    return Known(stmt.var, low, low + max(extent, 1) - 1)


def _in_block(stmt: Block, frame: Frame) -> Frame:
    """A block with axes knows of the loops around it by these alone."""
    if stmt.axes:
        seen = tuple(each for each in frame.known if each not in frame.loops)
        frame = replace(frame, known=seen, loops=())
    for axis in stmt.axes:
        extent = _constant(axis.domain.extent)
        frame = frame.with_loop(Known(axis.var, 0, (extent or FAR) - 1))
    for buffer in stmt.allocs:
        frame = frame.with_buffer(buffer)
    return replace(frame, can_jump=False)


def _constant(expr: Expr) -> int | None:
    return int(expr.value) if isinstance(expr, Const) else None
