"""Operators of torch itself that move elements: views and padding."""

import math
from collections.abc import Callable

from oracles.operators.aten_image import padded
from oracles.relation.arithmetic import MOVES, ROUNDS
from oracles.relation.aten import EVERY, NUMBERS, aten, axis_of, largest, moved_elements, number, times
from oracles.relation.operator import Operator, Sampler, TypeRule
from oracles.relation.program import ALONG, FLAT, MAX_RANK, Call, Kind, Operand, Scope
from oracles.relation.rules import Attributes, Choice, Draw, choices, same_shape, sampled_with, shaped
from oracles.relation.types import Shape, TensorType, is_filled, replaced


def _move(
    name: str, draw: Draw, shape: Callable[[Call], Shape], ranks: range = ALONG, kind: Kind = Kind.LAYOUT
) -> Operator:
    """The focus alone, its elements in other places."""
    return aten(
        name, kind, MOVES, EVERY, sampled_with(draw), shaped(shape), ranks=ranks, bound=moved_elements
    )


def some_axis(scope: Scope, focus: Operand) -> tuple[int, int]:
    """An axis, counted from either end, and its dim."""
    axis = scope.axis(focus.rank)
    return axis, focus.shape[axis]


def _draw_roll(scope: Scope, focus: Operand) -> Attributes:
    dims = scope.axes(focus.rank)
    return {"shifts": tuple(scope.draws.between(-9, 9) for _ in dims), "dims": dims}


def _draw_dims(scope: Scope, focus: Operand) -> Attributes:
    return {"dims": scope.axes(focus.rank)}


def _draw_turn(scope: Scope, focus: Operand) -> Attributes:
    return {"k": scope.draws.between(-1, 4), "dims": scope.axes(focus.rank, 2, 2)}


def _turned(call: Call) -> Shape:
    shape, (one, other) = call.operand(0).shape, call.tuple_of("dims", (0, 1))
    if call.integer("k", 1) % 2 == 0:
        return shape
    dims = list(shape)
    dims[one], dims[other] = dims[other], dims[one]
    return tuple(dims)


def _draw_difference(scope: Scope, focus: Operand) -> Attributes | None:
    axis, length = some_axis(scope, focus)
    return {"dim": axis} if length else None


def _shorter(call: Call) -> Shape:
    axis = axis_of(call)
    return replaced(call.operand(0).shape, axis, call.operand(0).shape[axis] - 1)


def _draw_windows(scope: Scope, focus: Operand) -> Attributes | None:
    axis, length = some_axis(scope, focus)
    if not length:
        return None
    return {"dimension": axis, "size": scope.draws.between(1, length), "step": scope.draws.between(1, 3)}


def _windows(call: Call) -> Shape:
    axis, size = axis_of(call, "dimension"), call.integer("size", 1)
    count = (call.operand(0).shape[axis] - size) // call.integer("step", 1) + 1
    return (*replaced(call.operand(0).shape, axis, count), size)


def _draw_narrow(scope: Scope, focus: Operand) -> Attributes:
    axis, length = some_axis(scope, focus)
    start = scope.draws.between(0, length)
    return {"dim": axis, "start": start, "length": scope.draws.between(0, length - start)}


def _narrowed(call: Call) -> Shape:
    return replaced(call.operand(0).shape, axis_of(call), call.integer("length", 0))


def draw_select(scope: Scope, focus: Operand) -> Attributes | None:
    """An index of a dim, from either end."""
    axis, length = some_axis(scope, focus)
    return {"dim": axis, "index": scope.draws.between(-length, length - 1)} if length else None


def draw_slice(scope: Scope, focus: Operand) -> Attributes:
    """A start and an end along a dim, and a step."""
    axis, length = some_axis(scope, focus)
    ends = sorted((scope.draws.between(0, length), scope.draws.between(0, length)))
    return {"dim": axis, "start": ends[0], "end": ends[1], "step": scope.draws.between(1, 3)}


def without_axis(call: Call) -> Shape:
    """The shape without the dim that an attribute names."""
    return replaced(call.operand(0).shape, axis_of(call))


