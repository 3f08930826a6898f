"""Operators of torch itself that look along dims: reductions, scans, sorting, norms and losses."""

import math
from collections.abc import Callable

from oracles.relation.arithmetic import CHOOSES, LOGARITHM_OF_SUM, SUMS, SUMS_INSIDE, WHOLE, Arithmetic
from oracles.relation.aten import (
    EVERY,
    FLOATING,
    NUMBERS,
    aten,
    axis_of,
    by_type,
    inside,
    magnitudes,
    places,
    replaced,
    shaped,
    summed,
    with_places,
)
from oracles.relation.open_checks import is_filled
from oracles.relation.operator import Operator, RangeRule, Sampler, TypeRule
from oracles.relation.program import ALONG, MAX_RANK, Attribute, Call, Kind, Operand, Scope
from oracles.relation.types import BOOL, F32, F64, I64, U8, DType, Range, Shape, TensorType

Dtype = Callable[[Call], DType]


def _axes(call: Call) -> set[int]:
    """The dims that a reduction reduces, counted from the front: all where none is named."""
    rank = call.operand(0).rank
    dim = call.attributes.get("dim")
    named = (dim,) if isinstance(dim, int) else dim
    if not isinstance(named, tuple) or not named:
        return set(range(rank))
    return {int(axis) % max(rank, 1) for axis in named}


def _reduced(call: Call) -> Shape:
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


def _several_types(*dtypes: Dtype) -> TypeRule:
    """Results of one shape."""
    return lambda call: tuple(TensorType(dtype(call), _reduced(call)) for dtype in dtypes)


def _own(call: Call) -> DType:
    return call.operand(0).dtype


def _any_type(call: Call) -> DType:
    """The result type of `any`: bool, but uint8 for uint8."""
    return U8 if call.operand(0).dtype is U8 else BOOL


def _reduction(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    magnitude: Callable[[Call], float],
    sample: Sampler | None = None,
    *results: Dtype,
    domain: Range | None = None,
    ranks: range = range(MAX_RANK + 1),
) -> Operator:
    types = _several_types(*(results or (_own,)))
    bound = by_type(types, magnitude)
    return aten(
        name, Kind.REDUCE, arithmetic, dtypes, sample or _sampler(), types, bound, ranks=ranks, domain=domain
    )


def _most(call: Call) -> float:
    return magnitudes(call)[0]


def _sum(call: Call) -> float:
    return magnitudes(call)[0] * max(_count(call), 1)


def _spread(call: Call) -> float:
    """Bound a variance with any of the corrections."""
    return 4 * magnitudes(call)[0] ** 2 * max(_count(call), 1) + magnitudes(call)[0]


def _draw_correction(scope: Scope, focus: Operand) -> dict[str, Attribute]:
    return {"correction": scope.draws.pick((0, 1, 1, 2))}


def _draw_order(scope: Scope, focus: Operand) -> dict[str, Attribute]:
    return {"ord": scope.draws.pick((2.0, 1.0, 0.0, 3.0, math.inf, -math.inf))}


_VARIANCE = _add(_sampler(least=3), _draw_correction)
_ONE, _ONE_FILLED, _FILLED = _sampler(False), _sampler(False, 1), _sampler(least=1)


def _sample_scan(scope: Scope, focus: Operand) -> Call:
    return Call((focus,), {"dim": scope.axis(focus.rank)})


def _scan(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    dtype: Dtype,
    bound: RangeRule,
    domain: Range | None = None,
) -> Operator:
    infer = shaped(lambda call: call.operand(0).shape, dtype)
    return aten(name, Kind.REDUCE, arithmetic, dtypes, _sample_scan, infer, bound, ranks=ALONG, domain=domain)


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


def _sample_sort(scope: Scope, focus: Operand) -> Call:
    attributes: dict[str, Attribute] = {"stable": 1, "dim": scope.axis(focus.rank)}
    return Call((focus,), {**attributes, "descending": scope.draws.below(2)})


