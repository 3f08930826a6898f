"""Operators of torch itself that normalise, average or compare along dims; attention, and losses."""

import math
from collections.abc import Callable

from oracles.operators.aten_index import indices
from oracles.operators.aten_layout import without_axis
from oracles.operators.aten_reduce import draw_dim, reduced
from oracles.relation.arithmetic import SUMS_INSIDE, symmetric
from oracles.relation.aten import FLOATING, WIDE, aten, axis_of
from oracles.relation.operator import Operator, RangeRule, Sampler, TypeRule, same_type
from oracles.relation.program import ALONG, FLAT, MATRIX, MAX_ELEMENTS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import (
    Attributes,
    Choice,
    choices,
    inside,
    magnitudes,
    same_shape,
    sampled_with,
    shaped,
)
from oracles.relation.types import DType, Range, Shape, TensorType, is_filled, replaced

_FACTORS, _ABOVE = Range(-10, 10), Range(0.1, 10)


def _normed(call: Call) -> float:
    """Bound what is divided by its spread, scaled and shifted."""
    return (math.sqrt(math.prod(call.operand(0).shape)) + 1) * 10 + 11


def _factors(scope: Scope, dtype: DType, shape: Shape) -> list[Operand]:
    """A scale and a shift, a scale or nothing."""
    return [scope.supply(dtype, shape, _FACTORS) for _ in range(scope.draws.between(0, 2))]


def _or_none(factors: list[Operand]) -> list[Operand | None]:
    return [*factors, *(None,) * (2 - len(factors))]


def _sample_batch(scope: Scope, focus: Operand) -> Call | None:
    """By the statistics of the batch, or by given ones."""
    channels = focus.shape[1]
    if math.prod(focus.shape) < 2 * channels:
        return None
    factors = _or_none(_factors(scope, focus.dtype, (channels,)))
    training = scope.draws.below(2)
    given: list[Operand | None] = [None, None]
    if not training:
        given = [scope.supply(focus.dtype, (channels,), within) for within in (_FACTORS, _ABOVE)]
    attributes: dict[str, Attribute] = {"training": training, "momentum": 0.1, "eps": 1e-3}
    return Call((focus, *factors, *given), {**attributes, "cudnn_enabled": 0})


def _batched(call: Call) -> float:
    return _normed(call) if call.integer("training", 0) else (magnitudes(call)[0] + 10) * 35 + 11


def _sample_instance(scope: Scope, focus: Operand) -> Call | None:
    if math.prod(focus.shape[2:]) < 2:
        return None
    factors = _or_none(_factors(scope, focus.dtype, focus.shape[1:2]))
    attributes: dict[str, Attribute] = {"use_input_stats": 1, "momentum": 0.1, "eps": 1e-3}
    return Call((focus, *factors, None, None), {**attributes, "cudnn_enabled": 0})


def _some_dims(scope: Scope, focus: Operand) -> Shape:
    """The last dims, which are normalised."""
    return focus.shape[-scope.draws.between(1, focus.rank) :]


def _sample_native_layer(scope: Scope, focus: Operand) -> Call:
    shape = _some_dims(scope, focus)
    factors = _or_none(_factors(scope, focus.dtype, shape))
    return Call((focus, *factors), {"normalized_shape": shape, "eps": 1e-3})


def _infer_layer(call: Call) -> tuple[TensorType, ...]:
    focus, dims = call.operand(0), len(call.tuple_of("normalized_shape", ()))
    rest = TensorType(focus.dtype, (*focus.shape[:-dims], *(1,) * dims))
    return focus.type, rest, rest


def _sample_layer(scope: Scope, focus: Operand) -> Call:
    """Over the last dims, with a scale and a shift or without."""
    shape = _some_dims(scope, focus)
    factors = _factors(scope, focus.dtype, shape)
    return Call((focus, *factors), {"normalized_shape": shape, "eps": scope.draws.pick((1e-5, 0.1))})


def _sample_root(scope: Scope, focus: Operand) -> Call:
    call = _sample_layer(scope, focus)
    return call._replace(operands=call.operands[:2])


def _scaled(call: Call) -> float:
    return (math.sqrt(math.prod(call.operand(0).shape)) + 1) * math.prod(magnitudes(call)[1:2]) + 11


