"""Operators of torch itself that move elements to and from places that an operand names."""

import math
from collections.abc import Callable

import numpy as np

from oracles.relation.arithmetic import MOVES, SUMS, Arithmetic, Nonfinite, Rounding
from oracles.relation.aten import (
    EVERY,
    FLOATING,
    NUMBERS,
    aten,
    axis_of,
    by_type,
    inside,
    magnitudes,
    moved_elements,
    number,
    places,
    replaced,
    same_shape,
    second_shape,
    shaped,
)
from oracles.relation.open_checks import is_filled, is_unordered
from oracles.relation.operator import Operator, RangeRule, Sampler
from oracles.relation.overwrites import copies_twice, scatters_twice
from oracles.relation.program import ALONG, MAX_ELEMENTS, Call, Kind, Operand, Scope
from oracles.relation.types import NUMPY, U8, DType, Shape


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
    return (
        Call((focus, indices(scope, shape, focus.shape[axis])), {"dim": axis})
        if math.prod(shape) <= MAX_ELEMENTS
        else None
    )


def _with_source(distinct: bool) -> Sampler:
    """Draw some slices of the focus and the values to write there."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        axis = scope.draws.below(focus.rank)
        length = focus.shape[axis]
        if not length:
            return None
        count = scope.draws.between(1, min(length, 6))
        index = indices(scope, (count,), length, distinct=distinct)
        return Call(
            (focus, index, scope.supply(focus.dtype, replaced(focus.shape, axis, count))), {"dim": axis}
        )

    return sample


def _sample_scatter(scope: Scope, focus: Operand) -> Call | None:
    """An index as large as the source, which is smaller than the focus or as large."""
    if not is_filled(focus.shape):
        return None
    axis = scope.draws.below(focus.rank)
    shape = tuple(dim if scope.draws.chance(0.7) else scope.draws.between(1, dim) for dim in focus.shape)
    index = indices(scope, shape, focus.shape[axis])
    return Call((focus, index, scope.supply(focus.dtype, shape)), {"dim": axis})


def _sample_reduced(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_scatter(scope, focus)
    if call is None:
        return None
    how = scope.draws.pick(("sum", "amax", "amin", "mean" if focus.dtype in FLOATING else "prod"))
    return call._replace(attributes={**call.attributes, "reduce": how, "include_self": scope.draws.below(2)})


def _sample_put(scope: Scope, focus: Operand) -> Call | None:
    """One value, or a source of which no two elements go to one place."""
    call = _sample_scatter(scope, focus)
    if call is None:
        return None
    if scope.draws.chance(0.5):
        axis, shape = axis_of(call), call.operand(1).shape
        words = scope.draws.words(math.prod(focus.shape)).reshape(focus.shape)
        order = np.argsort(words, axis=axis, kind="stable")
        index = order[tuple(slice(dim) for dim in shape)].astype(np.int64)
        return call._replace(operands=(focus, scope.fix(index), call.operand(2)))
    value = number(scope, focus.dtype, (0.0, 2.5, -1.0), (0, 1))
    return Call(call.operands[:2], {**call.attributes, "value": value})


def _sample_filled(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_index(scope, focus)
    if call is None:
        return None
    value = number(scope, focus.dtype, (0.0, 2.5, -1.0), (0, 1))
    return call._replace(attributes={**call.attributes, "value": value})


def _sample_take(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    shape = scope.shape(0 if scope.draws.chance(0.05) else scope.draws.between(1, 2))
    return Call((focus, indices(scope, shape, math.prod(focus.shape))))


def _sample_embedding(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    return Call((focus, indices(scope, scope.shape(scope.draws.below(3)), focus.shape[0])))


def _grown(call: Call) -> float:
    """Bound a sum of scattered elements: all of them may meet in one place; a product wraps around."""
    if call.attributes.get("reduce") == "prod":
        return math.inf
    return magnitudes(call)[0] + magnitudes(call)[2] * math.prod(call.operand(2).shape)


def _boundaries(scope: Scope, focus: Operand) -> Operand:
    count = scope.draws.between(0, 6)
    found = sorted(
        scope.draws.between(-8, 8) if focus.dtype is not U8 else scope.draws.below(9) for _ in range(count)
    )
    return scope.fix(np.array(found, np.float64).astype(NUMPY[focus.dtype]), focus.dtype)


def _sample_buckets(scope: Scope, focus: Operand) -> Call:
    return Call((focus, _boundaries(scope, focus)), {"right": scope.draws.below(2)})


def _sample_search(scope: Scope, focus: Operand) -> Call:
    return Call((_boundaries(scope, focus), focus), {"right": scope.draws.below(2)})


def _indexing(
    name: str,
    arithmetic: Arithmetic,
    sample: Sampler,
    shape: Callable[[Call], Shape],
    dtypes: tuple[DType, ...] = EVERY,
    bound: RangeRule = moved_elements,
    ranks: range = ALONG,
) -> Operator:
    return aten(name, Kind.PART, arithmetic, dtypes, sample, shaped(shape), bound, ranks=ranks)


_BUCKETED, _SEARCHED = shaped(same_shape, places), shaped(second_shape, places)
_SUMS = by_type(shaped(same_shape), _grown)

OPERATORS = (
    _indexing("index_select", MOVES, _sample_index, _indexed),
    _indexing("take_along_dim", MOVES, _sample_gather, second_shape),
    _indexing("gather", MOVES, _sample_gather, second_shape),
    _indexing(
        "index_copy",
        Arithmetic(Rounding.NOTHING, Nonfinite.MOVED, opens={"writes to one place twice": copies_twice}),
        _with_source(True),
        same_shape,
    ),
    _indexing("index_fill", MOVES, _sample_filled, same_shape),
    _indexing("index_add", SUMS, _with_source(False), same_shape, NUMBERS, _SUMS),
    _indexing("scatter_add", SUMS, _sample_scatter, same_shape, NUMBERS, _SUMS),
    _indexing("scatter_reduce", SUMS, _sample_reduced, same_shape, NUMBERS, _SUMS),
    _indexing(
        "scatter",
        Arithmetic(Rounding.NOTHING, Nonfinite.MOVED, opens={"writes to one place twice": scatters_twice}),
        _sample_put,
        same_shape,
    ),
    _indexing("take", MOVES, _sample_take, second_shape),
    _indexing(
        "embedding",
        MOVES,
        _sample_embedding,
        lambda call: (*call.operand(1).shape, *call.operand(0).shape[1:]),
        FLOATING,
        ranks=range(2, 3),
    ),
    aten(
        "bucketize",
        Kind.COMPARE,
        Arithmetic(Rounding.NOTHING, opens={"boundaries in no order": is_unordered(1)}),
        NUMBERS,
        _sample_buckets,
        _BUCKETED,
        inside(0, 6),
    ),
    aten(
        "searchsorted",
        Kind.COMPARE,
        Arithmetic(Rounding.NOTHING, opens={"boundaries in no order": is_unordered(0)}),
        NUMBERS,
        _sample_search,
        _SEARCHED,
        inside(0, 6),
    ),
)
