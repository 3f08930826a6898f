"""Normalisations: along one axis, over a batch, an instance, a group, a layer, or a neighbourhood."""

import math

from oracles.relation.arithmetic import LOGARITHM_OF_SUM, SUMS_INSIDE, hull, symmetric
from oracles.relation.edges import SATURATES
from oracles.relation.open_checks import filled
from oracles.relation.operator import Operator, RangeRule, averaged_range
from oracles.relation.program import ALONG, MAX_RANK, Attribute, Call, Kind, Operand, Scope
from oracles.relation.types import BF16, F16, F32, F64, FLOATS, Range, TensorType

_SPREAD = Range(0.25, 4)
_NONZERO = Range(-math.inf, math.inf, 0.05)
_FEW = (F32, F64, F16)


def _fixed(low: float, high: float) -> RangeRule:
    return lambda call: (Range(low, high),)


def _sample_axis(scope: Scope, focus: Operand) -> Call | None:
    if 0 in focus.shape:
        return None
    attributes: dict[str, Attribute] = {}
    if scope.draws.chance(0.8):
        attributes["axis"] = scope.axis(focus.rank)
    return Call((focus,), attributes)


def _bound_log_softmax(call: Call) -> tuple[Range, ...]:
    low, high, _ = call.operand(0).range
    return (Range(low - high - math.log(max(call.operand(0).shape)), 0),)


def _sample_lp(scope: Scope, focus: Operand) -> Call | None:
    """Needs values away from zero: a slice of zeros has no norm to divide by."""
    call = _sample_axis(scope, focus)
    if call is None or not focus.range.is_within(_NONZERO):
        return None
    return call._replace(attributes={**call.attributes, "p": scope.draws.pick((1, 2))})


def _normal_bound(call: Call) -> tuple[Range, ...]:
    """Bound a value divided by its deviation: the root of the count, before scale and shift."""
    count = math.prod(call.operand(0).shape)
    scale = call.operand(1).range.magnitude if len(call.operands) > 1 else 1.0
    shift = call.optional(2)
    return (symmetric(math.sqrt(count) * scale + (shift.range.magnitude if shift else 0) + 1),)


def _per_channel(scope: Scope, focus: Operand) -> Call | None:
    """Scale and shift of one value a channel."""
    if 0 in focus.shape[1:]:
        return None
    channels = (focus.shape[1],)
    scale, shift = scope.supply(focus.dtype, channels), scope.supply(focus.dtype, channels)
    return Call((focus, scale, shift), _epsilon(scope))


def _epsilon(scope: Scope) -> dict[str, Attribute]:
    return {"epsilon": scope.draws.pick((1e-5, 1e-3, 0.1))} if scope.draws.chance(0.5) else {}


def _sample_batch(scope: Scope, focus: Operand) -> Call:
    channels = (focus.shape[1],)
    dtype = focus.dtype
    scale, shift, mean = (scope.supply(dtype, channels) for _ in range(3))
    return Call((focus, scale, shift, mean, scope.supply(dtype, channels, _SPREAD)), _epsilon(scope))


def _bound_batch(call: Call) -> tuple[Range, ...]:
    data, scale, shift, mean, variance = (call.operand(index).range for index in range(5))
    centred = data.magnitude + mean.magnitude
    return (symmetric(centred * scale.magnitude / math.sqrt(max(variance.low, 1e-3)) + shift.magnitude),)


def _sample_layer(scope: Scope, focus: Operand) -> Call | None:
    if 0 in focus.shape:
        return None
    draws = scope.draws
    axis = scope.axis(focus.rank)
    shape = focus.shape[axis:]
    attributes = {**_epsilon(scope), "axis": axis}
    operands: tuple[Operand, ...] = (focus, scope.supply(focus.dtype, shape))
    if draws.chance(0.7):
        operands += (scope.supply(focus.dtype, shape),)
    # What the later results hold in other types is nowhere the same.
    return Call(operands, attributes, draws.pick((1, 1, 1, 2, 3)) if focus.dtype is F32 else 1)


