"""Statements of a frame, of so much fuel: stores, loops, branches, names, memory, counted while loops.

Then stores of several lanes, views of memory that is there, and jumps out of loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from corpus.tir.forms import integer_range, is_float, is_integer, pointer_to
from corpus.tir.tree import Alloc, Assert, Bind, Body, Declare, Evaluate, For, If, Stmt, Store, While
from corpus.tir.values import Binary, Buffer, BufferRef, Call, Cast, Const, Expr, Load, Var, literal
from corpus.tir.walk import statements
from generators.language.values import RandomSource
from generators.tir.frame import MOST_COUNT, Frame, Known, Names, static_shape
from generators.tir.ranged import Valued
from generators.tir.values import Sampler, element_type, usable
from generators.tir.vectors import vector_store

_EXTENTS = (1, 2, 3, 4, 4, 5, 8, 8, 16)
_MOST_ELEMENTS = 64
_FUEL = 6


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for what is drawn: the extents of dims, the elements of a buffer, the operators of a value."""

    extents: tuple[int, ...] = _EXTENTS
    elements: int = _MOST_ELEMENTS
    fuel: int = _FUEL


USUAL = Limits()
WIDE = Limits((7, 9, 15, 17, 31, 33, 63, 65, 127, 129, 257, 257, 300, 300), 320)
"""Around the widths of vectors and tiles, primes among them, and often beyond a byte."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes statements; every new name is one of `names`."""

    draws: RandomSource
    names: Names
    limits: Limits = USUAL

    def body(self, frame: Frame, fuel: int, depth: int = 0) -> Body:
        """Grow several statements that share the fuel; each sees what the earlier ones define."""
        found: list[Stmt] = []
        while fuel > 0:
            made, frame = self.some(frame, fuel, depth)
            found += made
            fuel -= max(1, sum(map(cost, made)))
        return tuple(found) or (self.store(frame),)

    def some(self, frame: Frame, fuel: int, depth: int = 0) -> tuple[Body, Frame]:
        """Grow one statement, or a few that belong together. Returns the frame after them as well."""
        kinds = _SIMPLE if depth >= 3 or fuel < 3 else _ALL
        for _ in range(4):
            made = self.draws.pick(kinds)(self, frame, fuel - 1, depth)
            if made is not None:
                return made
        return (self.store(frame),), frame

    def store(self, frame: Frame) -> Stmt:
        """A value put into one of the buffers that are visible; only computed where there is none."""
        known = _usable(frame)
        sampler = Sampler(self.draws, frame)
        if not known:
            return self.evaluated(frame)
        buffer = self.draws.pick(known)
        shape = static_shape(buffer) or ()
        value = sampler.value(buffer.dtype, self.draws.between(1, self.limits.fuel))
        return Store(buffer.name, sampler.indices(shape), sampler.kept(value, buffer.dtype))

    def evaluated(self, frame: Frame) -> Stmt:
        """A value that is only computed."""
        return Evaluate(Sampler(self.draws, frame).value("int32", 2).expr)

    def truth(self, frame: Frame) -> Expr:
        """A condition."""
        return Sampler(self.draws, frame).value("bool", self.draws.between(1, 3)).expr

    def filled(self, frame: Frame, buffer: Buffer) -> Body:
        """Loops that store into every element of a buffer."""
        shape = static_shape(buffer) or ()
        loops = [Var(self.names.fresh("i")) for _ in shape]
        sampler = Sampler(self.draws, _over(frame, loops, shape))
        value = sampler.value(buffer.dtype, self.draws.between(1, self.limits.fuel))
        store = Store(buffer.name, tuple(loops), sampler.kept(value, buffer.dtype))
        return nested(loops, shape, (store,))

    def buffer(self, stem: str, scope: str = "global") -> Buffer:
        """A new buffer of one to three dims."""
        dims = [self.draws.pick(self.limits.extents) for _ in range(self.draws.pick((1, 1, 2, 2, 3)))]
        while math.prod(dims) > self.limits.elements:
            dims.pop()
        shape = tuple(map(Const, dims or [min(4, self.limits.elements, max(self.limits.extents))]))
        return Buffer(self.names.fresh(stem), shape, element_type(self.draws), scope=scope)


