"""Normalisations: along one axis, over a batch, an instance, a group, a layer, or a neighbourhood."""

import math

from oracles.operators.conv import is_image
from oracles.relation.arithmetic import LOGARITHM_OF_SUM, SUMS_INSIDE, Arithmetic, symmetric
from oracles.relation.edges import SATURATES, TYPE, Edges
from oracles.relation.operator import (
    SAME,
    Inverse,
    Operator,
    RangeRule,
    Sampler,
    TypeRule,
    averaged_range,
    same_type,
)
from oracles.relation.program import (
    ALONG,
    FIRST_OPSET,
    FLAT,
    IMAGE,
    MAX_RANK,
    Attribute,
    Call,
    Kind,
    Operand,
    Scope,
)
from oracles.relation.rules import inside, is_filled_image, when, with_zero
from oracles.relation.types import BF16, F16, F32, F64, FLOATS, DType, Range, TensorType, is_filled

_SPREAD = Range(0.25, 4)
_NONZERO = Range(-math.inf, math.inf, 0.05)
_FEW = (F32, F64, F16)


def _sample_axis(scope: Scope, focus: Operand) -> Call:
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
    if not focus.range.is_within(_NONZERO):
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
    if not is_image(focus.shape):
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


def _sample_layer(scope: Scope, focus: Operand) -> Call:
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


def _sample_group(scope: Scope, focus: Operand) -> Call:
    """Scale and shift of one value a channel; the earlier version of the operator is deprecated."""
    channels = focus.shape[1]
    groups = scope.draws.pick([count for count in range(1, channels + 1) if channels % count == 0])
    scale, shift = (scope.supply(focus.dtype, (channels,)) for _ in range(2))
    return Call((focus, scale, shift), {**_epsilon(scope), "num_groups": groups})


def _sample_lrn(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    attributes: dict[str, Attribute] = {"size": draws.pick((1, 3, 5))}
    if draws.chance(0.5):
        attributes |= {"alpha": draws.pick((1e-4, 0.1)), "beta": draws.pick((0.5, 0.75)), "bias": 2.0}
    return Call((focus,), attributes) if is_filled(focus.shape) else None


def _solve_lp(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
    return operator.sample(scope, scope.supply(*wanted, _NONZERO))


_CHANNELS = range(3, MAX_RANK + 1)


def _norm(
    name: str,
    dtypes: tuple[DType, ...],
    sample: Sampler,
    bound: RangeRule,
    ranks: range = ALONG,
    infer: TypeRule = same_type,
    *,
    arithmetic: Arithmetic = SUMS_INSIDE,
    inverse: Inverse = SAME,
    filled: bool = True,
    since: int = FIRST_OPSET,
    edges: Edges = TYPE,
) -> Operator:
    return Operator(
        name, Kind.NORM, arithmetic, dtypes, ranks=ranks, filled=filled, since=since, edges=edges
    ).by(sample, infer, bound, inverse)


OPERATORS = (
    _norm("Softmax", FLOATS, _sample_axis, inside(0, 1), edges=SATURATES),
    _norm(
        "LogSoftmax",
        FLOATS,
        _sample_axis,
        _bound_log_softmax,
        arithmetic=LOGARITHM_OF_SUM,
        edges=SATURATES,
    ),
    _norm("Hardmax", (F32, F16), _sample_axis, inside(0, 1)),
    _norm(
        "LpNormalization",
        (F32, F64),
        _sample_lp,
        inside(-1, 1),
        inverse=Inverse(SAME.recognise, _solve_lp),
    ),
    _norm(
        "InstanceNormalization",
        (F32, F16),
        _per_channel,
        _normal_bound,
        _CHANNELS,
        inverse=when(is_image),
        filled=False,
    ),
    _norm("BatchNormalization", _FEW, _sample_batch, _bound_batch, FLAT, filled=False),
    _norm("LayerNormalization", (*_FEW, BF16), _sample_layer, _bound_layer, ALONG, _infer_layer, since=17),
    _norm("GroupNormalization", (F32, F16), _sample_group, _normal_bound, _CHANNELS, since=21),
    _norm("LRN", (F32, F16), _sample_lrn, with_zero, IMAGE, inverse=when(is_filled_image), filled=False),
)
