"""Operators of torch itself that read or write the places that operands or attributes name."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from oracles.operators.aten_layout import diagonal, draw_select, draw_slice, sliced, without_axis
from oracles.relation.arithmetic import MOVES, SUMS, Arithmetic, Nonfinite, OpenCheck, Rounding
from oracles.relation.aten import (
    EVERY,
    FLOATING,
    NUMBERS,
    aten,
    axis_of,
    largest,
    moved_elements,
    number,
    places,
    promotion,
    same_magnitude,
)
from oracles.relation.open_checks import adds_up, copies_twice, is_unordered, puts_twice, scatters_twice
from oracles.relation.operator import Operator, Sampler
from oracles.relation.program import ALONG, FLAT, MATRIX, MAX_ELEMENTS, Call, Kind, Operand, Scope
from oracles.relation.rules import (
    Attributes,
    Draw,
    inside,
    magnitudes,
    part_of,
    same_shape,
    sampled_with,
    second_shape,
    shaped,
)
from oracles.relation.types import BOOL, NUMPY, U8, DType, Shape, broadcast, is_filled, replaced


def indices(scope: Scope, shape: Shape, length: int, *, distinct: bool = False) -> Operand:
    """Places along a dim, counted from the front; `distinct` ones along one dim."""
    if distinct:
        found = scope.draws.sample(range(length), shape[0])
        return scope.fix(np.array(found, np.int64).reshape(shape))
    flat = [scope.draws.below(max(length, 1)) for _ in range(math.prod(shape))]
    return scope.fix(np.array(flat, np.int64).reshape(shape))


def _sample_index(scope: Scope, focus: Operand) -> Call | None:
    axis = scope.axis(focus.rank)
    length = focus.shape[axis % focus.rank]
    return Call((focus, indices(scope, (scope.dim(),), length)), {"dim": axis}) if length else None


def _indexed(call: Call) -> Shape:
    return replaced(call.operand(0).shape, axis_of(call), *call.operand(1).shape)


def _sample_gather(scope: Scope, focus: Operand) -> Call | None:
    axis = scope.draws.below(focus.rank)
    if not is_filled(focus.shape):
        return None
    shape = replaced(focus.shape, axis, max(1, scope.dim()))
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    return Call((focus, indices(scope, shape, focus.shape[axis])), {"dim": axis})


def _with_source(distinct: bool) -> Sampler:
    """Draw some slices of the focus and the values to write there."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        axis = scope.draws.below(focus.rank)
        length = focus.shape[axis]
        if not length:
            return None
        count = scope.draws.between(1, min(length, 6))
        index = indices(scope, (count,), length, distinct=distinct)
        source = scope.supply(focus.dtype, replaced(focus.shape, axis, count))
        return Call((focus, index, source), {"dim": axis})

    return sample


def _value(scope: Scope, focus: Operand) -> float:
    return number(scope, focus.dtype, (0.0, 2.5, -1.0), (0, 1))


def _sample_scatter(scope: Scope, focus: Operand) -> Call:
    """An index as large as the source, which is smaller than the focus or as large."""
    axis = scope.draws.below(focus.rank)
    shape = tuple(dim if scope.draws.chance(0.7) else scope.draws.between(1, dim) for dim in focus.shape)
    index = indices(scope, shape, focus.shape[axis])
    return Call((focus, index, scope.supply(focus.dtype, shape)), {"dim": axis})


def _sample_reduced(scope: Scope, focus: Operand) -> Call:
    call = _sample_scatter(scope, focus)
    how = scope.draws.pick(("sum", "amax", "amin", "mean" if focus.dtype in FLOATING else "prod"))
    return call._replace(attributes={**call.attributes, "reduce": how, "include_self": scope.draws.below(2)})


def _sample_put(scope: Scope, focus: Operand) -> Call:
    """One value, or a source of which no two elements go to one place."""
    call = _sample_scatter(scope, focus)
    if scope.draws.chance(0.5):
        axis, shape = axis_of(call), call.operand(1).shape
        words = scope.draws.words(math.prod(focus.shape)).reshape(focus.shape)
        order = np.argsort(words, axis=axis, kind="stable")
        index = order[tuple(slice(dim) for dim in shape)].astype(np.int64)
        return call._replace(operands=(focus, scope.fix(index), call.operand(2)))
    return Call(call.operands[:2], {**call.attributes, "value": _value(scope, focus)})


