"""Operators of torch itself that look along dims: reductions, scans and sorting."""

import math
from collections.abc import Callable

from oracles.relation.arithmetic import CHOOSES, LOGARITHM_OF_SUM, SUMS, SUMS_INSIDE, WHOLE, Arithmetic
from oracles.relation.aten import EVERY, FLOATING, NUMBERS, aten, axis_of, places, summed, times, with_places
from oracles.relation.operator import Operator, Sampler
from oracles.relation.program import ALONG, RANKS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import Attributes, magnitudes, same_shape, sampled_with, shaped
from oracles.relation.types import BOOL, I64, U8, DType, Range, Shape, TensorType, replaced

Dtype = Callable[[Call], DType]


def _axes(call: Call) -> set[int]:
    """The dims that a reduction reduces, counted from the front: all where none is named."""
    rank = call.operand(0).rank
    dim = call.attributes.get("dim")
    named = (dim,) if isinstance(dim, int) else dim
    if not isinstance(named, tuple) or not named:
        return set(range(rank))
    return {int(axis) % max(rank, 1) for axis in named}


def reduced(call: Call) -> Shape:
    """The shape after a reduction of the dims that an attribute names."""
    focus, axes = call.operand(0), _axes(call)
    if call.attributes.get("keepdim"):
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(focus.shape))
    return tuple(dim for axis, dim in enumerate(focus.shape) if axis not in axes)


def _count(call: Call) -> int:
    return math.prod(call.operand(0).shape[axis] for axis in _axes(call) if axis < call.operand(0).rank)