def _infer_sort(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return focus.type, TensorType(I64, focus.shape)


def _sample_loss(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    return Call((focus, scope.supply(*focus.type)), {"reduction": scope.draws.below(3)})


def loss_shape(call: Call) -> Shape:
    """Of a loss: one number, or as many as there are elements if it is not reduced."""
    return () if call.integer("reduction", 1) else call.operand(0).shape


def _loss(name: str) -> Operator:
    infer = shaped(loss_shape)

    def magnitude(call: Call) -> float:
        apart = sum(magnitudes(call)) + 1
        return 2 * apart * apart * math.prod(call.operand(0).shape)

    return aten(name, Kind.NORM, SUMS_INSIDE, FLOATING, _sample_loss, infer, by_type(infer, magnitude))


def _sample_distance(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    return Call((focus, scope.supply(*focus.type)))


def _sample_similarity(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_distance(scope, focus)
    return None if call is None else call._replace(attributes={"dim": scope.axis(focus.rank), "eps": 1e-3})


def _apart(call: Call) -> float:
    return (sum(magnitudes(call)) + 1) * max(call.operand(0).shape[-1], 1)


def _sample_layer(scope: Scope, focus: Operand) -> Call | None:
    """Over the last dims, with a scale and a shift or without."""
    if not is_filled(focus.shape):
        return None
    shape = focus.shape[-scope.draws.between(1, focus.rank) :]
    vectors = scope.draws.below(3)
    operands = (focus, *(scope.supply(focus.dtype, shape, Range(-10, 10)) for _ in range(vectors)))
    return Call(operands, {"normalized_shape": shape, "eps": scope.draws.pick((1e-5, 0.1))})


def _sample_root(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_layer(scope, focus)
    return None if call is None else call._replace(operands=call.operands[:2])


def _normed(call: Call) -> float:
    return (math.sqrt(math.prod(call.operand(0).shape)) + 1) * math.prod(magnitudes(call)[1:2]) + 11


def _sample_groups(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape) or math.prod(focus.shape[1:]) < 2:
        return None
    channels = focus.shape[1]
    groups = scope.draws.pick([count for count in (1, 2, 3, 4) if channels % count == 0])
    if math.prod(focus.shape[1:]) // groups < 2:
        return None
    operands = (
        focus,
        *(scope.supply(focus.dtype, (channels,), Range(-10, 10)) for _ in range(scope.draws.below(3))),
    )
    return Call(operands, {"num_groups": groups, "eps": 1e-3})


def _norm(name: str, sample: Sampler, ranks: range) -> Operator:
    infer = shaped(lambda call: call.operand(0).shape)
    return aten(name, Kind.NORM, SUMS_INSIDE, FLOATING, sample, infer, by_type(infer, _normed), ranks=ranks)


def _sample_renorm(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    axis = scope.draws.below(focus.rank)
    return Call(
        (focus,), {"p": scope.draws.pick((1.0, 2.0)), "dim": axis, "maxnorm": scope.draws.pick((0.5, 3.0))}
    )


_SIMILAR = shaped(lambda call: replaced(call.operand(0).shape, axis_of(call, default=1)))
_DISTANT = shaped(lambda call: call.operand(0).shape[:-1])
_TOP = shaped(_top)
_PLACED = _several_types(_own, places)

OPERATORS = (
    _reduction("amax", CHOOSES, EVERY, _most, _FILLED),
    _reduction("amin", CHOOSES, EVERY, _most, _FILLED),
    _reduction("aminmax", CHOOSES, EVERY, _most, _ONE_FILLED, _own, _own, ranks=ALONG),
    *(
        aten(name, Kind.REDUCE, CHOOSES, EVERY, _ONE_FILLED, _PLACED, with_places(_PLACED), ranks=ALONG)
        for name in ("max", "min")
    ),
    _reduction("argmax", WHOLE, NUMBERS, lambda call: 5000, _ONE_FILLED, places, ranks=ALONG),
    _reduction("argmin", WHOLE, NUMBERS, lambda call: 5000, _ONE_FILLED, places, ranks=ALONG),
    *(_reduction(name, SUMS_INSIDE, FLOATING, _spread, _VARIANCE) for name in ("var", "std")),
    *(
        _reduction(name, SUMS_INSIDE, FLOATING, _spread, _VARIANCE, _own, _own)
        for name in ("var_mean", "std_mean")
    ),
    _reduction("logsumexp", LOGARITHM_OF_SUM, FLOATING, lambda call: magnitudes(call)[0] + 10, _FILLED),
    _reduction("any", CHOOSES, EVERY, lambda call: 1, None, _any_type),
    _reduction("all", CHOOSES, EVERY, lambda call: 1, None, _any_type),
    _reduction("count_nonzero", WHOLE, EVERY, lambda call: 5000, _sampler(may_keep=False), places),
    _reduction("sum", SUMS, EVERY, _sum, None, summed),
    _reduction("nansum", SUMS, NUMBERS, _sum, None, summed),
    _reduction("mean", SUMS, FLOATING, _most, _FILLED),
    _reduction(
        "prod", SUMS_INSIDE, EVERY, _multiplied(_count), _ONE, summed, domain=Range(-3, 3), ranks=ALONG
    ),
    _reduction("linalg_vector_norm", SUMS_INSIDE, FLOATING, _sum, _add(_FILLED, _draw_order)),
    _reduction("median", WHOLE, NUMBERS, _most, _ONE_FILLED, ranks=ALONG),
    _reduction("nanmedian", WHOLE, NUMBERS, _most, _ONE_FILLED, ranks=ALONG),
    _reduction("mode", WHOLE, NUMBERS, _most, _ONE_FILLED, ranks=ALONG),
    _reduction("kthvalue", WHOLE, NUMBERS, _most, _sample_kth, ranks=ALONG),
    aten("topk", Kind.PART, WHOLE, NUMBERS, _sample_top, _TOP, by_type(_TOP, _most), ranks=ALONG),
    aten(
        "sort", Kind.LAYOUT, WHOLE, NUMBERS, _sample_sort, _infer_sort, with_places(_infer_sort), ranks=ALONG
    ),
    _scan("cumsum", SUMS, EVERY, summed, by_type(shaped(_reduced, summed), _scanned)),
    _scan(
        "cumprod",
        SUMS_INSIDE,
        EVERY,
        summed,
        by_type(shaped(_reduced, summed), _multiplied(lambda call: call.operand(0).shape[axis_of(call)])),
        Range(-3, 3),
    ),
    _scan(
        "logcumsumexp",
        LOGARITHM_OF_SUM,
        FLOATING,
        _own,
        by_type(shaped(_reduced), lambda call: magnitudes(call)[0] + 10),
    ),
    _scan("cummax", WHOLE, NUMBERS, _own, by_type(shaped(_reduced), _most)),
    _scan("cummin", WHOLE, NUMBERS, _own, by_type(shaped(_reduced), _most)),
    *map(_loss, ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")),
    aten(
        "cosine_similarity",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F64),
        _sample_similarity,
        _SIMILAR,
        inside(-1.1, 1.1),
        ranks=ALONG,
    ),
    aten(
        "pairwise_distance",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F64),
        _sample_distance,
        _DISTANT,
        by_type(_DISTANT, _apart),
        ranks=ALONG,
    ),
    _norm("layer_norm", _sample_layer, ALONG),
    _norm("rms_norm", _sample_root, ALONG),
    _norm("group_norm", _sample_groups, range(2, MAX_RANK + 1)),
    aten("renorm", Kind.NORM, SUMS_INSIDE, (F32, F64), _sample_renorm, ranks=range(2, MAX_RANK + 1)),
)