def _sample_filled(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_index(scope, focus)
    return call and call._replace(attributes={**call.attributes, "value": _value(scope, focus)})


def _sample_take(scope: Scope, focus: Operand) -> Call:
    shape = scope.shape(0 if scope.draws.chance(0.05) else scope.draws.between(1, 2))
    return Call((focus, indices(scope, shape, math.prod(focus.shape))))


def _sample_embedding(scope: Scope, focus: Operand) -> Call:
    return Call((focus, indices(scope, scope.shape(scope.draws.below(3)), focus.shape[0])))


def _rows(call: Call) -> Shape:
    return (*call.operand(1).shape, *call.operand(0).shape[1:])


def _grown(call: Call) -> float:
    """Bound a sum of scattered elements: all of them may meet in one place; a product wraps around."""
    if call.attributes.get("reduce") == "prod":
        return math.inf
    return magnitudes(call)[0] + magnitudes(call)[2] * math.prod(call.operand(2).shape)


def _boundaries(scope: Scope, focus: Operand) -> Operand:
    least = 0 if focus.dtype is U8 else -8
    found = sorted(scope.draws.between(least, 8) for _ in range(scope.draws.between(0, 6)))
    return scope.fix(np.array(found, np.float64).astype(NUMPY[focus.dtype]), focus.dtype)


def _sample_buckets(scope: Scope, focus: Operand) -> Call:
    return Call((focus, _boundaries(scope, focus)), {"right": scope.draws.below(2)})


def _sample_search(scope: Scope, focus: Operand) -> Call:
    return Call((_boundaries(scope, focus), focus), {"right": scope.draws.below(2)})


# A part that attributes name


def _part(draw: Draw, shape: Callable[[Call], Shape]) -> Sampler:
    """The focus and what is written over a part of it."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        attributes = draw(scope, focus)
        if attributes is None:
            return None
        part = shape(Call((focus,), attributes))
        return Call((focus, scope.supply(focus.dtype, part)), attributes)

    return sample


def _draw_diagonal(scope: Scope, focus: Operand) -> Attributes:
    one, other = (axis % focus.rank for axis in scope.axes(focus.rank, 2, 2))
    offset = scope.draws.between(1 - focus.shape[one], focus.shape[other] - 1)
    return {"offset": offset, "dim1": one, "dim2": other}


def _draw_window(scope: Scope, focus: Operand) -> Attributes | None:
    """A part of memory that holds no element twice; only what comes from outside surely lies in order."""
    if focus.producer is not None:
        return None
    size: list[int] = []
    strides: list[int] = []
    room = math.prod(focus.shape)
    reach = 1
    for _ in range(scope.draws.between(1, 3)):
        step = reach * scope.draws.between(1, 2)
        dim = scope.draws.between(1, max(1, min(room // step, 9)))
        size.insert(0, dim)
        strides.insert(0, step)
        reach = step * dim
    last = sum((dim - 1) * step for dim, step in zip(size, strides, strict=True))
    if last >= room:
        return None
    offset = scope.draws.between(0, room - 1 - last)
    return {"size": tuple(size), "stride": tuple(strides), "storage_offset": offset}


def _strided(call: Call) -> Shape:
    return call.tuple_of("size", ())


# Places that several operands name


def _places(scope: Scope, focus: Operand) -> tuple[Operand | None, ...]:
    """An index for some dims, None for those before them that are taken whole."""
    dims = sorted(axis % focus.rank for axis in scope.axes(focus.rank, 1, min(focus.rank, 3)))
    shape = scope.shape(scope.draws.below(3))
    found: list[Operand | None] = [None] * (dims[-1] + 1)
    for axis in dims:
        own = part_of(scope, shape) if axis != dims[0] else shape
        found[axis] = indices(scope, own, focus.shape[axis])
    return tuple(found)


def _sample_get(scope: Scope, focus: Operand) -> Call | None:
    call = Call((focus, *_places(scope, focus)))
    return call if math.prod(_gotten(call)) <= MAX_ELEMENTS else None


def _gotten(call: Call) -> Shape:
    """Indices side by side leave their dims there; with a whole dim between them they come first."""
    shape, found = call.operand(0).shape, call.operands[1:]
    dims = [axis for axis, value in enumerate(found) if value is not None]
    joined = broadcast(*(value.shape for value in found if value is not None))
    assert joined is not None
    rest = [dim for axis, dim in enumerate(shape) if axis not in dims]
    at = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return (*rest[:at], *joined, *rest[at:])


def _sample_put_at(scope: Scope, focus: Operand) -> Call | None:
    """Values at places; with a mask one value for all of them; only a sum takes one place twice."""
    if scope.draws.chance(0.25):
        mask = scope.supply(BOOL, focus.shape[: scope.draws.between(1, focus.rank)])
        return Call((focus, mask, scope.supply(focus.dtype, ())), {"accumulate": 0})
    adds = focus.dtype in NUMBERS and scope.draws.chance(0.5)
    if adds:
        found = _places(scope, focus)
    else:
        axis = scope.draws.below(focus.rank)
        count = scope.draws.between(1, min(focus.shape[axis], 6))
        found = (*(None,) * axis, indices(scope, (count,), focus.shape[axis], distinct=True))
    wanted = _gotten(Call((focus, *found)))
    if math.prod(wanted) > MAX_ELEMENTS:
        return None
    return Call((focus, *found, scope.supply(focus.dtype, part_of(scope, wanted))), {"accumulate": int(adds)})


def _sample_put_flat(scope: Scope, focus: Operand) -> Call:
    """Values at places of the flat tensor."""
    adds, room = focus.dtype in NUMBERS and scope.draws.chance(0.5), math.prod(focus.shape)
    index = indices(scope, (scope.draws.between(1, min(room, 9)),), room, distinct=not adds)
    return Call((focus, index, scope.supply(focus.dtype, index.shape)), {"accumulate": int(adds)})


def _added(call: Call) -> float:
    """Bound a sum: all of what is written may meet in one place."""
    first, last = magnitudes(call)[0], magnitudes(call)[-1]
    return first + last * MAX_ELEMENTS if call.integer("accumulate", 0) else max(first, last)


def _sample_masked(scope: Scope, focus: Operand) -> Call:
    """As many values as there are elements, in whatever shape the focus has."""
    return Call((focus, scope.supply(BOOL, part_of(scope, focus.shape)), scope.supply(*focus.type)))


def _sample_index_reduce(scope: Scope, focus: Operand) -> Call:
    axis = scope.draws.below(focus.rank)
    count = scope.draws.between(1, 6)
    index = indices(scope, (count,), focus.shape[axis])
    source = scope.supply(focus.dtype, replaced(focus.shape, axis, count))
    how, own = scope.draws.pick(("mean", "amax", "amin")), scope.draws.below(2)
    return Call((focus, index, source), {"dim": axis, "reduce": how, "include_self": own})


def _thinned(call: Call) -> float:
    return magnitudes(call)[0] + magnitudes(call)[-1] * 8


# Joined and padded


def _sample_cat(scope: Scope, focus: Operand) -> Call:
    """Up to five tensors along a dim, now and then of another element type: they are promoted."""
    axis = scope.draws.below(focus.rank)
    others = []
    for _ in range(scope.draws.between(0, 4)):
        length = focus.shape[axis] if scope.draws.chance(0.5) else scope.draws.between(0, 9)
        dtype = scope.draws.pick(EVERY) if scope.draws.chance(0.15) else focus.dtype
        dtype = dtype if scope.allows(dtype) else focus.dtype
        others.append(scope.supply(dtype, replaced(focus.shape, axis, length)))
    others.insert(scope.draws.between(0, len(others)), focus)
    return Call(tuple(others), {"dim": axis - focus.rank if scope.draws.chance(0.3) else axis})


def _joined(call: Call) -> Shape:
    axis = axis_of(call)
    return replaced(call.operand(0).shape, axis, sum(value.shape[axis] for value in call.present))


def _draw_fill(scope: Scope, focus: Operand) -> Attributes:
    return {"fill_value": _value(scope, focus)}


def _filled(call: Call) -> float:
    value = call.attributes["fill_value"]
    assert isinstance(value, (int, float))
    return abs(value)


def _indexing(
    name: str,
    arithmetic: Arithmetic,
    sample: Sampler,
    shape: Callable[[Call], Shape],
    ranks: range = ALONG,
    *,
    dtypes: tuple[DType, ...] = EVERY,
    filled: bool = True,
) -> Operator:
    infer, bound = shaped(shape), moved_elements
    return aten(name, Kind.PART, arithmetic, dtypes, sample, infer, ranks=ranks, bound=bound, filled=filled)


def _writing(
    name: str,
    sample: Sampler,
    most: Callable[[Call], float] = largest,
    ranks: range = ALONG,
    *,
    arithmetic: Arithmetic = MOVES,
    dtypes: tuple[DType, ...] = EVERY,
    filled: bool = True,
) -> Operator:
    return aten(name, Kind.PART, arithmetic, dtypes, sample, most=most, ranks=ranks, filled=filled)


def _searching(name: str, place: int, sample: Sampler, shape: Callable[[Call], Shape]) -> Operator:
    """Where a number comes among boundaries, which are the operand at this place."""
    arithmetic = Arithmetic(Rounding.NOTHING, opens={"boundaries in no order": is_unordered(place)})
    return aten(name, Kind.COMPARE, arithmetic, NUMBERS, sample, shaped(shape, places), bound=inside(0, 6))


def _overwriting(check: OpenCheck) -> Arithmetic:
    return Arithmetic(Rounding.NOTHING, Nonfinite.MOVED, opens={"writes to one place twice": check})


_OVERWRITES = _overwriting(puts_twice)
_PUTS = replace(_OVERWRITES, varies=lambda node: SUMS if adds_up(node) else _OVERWRITES)

OPERATORS = (
    _indexing("index_select", MOVES, _sample_index, _indexed, filled=False),
    *(
        _indexing(name, MOVES, _sample_gather, second_shape, filled=False)
        for name in ("take_along_dim", "gather")
    ),
    _indexing("index_copy", _overwriting(copies_twice), _with_source(True), same_shape, filled=False),
    _indexing("index_fill", MOVES, _sample_filled, same_shape, filled=False),
    _indexing("scatter", _overwriting(scatters_twice), _sample_put, same_shape),
    _indexing("take", MOVES, _sample_take, second_shape),
    _indexing("embedding", MOVES, _sample_embedding, _rows, MATRIX, dtypes=FLOATING),
    _indexing("index", MOVES, _sample_get, _gotten),
    _writing("index_add", _with_source(False), _grown, arithmetic=SUMS, dtypes=NUMBERS, filled=False),
    _writing("scatter_add", _sample_scatter, _grown, arithmetic=SUMS, dtypes=NUMBERS),
    _writing("scatter_reduce", _sample_reduced, _grown, arithmetic=SUMS, dtypes=NUMBERS),
    _writing("index_reduce", _sample_index_reduce, _thinned, arithmetic=SUMS, dtypes=FLOATING),
    _writing("slice_scatter", _part(draw_slice, sliced)),
    _writing("select_scatter", _part(draw_select, without_axis)),
    _writing("diagonal_scatter", _part(_draw_diagonal, diagonal), ranks=FLAT),
    _writing("as_strided_scatter", _part(_draw_window, _strided)),
    _writing("masked_scatter", _sample_masked, filled=False),
    _writing("index_put", _sample_put_at, _added, range(1, 4), arithmetic=_PUTS),
    _writing("put", _sample_put_flat, _added, arithmetic=_PUTS),
    _writing("full_like", sampled_with(_draw_fill), _filled, filled=False),
    _searching("bucketize", 1, _sample_buckets, same_shape),
    _searching("searchsorted", 0, _sample_search, second_shape),
    aten("as_strided", Kind.LAYOUT, MOVES, EVERY, ranks=ALONG, filled=True).by(
        sampled_with(_draw_window), shaped(_strided), same_magnitude
    ),
    aten("cat", Kind.LAYOUT, MOVES, EVERY, _sample_cat, shaped(_joined, promotion), largest, ALONG),
)