def _infer_layer(call: Call) -> tuple[TensorType, ...]:
    """The mean and the inverse deviation have ones for the normalised dims."""
    focus = call.operand(0)
    axis = call.integer("axis", -1) % focus.rank
    of_rows = TensorType(focus.dtype, (*focus.shape[:axis], *(1 for _ in focus.shape[axis:])))
    return (focus.type, of_rows, of_rows)[: call.results]


def _bound_layer(call: Call) -> tuple[Range, ...]:
    epsilon = call.attributes.get("epsilon", 1e-5)
    assert isinstance(epsilon, float)
    inverse = Range(0, 1.01 / math.sqrt(epsilon))
    return (*_normal_bound(call), *averaged_range(call), inverse)[: call.results]


def _sample_group(scope: Scope, focus: Operand) -> Call | None:
    """Scale and shift of one value a channel; the earlier version of the operator is deprecated."""
    channels = focus.shape[1]
    if 0 in focus.shape:
        return None
    groups = scope.draws.pick([count for count in range(1, channels + 1) if channels % count == 0])
    scale, shift = (scope.supply(focus.dtype, (channels,)) for _ in range(2))
    return Call((focus, scale, shift), {**_epsilon(scope), "num_groups": groups})


def _sample_lrn(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    attributes: dict[str, Attribute] = {"size": draws.pick((1, 3, 5))}
    if draws.chance(0.5):
        attributes |= {"alpha": draws.pick((1e-4, 0.1)), "beta": draws.pick((0.5, 0.75)), "bias": 2.0}
    return Call((focus,), attributes) if 0 not in focus.shape else None


def _bound_lrn(call: Call) -> tuple[Range, ...]:
    """The divisor is at least 1 in every combination that is drawn."""
    return (hull((call.operand(0).range, Range(0, 0))),)


_CHANNELS = range(3, MAX_RANK + 1)

OPERATORS = (
    Operator(
        "Softmax",
        Kind.NORM,
        SUMS_INSIDE,
        FLOATS,
        _sample_axis,
        bound=_fixed(0, 1),
        ranks=ALONG,
        inverse=filled(),
        edges=SATURATES,
    ),
    Operator(
        "LogSoftmax",
        Kind.NORM,
        LOGARITHM_OF_SUM,
        FLOATS,
        _sample_axis,
        bound=_bound_log_softmax,
        ranks=ALONG,
        inverse=filled(),
        edges=SATURATES,
    ),
    Operator(
        "Hardmax",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F16),
        _sample_axis,
        bound=_fixed(0, 1),
        ranks=ALONG,
        inverse=filled(),
    ),
    Operator(
        "LpNormalization",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F64),
        _sample_lp,
        bound=_fixed(-1, 1),
        ranks=ALONG,
        inverse=filled(within=_NONZERO),
    ),
    Operator(
        "InstanceNormalization",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F16),
        _per_channel,
        bound=_normal_bound,
        ranks=_CHANNELS,
        inverse=filled(1),
    ),
    Operator(
        "BatchNormalization",
        Kind.NORM,
        SUMS_INSIDE,
        _FEW,
        _sample_batch,
        bound=_bound_batch,
        ranks=range(2, MAX_RANK + 1),
    ),
    Operator(
        "LayerNormalization",
        Kind.NORM,
        SUMS_INSIDE,
        (*_FEW, BF16),
        _sample_layer,
        _infer_layer,
        _bound_layer,
        ranks=ALONG,
        since=17,
        inverse=filled(),
    ),
    Operator(
        "GroupNormalization",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F16),
        _sample_group,
        bound=_normal_bound,
        ranks=_CHANNELS,
        since=21,
        inverse=filled(),
    ),
    Operator(
        "LRN",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F16),
        _sample_lrn,
        bound=_bound_lrn,
        ranks=range(4, 5),
        inverse=filled(),
    ),
)