def sliced(call: Call) -> Shape:
    """The shape of a slice."""
    axis, step = axis_of(call), call.integer("step", 1)
    count = -(-(call.integer("end", 0) - call.integer("start", 0)) // step)
    return replaced(call.operand(0).shape, axis, count)


def _draw_two_dims(scope: Scope, focus: Operand) -> Attributes:
    one, other = scope.axes(focus.rank, 2, 2)
    return {"offset": scope.draws.between(-2, 2), "dim1": one, "dim2": other}


def diagonal(call: Call) -> Shape:
    """The shape of a diagonal, which is the last dim."""
    shape, rank, offset = call.operand(0).shape, call.operand(0).rank, call.integer("offset", 0)
    one, other = call.integer("dim1", 0) % rank, call.integer("dim2", 1) % rank
    count = min(shape[one], shape[other] - offset) if offset >= 0 else min(shape[one] + offset, shape[other])
    return (*(dim for axis, dim in enumerate(shape) if axis not in (one, other)), max(count, 0))


def _embedded(call: Call) -> Shape:
    shape = call.operand(0).shape
    size = shape[-1] + abs(call.integer("offset", 0))
    return (*shape[:-1], size, size)


def _draw_repeats(scope: Scope, focus: Operand) -> Attributes:
    return {"repeats": scope.draws.between(0, 3), "dim": scope.axis(focus.rank)}


def _repeated(call: Call) -> Shape:
    axis = axis_of(call)
    return replaced(call.operand(0).shape, axis, call.operand(0).shape[axis] * call.integer("repeats", 1))


def _draw_tiles(name: str) -> Choice:
    def draw(scope: Scope, focus: Operand) -> Attributes:
        more = scope.draws.below(2) if focus.rank < MAX_RANK else 0
        return {name: tuple(scope.draws.pick((1, 1, 2, 3)) for _ in range(focus.rank + more))}

    return draw


def _tiled(name: str) -> Callable[[Call], Shape]:
    def shape(call: Call) -> Shape:
        counts = call.tuple_of(name, ())
        dims = (*(1 for _ in range(len(counts) - call.operand(0).rank)), *call.operand(0).shape)
        return tuple(dim * count for dim, count in zip(dims, counts, strict=True))

    return shape


def _draw_moved(scope: Scope, focus: Operand) -> Attributes:
    return {"source": scope.axis(focus.rank), "destination": scope.axis(focus.rank)}


def _moved(call: Call) -> Shape:
    rank, dims = call.operand(0).rank, list(call.operand(0).shape)
    dim = dims.pop(call.integer("source", 0) % rank)
    dims.insert(call.integer("destination", 0) % rank, dim)
    return tuple(dims)


def _draw_swapped(scope: Scope, focus: Operand) -> Attributes:
    return {"axis0": scope.axis(focus.rank), "axis1": scope.axis(focus.rank)}


def _swapped(call: Call) -> Shape:
    dims = list(call.operand(0).shape)
    one, other = call.integer("axis0", 0), call.integer("axis1", 0)
    dims[one], dims[other] = dims[other], dims[one]
    return tuple(dims)


def _draw_order(scope: Scope, focus: Operand) -> Attributes:
    return {"dims": scope.axes(focus.rank, focus.rank)}


def _permuted(call: Call) -> Shape:
    return tuple(call.operand(0).shape[axis] for axis in call.tuple_of("dims", ()))


def _draw_flat(scope: Scope, focus: Operand) -> Attributes:
    start = scope.draws.below(focus.rank)
    return {"start_dim": start, "end_dim": scope.draws.between(start, focus.rank - 1)}


def _flattened(call: Call) -> Shape:
    shape, start, end = call.operand(0).shape, call.integer("start_dim", 0), call.integer("end_dim", -1)
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


# Padding


def _draw_pad(scope: Scope, focus: Operand) -> Attributes:
    """Pads of the last dims, below 0 where something is cut off."""
    dims = scope.draws.between(1, min(focus.rank, 3))
    pads: list[int] = []
    for axis in range(1, dims + 1):
        least = -1 if focus.shape[-axis] > 1 and scope.draws.chance(0.3) else 0
        pads += [scope.draws.between(least, 3), scope.draws.between(0, 3)]
    return {"pad": tuple(pads), "value": number(scope, focus.dtype, (0.0, 1.0, -3.5), (0, 1))}


def _draw_factor(name: str, takes: Callable[[Shape, int], bool]) -> Draw:
    def draw(scope: Scope, focus: Operand) -> Attributes | None:
        found = [factor for factor in (1, 2, 3) if is_filled(focus.shape) and takes(focus.shape, factor)]
        return {name: found[-1] if scope.draws.chance(0.8) else found[0]} if found else None

    return draw


def _shuffled(call: Call) -> Shape:
    factor, (*batch, channels, height, width) = call.integer("upscale_factor", 1), call.operand(0).shape
    return (*batch, channels // factor**2, height * factor, width * factor)


def _unshuffled(call: Call) -> Shape:
    factor, (*batch, channels, height, width) = call.integer("downscale_factor", 1), call.operand(0).shape
    return (*batch, channels * factor**2, height // factor, width // factor)


# Several results or operands


def _sample_unbind(scope: Scope, focus: Operand) -> Call | None:
    axis, count = some_axis(scope, focus)
    return Call((focus,), {"dim": axis}, count) if 0 < count <= 6 else None


def _draw_parts(name: str) -> Draw:
    def draw(scope: Scope, focus: Operand) -> Attributes | None:
        axis, length = some_axis(scope, focus)
        return {name: scope.draws.between(1, 4), "dim": axis} if length else None

    return draw


def _infer_unbind(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), axis_of(call, default=0)
    return (TensorType(focus.dtype, replaced(focus.shape, axis)),) * focus.shape[axis]


def _infer_parts(call: Call) -> tuple[TensorType, ...]:
    """Split into parts of a size, or into a number of parts."""
    focus, axis = call.operand(0), axis_of(call, default=0)
    length = focus.shape[axis]
    size = call.integer("split_size", -(-length // call.integer("chunks", 1)))
    sizes = [min(size, length - start) for start in range(0, length, size)]
    return tuple(TensorType(focus.dtype, replaced(focus.shape, axis, each)) for each in sizes)


def _sample_stack(scope: Scope, focus: Operand) -> Call:
    others = [scope.supply(*focus.type) for _ in range(scope.draws.between(0, 2))]
    return Call((focus, *others), {"dim": scope.draws.between(-focus.rank - 1, focus.rank)})


def _stacked(call: Call) -> Shape:
    focus = call.operand(0)
    axis = call.integer("dim", 0) % (focus.rank + 1)
    return (*focus.shape[:axis], len(call.operands), *focus.shape[axis:])


_SHORTER, _STACKED = shaped(_shorter), shaped(_stacked)


def _several(name: str, sample: Sampler, infer: TypeRule) -> Operator:
    return aten(name, Kind.PART, MOVES, EVERY, sample, infer, largest, ALONG)


OPERATORS = (
    _move("roll", _draw_roll, same_shape),
    _move("flip", _draw_dims, same_shape),
    _move("rot90", _draw_turn, _turned, FLAT),
    aten("diff", Kind.PART, ROUNDS, NUMBERS, sampled_with(_draw_difference), _SHORTER, times(2), ALONG),
    _move("unfold", _draw_windows, _windows, range(1, MAX_RANK), Kind.PART),
    _move("narrow", _draw_narrow, _narrowed, kind=Kind.PART),
    _move("select", draw_select, without_axis, kind=Kind.PART),
    _move("slice", draw_slice, sliced, kind=Kind.PART),
    *(_move(name, choices(diagonal=range(-3, 4)), same_shape, FLAT) for name in ("tril", "triu")),
    _move("diagonal", _draw_two_dims, diagonal, FLAT, Kind.PART),
    _move("diag_embed", choices(offset=range(-2, 3)), _embedded, range(1, MAX_RANK)),
    _move("repeat_interleave", _draw_repeats, _repeated),
    _move("repeat", _draw_tiles("repeats"), _tiled("repeats")),
    _move("tile", _draw_tiles("dims"), _tiled("dims")),
    _move("movedim", _draw_moved, _moved),
    _move("swapaxes", _draw_swapped, _swapped),
    _move("permute", _draw_order, _permuted),
    _move("flatten", _draw_flat, _flattened),
    _move("constant_pad_nd", _draw_pad, padded, kind=Kind.PAD),
    _move(
        "pixel_shuffle",
        _draw_factor("upscale_factor", lambda shape, factor: shape[-3] % factor**2 == 0),
        _shuffled,
        range(3, 6),
    ),
    _move(
        "pixel_unshuffle",
        _draw_factor("downscale_factor", lambda shape, factor: shape[-1] % factor == 0 == shape[-2] % factor),
        _unshuffled,
        range(3, 6),
    ),
    _move(
        "channel_shuffle",
        _draw_factor("groups", lambda shape, factor: shape[1] % factor == 0),
        same_shape,
        range(3, 6),
    ),
    _several("unbind", _sample_unbind, _infer_unbind),
    _several("split", sampled_with(_draw_parts("split_size")), _infer_parts),
    _several("chunk", sampled_with(_draw_parts("chunks")), _infer_parts),
    aten("stack", Kind.LAYOUT, MOVES, EVERY, _sample_stack, _STACKED, largest, range(MAX_RANK)),
)