def _sampler(several: bool = True, least: int = 0, may_keep: bool = True) -> Sampler:
    """Draw one or several dims to reduce that hold enough elements."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        attributes: dict[str, Attribute] = {}
        if several:
            attributes["dim"] = scope.axes(focus.rank, 1, min(focus.rank, 3)) if focus.rank else ()
        else:
            attributes["dim"] = scope.axis(focus.rank)
        if may_keep and scope.draws.chance(0.5):
            attributes["keepdim"] = 1
        call = Call((focus,), attributes)
        return call if _count(call) >= least else None

    return sample


def _add(sample: Sampler, draw: Callable[[Scope, Operand], dict[str, Attribute]]) -> Sampler:
    """The same call with more attributes."""

    def sampled(scope: Scope, focus: Operand) -> Call | None:
        call = sample(scope, focus)
        return None if call is None else call._replace(attributes={**call.attributes, **draw(scope, focus)})

    return sampled


def _own(call: Call) -> DType:
    return call.operand(0).dtype


def _any_type(call: Call) -> DType:
    """The result type of `any`: bool, but uint8 for uint8."""
    return U8 if call.operand(0).dtype is U8 else BOOL


def _reduction(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    most: Callable[[Call], float],
    sample: Sampler | None = None,
    *results: Dtype,
    domain: Range | None = None,
    ranks: range = RANKS,
) -> Operator:
    def infer(call: Call) -> tuple[TensorType, ...]:
        return tuple(TensorType(dtype(call), reduced(call)) for dtype in results or (_own,))

    return aten(
        name, Kind.REDUCE, arithmetic, dtypes, sample or _sampler(), infer, most, ranks, domain=domain
    )


def _sum(call: Call) -> float:
    return magnitudes(call)[0] * max(_count(call), 1)


def _spread(call: Call) -> float:
    """Bound a variance with any of the corrections."""
    return 4 * magnitudes(call)[0] ** 2 * max(_count(call), 1) + magnitudes(call)[0]


def _draw_correction(scope: Scope, focus: Operand) -> dict[str, Attribute]:
    return {"correction": scope.draws.pick((0, 1, 1, 2))}


def _draw_norm(scope: Scope, focus: Operand) -> dict[str, Attribute]:
    return {"ord": scope.draws.pick((2.0, 1.0, 0.0, 3.0, math.inf, -math.inf))}


_VARIANCE = _add(_sampler(least=3), _draw_correction)
_ONE, _ONE_FILLED, _FILLED = _sampler(False), _sampler(False, 1), _sampler(least=1)


def draw_dim(scope: Scope, focus: Operand) -> Attributes:
    """Any dim."""
    return {"dim": scope.axis(focus.rank)}


def _scan(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    dtype: Dtype,
    most: Callable[[Call], float],
    domain: Range | None = None,
) -> Operator:
    sample, infer = sampled_with(draw_dim), shaped(same_shape, dtype)
    return aten(name, Kind.REDUCE, arithmetic, dtypes, sample, infer, most, ALONG, domain=domain)


def _scanned(call: Call) -> float:
    return magnitudes(call)[0] * max(call.operand(0).shape[axis_of(call)], 1)


def _multiplied(count: Callable[[Call], int]) -> Callable[[Call], float]:
    return lambda call: max(magnitudes(call)[0], 1.0) ** max(count(call), 1)


def _sample_kth(scope: Scope, focus: Operand) -> Call | None:
    call = _ONE_FILLED(scope, focus)
    if call is None:
        return None
    return call._replace(attributes={**call.attributes, "k": scope.draws.between(1, _count(call))})


def _sample_top(scope: Scope, focus: Operand) -> Call:
    axis = scope.axis(focus.rank)
    most = focus.shape[axis % focus.rank]
    return Call((focus,), {"k": scope.draws.between(0, most), "dim": axis, "largest": scope.draws.below(2)})


def _top(call: Call) -> Shape:
    return replaced(call.operand(0).shape, axis_of(call), call.integer("k", 1))


def draw_order(scope: Scope, focus: Operand) -> Attributes:
    """Any dim, and which way to sort along it."""
    return {"stable": 1, "dim": scope.axis(focus.rank), "descending": scope.draws.below(2)}


def _infer_sort(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return focus.type, TensorType(I64, focus.shape)


def _infer_placed(call: Call) -> tuple[TensorType, ...]:
    return TensorType(call.operand(0).dtype, reduced(call)), TensorType(I64, reduced(call))


_PLACED = with_places(_infer_placed)


def _length(call: Call) -> int:
    return call.operand(0).shape[axis_of(call)]


def _beyond(call: Call) -> float:
    return magnitudes(call)[0] + 10


_MOST = times(1)

OPERATORS = (
    *(_reduction(name, CHOOSES, EVERY, _MOST, _FILLED) for name in ("amax", "amin")),
    _reduction("aminmax", CHOOSES, EVERY, _MOST, _ONE_FILLED, _own, _own, ranks=ALONG),
    *(
        aten(name, Kind.REDUCE, CHOOSES, EVERY, _ONE_FILLED, _infer_placed, ranks=ALONG, bound=_PLACED)
        for name in ("max", "min")
    ),
    *(
        _reduction(name, WHOLE, NUMBERS, lambda call: 5000, _ONE_FILLED, places, ranks=ALONG)
        for name in ("argmax", "argmin")
    ),
    *(_reduction(name, SUMS_INSIDE, FLOATING, _spread, _VARIANCE) for name in ("var", "std")),
    *(
        _reduction(name, SUMS_INSIDE, FLOATING, _spread, _VARIANCE, _own, _own)
        for name in ("var_mean", "std_mean")
    ),
    _reduction("logsumexp", LOGARITHM_OF_SUM, FLOATING, _beyond, _FILLED),
    *(_reduction(name, CHOOSES, EVERY, lambda call: 1, None, _any_type) for name in ("any", "all")),
    _reduction("count_nonzero", WHOLE, EVERY, lambda call: 5000, _sampler(may_keep=False), places),
    _reduction("sum", SUMS, EVERY, _sum, None, summed),
    _reduction("nansum", SUMS, NUMBERS, _sum, None, summed),
    _reduction("mean", SUMS, FLOATING, _MOST, _FILLED),
    _reduction(
        "prod", SUMS_INSIDE, EVERY, _multiplied(_count), _ONE, summed, domain=Range(-3, 3), ranks=ALONG
    ),
    _reduction("linalg_vector_norm", SUMS_INSIDE, FLOATING, _sum, _add(_FILLED, _draw_norm)),
    *(
        _reduction(name, WHOLE, NUMBERS, _MOST, _ONE_FILLED, ranks=ALONG)
        for name in ("median", "nanmedian", "mode")
    ),
    _reduction("kthvalue", WHOLE, NUMBERS, _MOST, _sample_kth, ranks=ALONG),
    aten("topk", Kind.PART, WHOLE, NUMBERS, _sample_top, shaped(_top), ranks=ALONG),
    aten("sort", Kind.LAYOUT, WHOLE, NUMBERS, ranks=ALONG).by(
        sampled_with(draw_order), _infer_sort, with_places(_infer_sort)
    ),
    _scan("cumsum", SUMS, EVERY, summed, _scanned),
    _scan("cumprod", SUMS_INSIDE, EVERY, summed, _multiplied(_length), Range(-3, 3)),
    _scan("logcumsumexp", LOGARITHM_OF_SUM, FLOATING, _own, _beyond),
    *(_scan(name, WHOLE, NUMBERS, _own, _MOST) for name in ("cummax", "cummin")),
)