def _usable(frame: Frame) -> list[Buffer]:
    return [each for each in frame.buffers if usable(each)]


def nested(loops: Sequence[Var], shape: tuple[int, ...], body: Body) -> Body:
    """A nest of serial loops around a body, a loop for each dim."""
    for var, extent in zip(reversed(loops), reversed(shape), strict=True):
        body = (For(var, Const(0), Const(extent), "serial", body),)
    return body


def cost(stmt: Stmt) -> int:
    """Count a statement and those inside it."""
    return len([*statements((stmt,))])


Made = tuple[Body, Frame]


def _store(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made:
    return (maker.store(frame),), frame


def _fill(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    known = _usable(frame)
    return (maker.filled(frame, maker.draws.pick(known)), frame) if known else None


def _loop(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made:
    draws, var = maker.draws, Var(maker.names.fresh("i"))
    counts = [each for each in frame.known if each.low == 0 and each.high <= MOST_COUNT]
    counts = [each for each in counts if each not in frame.loops and each.var.dtype == "int32"]
    low, extent = draws.pick((0, 0, 0, 0, 1, 2)), draws.pick(maker.limits.extents)
    number: Expr = Const(extent)
    if counts and draws.chance(0.4):  # only a caller knows how often
        low, extent, number = 0, MOST_COUNT, draws.pick(counts).var
    inner = frame.with_loop(Known(var, low, low + extent - 1))
    kind = "unrolled" if isinstance(number, Const) and draws.chance(0.15) else "serial"
    body = maker.body(inner, draws.between(1, max(1, fuel // 2)), depth + 1)
    return (For(var, Const(low), number, kind, body),), frame


def _branch(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made:
    then = maker.body(frame, max(1, fuel // 3), depth + 1)
    other = maker.body(frame, max(1, fuel // 3), depth + 1) if maker.draws.chance(0.4) else None
    return (If(maker.truth(frame), then, other),), frame


def _bind(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made:
    dtype = maker.draws.pick(("int32", "int32", "int64", "float32", "bool"))
    made = Sampler(maker.draws, frame).value(dtype, maker.draws.between(1, 4))
    var = Var(maker.names.fresh("x"), dtype)
    return (Bind(var, made.expr),), frame.with_var(Known(var, made.low, made.high))


def _memory(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made:
    """Fresh memory, filled; sometimes with room between its rows or its elements."""
    buffer = maker.buffer("T", maker.draws.pick(("global", "global", "local")))
    if maker.draws.chance(0.2):
        strides, pitch = list[Expr](), maker.draws.pick((1, 1, 2))
        for dim in reversed(static_shape(buffer) or ()):
            strides.insert(0, Const(pitch))
            pitch = pitch * dim + maker.draws.pick((0, 1, 3))
        buffer = replace(buffer, strides=tuple(strides))
    filled = maker.filled(frame, buffer)
    return (Alloc(buffer), *filled), frame.with_buffer(buffer)


def _narrow(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    """Memory of a few bits an element, filled, and read as elements of a buffer with arithmetic."""
    draws = maker.draws
    kind, wide = draws.pick((*_EIGHT_BITS, *_EIGHT_BITS, *_PACKED))
    targets = [each for each in _usable(frame) if is_float(each.dtype) >= is_float(wide)]
    if not targets:
        return None
    memory, target = replace(maker.buffer("N"), dtype=kind), draws.pick(targets)
    shape = static_shape(memory) or ()
    loops, again = ([Var(maker.names.fresh("i")) for _ in shape] for _ in range(2))
    value = Sampler(draws, _over(frame, loops, shape)).value(wide, draws.between(0, 2)).expr
    value = _within(draws, value, wide) if is_float(wide) else value
    places = Sampler(draws, _over(frame, again, shape)).indices(static_shape(target) or ())
    read = Cast(target.dtype, Cast(wide, Load(memory.name, tuple(again), kind)))
    fill, use = Store(memory.name, tuple(loops), Cast(kind, value)), Store(target.name, places, read)
    return (Alloc(memory), *nested(loops, shape, (fill,)), *nested(again, shape, (use,))), frame


def _over(frame: Frame, loops: Sequence[Var], shape: tuple[int, ...]) -> Frame:
    """The frame within loops over these dims."""
    for var, extent in zip(loops, shape, strict=True):
        frame = frame.with_loop(Known(var, 0, extent - 1))
    return frame


_EIGHT_BITS = (("float8_e4m3fn", "float32"), ("float8_e5m2", "float16"))
_LARGEST = 448
"""Of the eight-bit type of the smallest range."""
_PACKED = (("int4", "int32"), ("uint4", "int32"), ("int4", "int8"))


def _within(draws: RandomSource, value: Expr, dtype: str) -> Expr:
    """A float that eight bits hold, mostly a normal one: TVM keeps no other, and shows nothing else then.

    Half are made larger, so that many end at the type's largest number: that one is exact, and shows most.
    """
    size: Expr = Call("fabs", (value,), dtype)
    if draws.chance(0.5):
        size = Binary("mul", size, literal(draws.pick((16, 256)), dtype))
    size = Binary("min", size, literal(_LARGEST, dtype))
    return size if draws.chance(0.1) else Binary("max", size, literal(0.125, dtype))


def _while(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made:
    """A loop over a counter in memory, since names do not change."""
    counter = Buffer(maker.names.fresh("C"), (Const(1),), "int32")
    load, zero = Load(counter.name, (Const(0),), "int32"), (Const(0),)
    body = maker.body(frame, max(1, fuel // 3), depth + 1)
    step = Store(counter.name, zero, Binary("sub", load, Const(1)))
    start = Store(counter.name, zero, Const(maker.draws.between(1, 5)))
    return (Alloc(counter), start, While(Binary("gt", load, Const(0)), (*body, step))), frame


def _claim(maker: Maker, frame: Frame) -> Expr | None:
    """What holds of one of the variables; None if nothing is known of any."""
    known = [each for each in frame.known if is_integer(each.var.dtype) and each.high < 1 << 20]
    if not known:
        return None
    each = maker.draws.pick(known)
    return Binary("le", each.var, Const(each.high, each.var.dtype))


def _assert(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    claim = _claim(maker, frame)
    return ((Assert(claim, ("out of range",)),), frame) if claim is not None else None


def _assume(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    """Tell the compiler what holds of a variable."""
    claim = _claim(maker, frame)
    return ((Evaluate(Call("assume", (claim,), "bool")),), frame) if claim is not None else None


def _evaluate(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made:
    return (maker.evaluated(frame),), frame


def _reduction(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    """A sum or an extreme over one dim of a buffer, in one element of another."""
    floats = [each for each in _usable(frame) if each.shape and is_float(each.dtype)]
    pairs = [(a, b) for a in floats for b in floats if a.name != b.name and a.dtype == b.dtype]
    if not pairs:
        return None
    source, target = maker.draws.pick(pairs)
    shape, at = static_shape(source) or (), Sampler(maker.draws, frame).indices(static_shape(target) or ())
    var = Var(maker.names.fresh("k"))
    inner = frame.with_loop(Known(var, 0, shape[-1] - 1))
    read = (*Sampler(maker.draws, inner).indices(shape[:-1]), var)
    op = maker.draws.pick(("add", "max", "min"))
    value = Load(source.name, read, source.dtype)
    step = Store(target.name, at, Binary(op, Load(target.name, at, target.dtype), value))
    start = Store(target.name, at, literal(0, target.dtype))
    return (start, For(var, Const(0), Const(shape[-1]), "serial", (step,))), frame


def _again(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    """Change an element, then use what it has become."""
    draws, sampler = maker.draws, Sampler(maker.draws, frame)
    known = _usable(frame)
    if not known:
        return None
    buffer = draws.pick(known)
    place = sampler.indices(static_shape(buffer) or ())
    element, value = Load(buffer.name, place, buffer.dtype), sampler.value(buffer.dtype, 2)
    changed = Binary("sub" if is_float(buffer.dtype) else "bitxor", value.expr, element)
    low, high = (0, 0) if is_float(buffer.dtype) else integer_range(buffer.dtype)
    first = Store(buffer.name, place, sampler.kept(Valued(changed, low, high), buffer.dtype))
    target = draws.pick([each for each in known if each.dtype == buffer.dtype])
    used = Binary("max", element, sampler.leaf(buffer.dtype).expr) if draws.chance(0.3) else element
    second = Store(target.name, sampler.indices(static_shape(target) or ()), used)
    return (first, second), frame


def _lanes(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    stmt = vector_store(maker.draws, frame, maker.draws.between(1, maker.limits.fuel))
    return ((stmt,), frame) if stmt is not None else None


def _view(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    """A buffer over the memory of another one, filled or read at once."""
    whole = [each for each in _usable(frame) if not each.strides and each.shape and each.offset == Const(0)]
    if not whole:
        return None
    source = maker.draws.pick(whole)
    shape, strides, offset = _layout(maker.draws, static_shape(source) or ())
    dims = tuple(map(Const, shape)), tuple(map(Const, strides))
    view = Buffer(maker.names.fresh("V"), *dims[:1], source.dtype, *dims[1:], Const(offset), source.scope)
    data = Call("buffer_data", (BufferRef(source.name),), pointer_to(source.dtype, source.scope))
    inner = frame.with_buffer(view)
    if maker.draws.chance(0.5):
        return (Declare(view, data), *maker.filled(inner, view)), inner
    target = maker.draws.pick([each for each in whole if each.dtype == view.dtype])
    return (Declare(view, data), *_copied(maker, inner, view, target)), inner


def _copied(maker: Maker, frame: Frame, source: Buffer, target: Buffer) -> Body:
    """Loops that store elements of one buffer into every element of another."""
    shape = static_shape(target) or ()
    loops = [Var(maker.names.fresh("i")) for _ in shape]
    places = Sampler(maker.draws, _over(frame, loops, shape)).indices(static_shape(source) or ())
    return nested(loops, shape, (Store(target.name, tuple(loops), Load(source.name, places, source.dtype)),))


_Layout = tuple[tuple[int, ...], tuple[int, ...], int]


def _layout(draws: RandomSource, shape: tuple[int, ...]) -> _Layout:
    """Dims, strides and the first place of a view of memory: mostly one that is not row-major itself."""
    found = _any_layout(draws, shape)
    for _ in range(3):
        dims, strides, _ = found
        if any(dim != 1 and strides[at] != math.prod(dims[at + 1 :]) for at, dim in enumerate(dims)):
            break
        found = _any_layout(draws, shape)
    return found


def _any_layout(draws: RandomSource, shape: tuple[int, ...]) -> _Layout:
    """A part of row-major memory of that shape, perhaps turned round."""
    size = math.prod(shape)
    way = draws.pick(("steps", "turned", "window", "rows"))
    if way == "turned" and len(shape) > 1:
        strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        order = draws.sample(range(len(shape)), len(shape))
        return tuple(shape[at] for at in order), tuple(strides[at] for at in order), 0
    if way == "window":  # rows that overlap
        width = draws.between(1, min(4, size))
        return (size - width + 1, width), (1, 1), 0
    step = draws.between(1, max(1, min(3, size - 1)))
    if way == "rows" and size >= 4:
        width = draws.between(1, size // 2)
        room = draws.between(0, size - 2 * width) if size > 2 * width else 0
        return (2, width), (size - width - room, 1), draws.between(0, room)
    first = draws.between(0, min(2, size - 1))
    return ((size - first - 1) // step + 1,), (step,), first


def _jump(maker: Maker, frame: Frame, fuel: int, depth: int) -> Made | None:
    """Leave a loop, or its round, where a condition holds."""
    if not frame.can_jump:
        return None
    callee = maker.draws.pick(("break_loop", "continue_loop", "continue_loop"))
    return (If(maker.truth(frame), (Evaluate(Call(callee, (), "void")),)),), frame


Form = Callable[[Maker, Frame, int, int], Made | None]
_SIMPLE: tuple[Form, ...] = (_store, _store, _store, _bind, _evaluate, _jump)
_ALL: tuple[Form, ...] = (
    *(_store, _fill, _fill, _fill, _loop, _loop, _loop, _loop, _branch, _branch, _bind, _memory, _memory),
    *(_while, _assert, _assume, _reduction, _reduction, _again, _again, _lanes, _lanes, _view, _view, _jump),
    *(_narrow, _narrow),
)