def _groups(scope: Scope, focus: Operand) -> int | None:
    """A number of groups of channels, each of which holds more than one element."""
    groups = scope.draws.pick([count for count in (1, 2, 3, 4) if focus.shape[1] % count == 0])
    return None if math.prod(focus.shape[1:]) // groups < 2 else groups


def _sample_native_group(scope: Scope, focus: Operand) -> Call | None:
    channels, groups = focus.shape[1], _groups(scope, focus)
    if groups is None:
        return None
    sizes: dict[str, Attribute] = {"N": focus.shape[0], "C": channels, "HxW": math.prod(focus.shape[2:])}
    factors = _or_none(_factors(scope, focus.dtype, (channels,)))
    return Call((focus, *factors), {**sizes, "group": groups, "eps": 1e-3})


def _infer_group(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    rest = TensorType(focus.dtype, (focus.shape[0], call.integer("group", 1)))
    return focus.type, rest, rest


def _sample_group(scope: Scope, focus: Operand) -> Call | None:
    if math.prod(focus.shape[1:]) < 2:
        return None
    groups = _groups(scope, focus)
    if groups is None:
        return None
    factors = _factors(scope, focus.dtype, focus.shape[1:2])
    return Call((focus, *factors), {"num_groups": groups, "eps": 1e-3})


def _with_statistics(call: Call) -> tuple[Range, ...]:
    own, most = _normed(call), max(magnitudes(call)[0], 40.0)
    return symmetric(own), symmetric(most), symmetric(most)


def _sample_weight_norm(scope: Scope, focus: Operand) -> Call | None:
    """Away from zero, whose direction is left open."""
    axis = scope.draws.pick((0, focus.rank - 1))
    if not is_filled(focus.shape) or not focus.range.is_within(Range(-math.inf, math.inf, 0.05)):
        return None
    length = tuple(dim if at == axis else 1 for at, dim in enumerate(focus.shape))
    return Call((focus, scope.supply(focus.dtype, length)), {"dim": axis})


def _draw_softmax(scope: Scope, focus: Operand) -> Attributes:
    return {**draw_dim(scope, focus), "half_to_float": 0}


def _bound_logarithm(call: Call) -> tuple[Range, ...]:
    return (Range(-2 * magnitudes(call)[0] - 12, 0.1),)


def _draw_renorm(scope: Scope, focus: Operand) -> Attributes:
    axis = scope.draws.below(focus.rank)
    return {"p": scope.draws.pick((1.0, 2.0)), "dim": axis, "maxnorm": scope.draws.pick((0.5, 3.0))}


# Attention


def _sample_attention(scope: Scope, focus: Operand) -> Call | None:
    """The focus is the query; keys and values of one length, a mask to add or none."""
    *batch, rows, width = focus.shape
    columns, depth = max(1, scope.dim()), width if scope.draws.chance(0.7) else max(1, scope.dim())
    if math.prod(batch) * max(rows, width, depth) * columns > MAX_ELEMENTS:
        return None
    key, value = (scope.supply(focus.dtype, (*batch, columns, size)) for size in (width, depth))
    causal = scope.draws.below(2)
    masks = () if causal or scope.draws.chance(0.5) else (scope.supply(focus.dtype, (rows, columns)),)
    scale: dict[str, Attribute] = {"scale": 0.125} if scope.draws.chance(0.4) else {}
    return Call((focus, key, value, *masks), {"is_causal": causal, **scale})


def _attended(call: Call) -> Shape:
    return (*call.operand(0).shape[:-1], call.operand(2).shape[-1])


# Along dims


def _draw_norm(scope: Scope, focus: Operand) -> Attributes:
    axes = scope.axes(focus.rank, 1, min(focus.rank, 3))
    order = scope.draws.pick((2.0, 1.0, 3.0, math.inf))
    return {"p": order, "dim": axes, "keepdim": scope.draws.below(2)}


def _draw_mean(scope: Scope, focus: Operand) -> Attributes:
    drawn = _draw_norm(scope, focus)
    return {name: drawn[name] for name in ("dim", "keepdim")}


def _sum(call: Call) -> float:
    return magnitudes(call)[0] * (math.prod(call.operand(0).shape) + 1)


def _accumulated(call: Call) -> Shape:
    axis = axis_of(call)
    return replaced(call.operand(0).shape, axis, max(call.operand(0).shape[axis] - 1, 0))


def _draw_quantile(scope: Scope, focus: Operand) -> Attributes:
    return {"q": scope.draws.pick((0.5, 0.25, 0.1, 1.0)), "dim": scope.draws.below(focus.rank)}


def _sample_distance(scope: Scope, focus: Operand) -> Call:
    return Call((focus, scope.supply(*focus.type)))


def _sample_similarity(scope: Scope, focus: Operand) -> Call:
    call = _sample_distance(scope, focus)
    return call._replace(attributes={"dim": scope.axis(focus.rank), "eps": 1e-3})


def _apart(call: Call) -> float:
    return (sum(magnitudes(call)) + 1) * max(call.operand(0).shape[-1], 1)


_SIMILAR = shaped(lambda call: replaced(call.operand(0).shape, axis_of(call, default=1)))
_DISTANT = shaped(lambda call: call.operand(0).shape[:-1])


def _norm(
    name: str,
    dtypes: tuple[DType, ...],
    sample: Sampler,
    infer: TypeRule,
    most: Callable[[Call], float] | None = None,
    ranks: range = ALONG,
    bound: RangeRule | None = None,
) -> Operator:
    return aten(name, Kind.NORM, SUMS_INSIDE, dtypes, sample, infer, most, ranks, bound=bound, filled=True)


def _unless_reduced(shape: Callable[[Call], Shape]) -> TypeRule:
    """One number, or a number each if the loss is not reduced."""
    return shaped(lambda call: () if call.integer("reduction", 1) else shape(call))


def _sample_classes(scope: Scope, focus: Operand) -> Call | None:
    """Classes along dim 1, all of them there; perhaps weights, and a class that does not count."""
    classes = focus.shape[1]
    if classes < 2:
        return None
    target = indices(scope, (focus.shape[0], *focus.shape[2:]), classes)
    weights = (scope.supply(focus.dtype, (classes,), Range(0.5, 4)),) if scope.draws.chance(0.5) else ()
    attributes: dict[str, Attribute] = {"reduction": scope.draws.below(3)}
    if attributes["reduction"] != 1 and scope.draws.chance(0.4):
        attributes["ignore_index"] = scope.draws.below(classes)
    return Call((focus, target, *weights), attributes)


def _sample_smoothed(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_classes(scope, focus)
    if call is None or "ignore_index" in call.attributes:
        return call
    return call._replace(attributes={**call.attributes, "label_smoothing": scope.draws.pick((0.0, 0.1, 0.5))})


def _lost(call: Call) -> float:
    return 8 * (magnitudes(call)[0] + 10) * math.prod(call.operand(0).shape)


def _loss(
    name: str,
    within: Range | None = None,
    draw: Choice | None = None,
    domain: Range | None = None,
    most: Callable[[Call], float] | None = None,
) -> Operator:
    """A loss of two tensors of one shape; the target lies `within` bounds."""

    def sample(scope: Scope, focus: Operand) -> Call:
        target = scope.supply(*focus.type, within)
        more = draw(scope, focus) if draw else {}
        return Call((focus, target), {**more, "reduction": scope.draws.below(3)})

    infer, most = _unless_reduced(same_shape), most or _distant
    return aten(name, Kind.NORM, SUMS_INSIDE, FLOATING, sample, infer, most, domain=domain, filled=True)


def _distant(call: Call) -> float:
    first, second = magnitudes(call)
    return (first + 8) * (second + 8) * math.prod(call.operand(0).shape)


def _squared(call: Call) -> float:
    return 2 * (sum(magnitudes(call)) + 1) ** 2 * math.prod(call.operand(0).shape)


def _exponential(call: Call) -> float:
    return (math.exp(4) + 50) * math.prod(call.operand(0).shape)


def _draw_poisson(scope: Scope, focus: Operand) -> Attributes:
    return {"log_input": 1, "full": scope.draws.below(2), "eps": 1e-6}


def _sample_triplet(scope: Scope, focus: Operand) -> Call:
    others = (scope.supply(*focus.type), scope.supply(*focus.type))
    margin = scope.draws.pick((1.0, 0.5))
    return Call((focus, *others), {"margin": margin, "reduction": scope.draws.below(3)})


def _sample_margin(scope: Scope, focus: Operand) -> Call:
    target = indices(scope, focus.shape[:1], focus.shape[1])
    return Call((focus, target), {"p": scope.draws.pick((1, 2)), "reduction": scope.draws.below(3)})


def _spread(call: Call) -> float:
    return (2 * sum(magnitudes(call)[:3]) + 2) ** 2 * math.prod(call.operand(0).shape)


def _of_rows(
    name: str,
    dtypes: tuple[DType, ...],
    sample: Sampler,
    infer: TypeRule,
    most: Callable[[Call], float],
    ranks: range,
) -> Operator:
    return aten(name, Kind.NORM, SUMS_INSIDE, dtypes, sample, infer, most, ranks, filled=True)


_CLASSIFIED = _unless_reduced(lambda call: (call.operand(0).shape[0], *call.operand(0).shape[2:]))
_TRIPLED = _unless_reduced(lambda call: call.operand(0).shape[:-1])
_MARGINS = _unless_reduced(lambda call: call.operand(0).shape[:1])
_SIGNS, _UNIT = Range(-1, 1, 1), Range(0.02, 0.98)

OPERATORS = (
    _norm("batch_norm", WIDE, _sample_batch, same_type, _batched, FLAT),
    _norm("instance_norm", WIDE, _sample_instance, same_type, _normed, range(3, 6)),
    _norm("native_layer_norm", WIDE, _sample_native_layer, _infer_layer, bound=_with_statistics),
    _norm("native_group_norm", WIDE, _sample_native_group, _infer_group, None, FLAT, _with_statistics),
    _norm("layer_norm", FLOATING, _sample_layer, same_type, _scaled),
    _norm("rms_norm", FLOATING, _sample_root, same_type, _scaled),
    _norm("group_norm", FLOATING, _sample_group, same_type, _scaled, FLAT),
    _norm("renorm", WIDE, sampled_with(_draw_renorm), same_type, None, FLAT),
    aten("_weight_norm", Kind.NORM, SUMS_INSIDE, WIDE, _sample_weight_norm, same_type, _sum, FLAT),
    _norm("_softmax", FLOATING, sampled_with(_draw_softmax), same_type, bound=inside(0, 1.01)),
    _norm("_safe_softmax", FLOATING, sampled_with(draw_dim), same_type, bound=inside(0, 1.01)),
    _norm("_log_softmax", FLOATING, sampled_with(_draw_softmax), same_type, bound=_bound_logarithm),
    _norm(
        "scaled_dot_product_attention",
        WIDE,
        _sample_attention,
        shaped(_attended),
        lambda call: magnitudes(call)[2] * 1.01,
        range(3, 5),
    ),
    _norm("norm", FLOATING, sampled_with(_draw_norm), shaped(reduced), _sum),
    _norm("nanmean", FLOATING, sampled_with(_draw_mean), shaped(reduced), _sum),
    _norm("cumulative_trapezoid", WIDE, sampled_with(draw_dim), shaped(_accumulated), _sum),
    _norm("quantile", WIDE, sampled_with(_draw_quantile), shaped(without_axis), _sum),
    _norm("cosine_similarity", WIDE, _sample_similarity, _SIMILAR, bound=inside(-1.1, 1.1)),
    _norm("pairwise_distance", WIDE, _sample_distance, _DISTANT, _apart),
    *(_loss(name, most=_squared) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")),
    _of_rows("cross_entropy_loss", FLOATING, _sample_smoothed, _CLASSIFIED, _lost, range(2, 5)),
    _of_rows("nll_loss_nd", WIDE, _sample_classes, _CLASSIFIED, _lost, range(2, 5)),
    _loss("kl_div", _UNIT, choices(log_target=(0, 1))),
    _loss("binary_cross_entropy", Range(0, 1), domain=_UNIT),
    _loss("binary_cross_entropy_with_logits", Range(0, 1)),
    _loss("soft_margin_loss", _SIGNS, domain=Range(-10, 10)),
    _loss("hinge_embedding_loss", _SIGNS, choices(margin=(1.0, 0.5))),
    _loss("poisson_nll_loss", Range(0, 9), _draw_poisson, Range(-4, 4), _exponential),
    _of_rows("triplet_margin_loss", WIDE, _sample_triplet, _TRIPLED, _spread, ALONG),
    _of_rows("multi_margin_loss", WIDE, _sample_margin, _MARGINS, _spread, MATRIX),
)
