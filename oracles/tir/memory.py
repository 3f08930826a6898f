"""Buffers over memory: fresh, that of a parameter or of an address, or a region of another buffer."""

from typing import Any

from corpus.tir.forms import lanes
from corpus.tir.values import Buffer, Const, Expr, Region
from oracles.tir.expressions import compiled
from oracles.tir.scalars import UNDEFINED, NotModelled, Undefined
from oracles.tir.state import Memory, State, View, compact, extent, is_in_rows

MOST_CELLS = 1 << 22


def view_of(buffer: Buffer, state: State, memory: Memory | None = None, offset: int = 0) -> View:
    """A buffer over its memory, fresh where none is given; Undefined where its dims are."""
    shape = tuple(_dim(expr, state, buffer) for expr in buffer.shape)
    strides = tuple(_dim(expr, state, buffer) for expr in buffer.strides) or compact(shape)
    if memory is None:
        if isinstance(buffer.offset, Const) and buffer.offset.value:
            raise Undefined(f"fresh memory of {buffer.name} that begins at {buffer.offset.value}")
        if not is_in_rows(shape, strides):
            raise NotModelled("fresh memory whose rows meet or do not follow each other")
        size = extent(shape, strides)
        if size > MOST_CELLS:
            raise NotModelled("a buffer of so many elements")
        memory = Memory(buffer.dtype, [UNDEFINED] * size)
    if lanes(buffer.dtype) > 1 or memory.dtype != buffer.dtype:
        raise NotModelled("a buffer that shows other types than its memory has")
    return View(buffer.name, memory, shape, strides, offset)


def _dim(expr: Expr, state: State, buffer: Buffer) -> int:
    value = compiled(expr)(state)
    if value is UNDEFINED or value < 0:
        raise Undefined(f"a dim of {buffer.name} is {value}")
    return int(value)


def allocate(buffer: Buffer, state: State) -> None:
    """Fresh memory for a buffer."""
    view = view_of(buffer, state)
    state.views[buffer.name] = view
    for loop in state.loops:
        loop.keep(view.memory)
    for block in state.blocks:
        block.own.add(id(view.memory))


def box(region: Region, state: State) -> tuple[View, tuple[tuple[int, int], ...]]:
    """A region's view, and the bounds of each dim."""
    ranges = []
    for item in region.ranges:
        low, count = compiled(item.min)(state), compiled(item.extent)(state)
        if low is UNDEFINED or count is UNDEFINED:
            raise Undefined(f"a region of {region.buffer} is undefined")
        ranges.append((low, low + count))
    return state.views[region.buffer], tuple(ranges)


def match_region(buffer: Buffer, source: Region, state: State) -> None:
    """A view of a region; the variables among its strides and its offset become what they are there."""
    view, ranges = box(source, state)
    start = view.place([low for low, _ in ranges])
    rank = len(buffer.shape)
    strides: dict[int, Any] = dict(enumerate(view.strides[len(view.strides) - rank :]))
    for place, expr in enumerate(buffer.strides):
        if (name := getattr(expr, "name", None)) is not None and name not in state.vars:
            state.vars[name] = strides[place]
    if (name := getattr(buffer.offset, "name", None)) is not None:
        state.vars[name] = start
    made = view_of(buffer, state, view.memory, start)
    made.start = view.start
    if not buffer.strides:
        made.strides = tuple(view.strides[len(view.strides) - rank :])
    state.views[buffer.name] = made
