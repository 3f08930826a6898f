"""What is visible at a place of a function: variables with their ranges, buffers to read and to write.

Operations are counted as often as the loops around them run; a loop that only memory ends is interpreted.
The bytes are those of all parameters and allocations together. A chain of operators goes through names and
memory, in the order of the statements; what a loop carries on counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod

from corpus.tir.forms import is_integer, numpy_dtype
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
    Module,
    Seq,
    Stmt,
    Store,
    While,
)
from corpus.tir.values import Binary, Buffer, Call, Cast, Const, Expr, Let, Load, Select, Unary, Var
from corpus.tir.walk import bodies, children, expressions, statements, walk
from generators.language.profile import Budget
from generators.tir.ranged import inputs_of
from oracles.tir.interpreter import interpret

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


_OPERATIONS = (Binary, Call, Cast, Select, Unary)


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations of one run (None if memory ends a loop), bytes, largest dim, longest chain."""

    flops: int | None
    memory: int
    dim: int
    depth: int


def is_within(module: Module, budget: Budget, seed: int) -> bool:
    """Say whether a program with the inputs of a seed costs no more than the budget allows."""
    if not budget.is_limited:
        return True
    cost = cost_of(module)
    if cost is None or not budget.fits((cost.dim,)) or not budget.reaches(cost.depth):
        return False
    if cost.flops is not None:
        return budget.holds(cost.flops, cost.memory, 0)
    costliest = max((_own(each) for each in statements(module.main.body)), default=1) or 1
    return any(
        budget.holds(steps * costliest, cost.memory, 0)
        and interpret(module, inputs_of(module, seed), trials=0, steps=steps).is_modelled
        for steps in (20, 60, 200, 600, 3_000)
    )


def cost_of(module: Module) -> Cost | None:
    """What a run of the first function costs; None if that depends on arguments, or on other functions."""
    function = module.main
    if len(module.functions) > 1:
        return None
    stmts = [*statements(function.body)]
    blocks = [each for each in stmts if isinstance(each, Block)]
    own = [each.buffer for each in stmts if isinstance(each, Alloc | Declare)]  # views, too
    memory = [*function.buffers, *own, *(buffer for block in blocks for buffer in block.allocs)]
    shapes = [static_shape(buffer) for buffer in memory]
    extents = [each.extent for each in stmts if isinstance(each, For)]
    known = [int(each.value) for each in extents if isinstance(each, Const)]
    if None in shapes or len(known) < len(extents):
        return None
    size = sum(_bytes(buffer) for buffer in memory)
    dims = [dim for shape in shapes if shape is not None for dim in shape]
    is_open = any(isinstance(each, While) for each in stmts)
    flops = None if is_open else _flops(function.body)
    return Cost(flops, size, max((*dims, *known), default=1), _Chains().longest(function.body))


def _bytes(buffer: Buffer) -> int:
    kind = numpy_dtype(buffer.dtype)
    return prod(static_shape(buffer) or ()) * (kind.itemsize if kind is not None else 8)


def _flops(body: Body, times: int = 1) -> int:
    """Count the operations of a body that runs so often; of a branch both sides."""
    total = 0
    for stmt in body:
        rounds = int(stmt.extent.value) if isinstance(stmt, For) and isinstance(stmt.extent, Const) else 1
        total += times * _own(stmt) + sum(_flops(each, times * rounds) for each in bodies(stmt))
    return total


def _own(stmt: Stmt) -> int:
    """Count the operations of a statement itself; a store of what is there already counts as one."""
    own = [each for each in children(stmt) if not isinstance(each, Stmt)]
    found = sum(isinstance(each, _OPERATIONS) for part in own for each in expressions((part,)))
    return found + isinstance(stmt, Store)


class _Chains:
    """How long the chain is that made each name and what each buffer holds."""

    def __init__(self) -> None:
        self.made: dict[str, int] = {}

    def longest(self, body: Body) -> int:
        """The longest chain of operators in a body."""
        found = 0
        for stmt in statements(body):
            own = max((self.chain(each) for each in children(stmt) if isinstance(each, Expr)), default=0)
            found = max(found, own)
            if isinstance(stmt, Store):
                self.made[stmt.buffer] = max(self.made.get(stmt.buffer, 0), own)
            elif isinstance(stmt, Bind):
                self.made[stmt.var.name] = own
            elif isinstance(stmt, Block):
                self.made.update((view.buffer.name, self.of(view.source.buffer)) for view in stmt.matches)
                self.made.update((axis.var.name, self.chain(axis.value)) for axis in stmt.axes)
        return found

    def of(self, name: str) -> int:
        """The chain behind a name or a buffer."""
        return self.made.get(name, 0)

    def chain(self, expr: Expr) -> int:
        """The length of the longest chain that ends in an expression."""
        if isinstance(expr, Var):
            return self.of(expr.name)
        if isinstance(expr, Let):
            self.made[expr.var.name] = self.chain(expr.value)
        below = max((self.chain(each) for each in children(expr) if isinstance(each, Expr)), default=0)
        if isinstance(expr, Load):
            return max(below, self.of(expr.buffer))
        return below + isinstance(expr, _OPERATIONS)
