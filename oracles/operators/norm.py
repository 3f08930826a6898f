"""Normalisations along one axis, over a batch, an instance, a group, a layer, a neighbourhood; and losses."""

import math

from oracles.operators.conv import IMAGES, is_image
from oracles.relation.arithmetic import LOGARITHM_OF_SUM, SUMS, SUMS_INSIDE, Arithmetic, symmetric
from oracles.relation.edges import SATURATES
from oracles.relation.operator import SAME, Inverse, Operator, Sampler, averaged_range
from oracles.relation.program import ALONG, FLAT, IMAGE, MAX_RANK, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import another_dim, inside, inverted, is_filled_image, when, with_zero
from oracles.relation.types import BF16, F16, F32, F64, FLOATS, I64, Range, TensorType, is_filled

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


# Losses


def _sample_loss(scope: Scope, focus: Operand) -> Call:
    """A class for each place; with or without weights of the classes."""
    return _loss(scope, focus, scope.draws.pick(("none", "none", "mean", "sum")))


def _loss(scope: Scope, focus: Operand, reduction: str) -> Call:
    classes = focus.shape[1]
    labels = scope.supply(I64, (focus.shape[0], *focus.shape[2:]), Range(0, classes - 1))
    operands: tuple[Operand, ...] = (focus, labels)
    if scope.draws.chance(0.4):
        operands += (scope.supply(focus.dtype, (classes,), Range(0.5, 2)),)
    attributes: dict[str, Attribute] = {"reduction": reduction}
    if reduction != "mean" and scope.draws.chance(0.3):  # a mean over nothing is not a number
        attributes["ignore_index"] = scope.draws.between(-1, classes)
    return Call(operands, attributes)


def _sample_cross_entropy(scope: Scope, focus: Operand) -> Call:
    """The logarithms of the probabilities are a second result."""
    return _sample_loss(scope, focus)._replace(results=scope.draws.pick((1, 1, 2)))


def _infer_loss(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    shape = (focus.shape[0], *focus.shape[2:]) if call.attributes["reduction"] == "none" else ()
    return (TensorType(focus.dtype, shape), focus.type)[: call.results]


def _bound_loss(call: Call) -> tuple[Range, ...]:
    """Log-probabilities are at most twice the values in size and a logarithm more."""
    focus = call.operand(0)
    count = math.prod(focus.shape) if call.attributes["reduction"] == "sum" else 1
    one = 2 * focus.range.magnitude + math.log(focus.shape[1]) + 1
    return (symmetric(2 * count * one), Range(-one, 0.01))[: call.results]


def _solve_loss(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    if not shape:
        focus = scope.supply(wanted.dtype, tuple(max(1, dim) for dim in scope.shape(2)))
        return _loss(scope, focus, scope.draws.pick(("mean", "sum")))
    source = (shape[0], another_dim(scope, shape), *shape[1:])
    return _loss(scope, scope.supply(wanted.dtype, source), "none")


def _cost(name: str, arithmetic: Arithmetic, sample: Sampler) -> Operator:
    return Operator(name, Kind.REDUCE, arithmetic, (F32, F64), ranks=FLAT, filled=True).by(
        sample, _infer_loss, _bound_loss, inverted(range(MAX_RANK), _solve_loss)
    )


OPERATORS = (
    Operator("Softmax", Kind.NORM, SUMS_INSIDE, FLOATS, ranks=ALONG, filled=True, edges=SATURATES).by(
        _sample_axis, bound=inside(0, 1)
    ),
    Operator("LogSoftmax", Kind.NORM, LOGARITHM_OF_SUM, FLOATS, ranks=ALONG, filled=True, edges=SATURATES).by(
        _sample_axis, bound=_bound_log_softmax
    ),
    Operator("Hardmax", Kind.NORM, SUMS_INSIDE, (F32, F16), ranks=ALONG, filled=True).by(
        _sample_axis, bound=inside(0, 1)
    ),
    Operator("LpNormalization", Kind.NORM, SUMS_INSIDE, (F32, F64), ranks=ALONG, filled=True).by(
        _sample_lp, bound=inside(-1, 1), inverse=Inverse(SAME.recognise, _solve_lp)
    ),
    Operator("InstanceNormalization", Kind.NORM, SUMS_INSIDE, (F32, F16), ranks=IMAGES).by(
        _per_channel, bound=_normal_bound, inverse=when(is_image)
    ),
    Operator("BatchNormalization", Kind.NORM, SUMS_INSIDE, _FEW, ranks=FLAT).by(
        _sample_batch, bound=_bound_batch
    ),
    Operator(
        "LayerNormalization", Kind.NORM, SUMS_INSIDE, (*_FEW, BF16), ranks=ALONG, filled=True, since=17
    ).by(_sample_layer, _infer_layer, _bound_layer),
    Operator(
        "GroupNormalization", Kind.NORM, SUMS_INSIDE, (F32, F16), ranks=IMAGES, filled=True, since=21
    ).by(_sample_group, bound=_normal_bound),
    Operator("LRN", Kind.NORM, SUMS_INSIDE, (F32, F16), ranks=IMAGE).by(
        _sample_lrn, bound=with_zero, inverse=when(is_filled_image)
    ),
    _cost("NegativeLogLikelihoodLoss", SUMS, _sample_loss),
    _cost("SoftmaxCrossEntropyLoss", LOGARITHM_OF_SUM, _sample_cross_entropy),
)
