"""Operators of torch itself that hold sums: norms, attention, products, distances."""

import math

from oracles.operators.aten_linear import inner
from oracles.relation.arithmetic import SUMS, SUMS_INSIDE
from oracles.relation.aten import (
    FLOATING,
    SAME,
    WIDE,
    Attributes,
    aten,
    axis_of,
    inside,
    magnitudes,
    replaced,
    sampled_with,
    summing,
)
from oracles.relation.open_checks import is_filled
from oracles.relation.program import ALONG, FLAT, MAX_ELEMENTS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.types import DType, Range, Shape, TensorType

_FACTORS, _ABOVE = Range(-10, 10), Range(0.1, 10)


def _normed(call: Call) -> float:
    """Bound what is divided by its spread, scaled and shifted."""
    return (math.sqrt(math.prod(call.operand(0).shape)) + 1) * 10 + 11


def _statistics(call: Call) -> float:
    return max(magnitudes(call)[0], 40.0)


def _factors(scope: Scope, dtype: DType, shape: Shape, most: int = 2) -> list[Operand | None]:
    """A scale and a shift, a scale or nothing."""
    count = scope.draws.between(0, most)
    made: list[Operand | None] = [scope.supply(dtype, shape, _FACTORS) for _ in range(count)]
    return [*made, *(None,) * (most - count)]


def _sample_batch(scope: Scope, focus: Operand) -> Call | None:
    """By the statistics of the batch, or by given ones."""
    channels = focus.shape[1]
    if not is_filled(focus.shape) or math.prod(focus.shape) < 2 * channels:
        return None
    factors = _factors(scope, focus.dtype, (channels,))
    training = scope.draws.below(2)
    given: list[Operand | None] = [None, None]
    if not training:
        given = [scope.supply(focus.dtype, (channels,), within) for within in (_FACTORS, _ABOVE)]
    attributes: dict[str, Attribute] = {"training": training, "momentum": 0.1, "eps": 1e-3}
    return Call((focus, *factors, *given), {**attributes, "cudnn_enabled": 0})


def _batched(call: Call) -> float:
    return _normed(call) if call.integer("training", 0) else (magnitudes(call)[0] + 10) * 35 + 11


def _sample_instance(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape) or math.prod(focus.shape[2:]) < 2:
        return None
    factors = _factors(scope, focus.dtype, focus.shape[1:2])
    attributes: dict[str, Attribute] = {"use_input_stats": 1, "momentum": 0.1, "eps": 1e-3}
    return Call((focus, *factors, None, None), {**attributes, "cudnn_enabled": 0})


def _sample_layer(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    shape = focus.shape[-scope.draws.between(1, focus.rank) :]
    return Call((focus, *_factors(scope, focus.dtype, shape)), {"normalized_shape": shape, "eps": 1e-3})


def _infer_layer(call: Call) -> tuple[TensorType, ...]:
    focus, dims = call.operand(0), len(call.tuple_of("normalized_shape", ()))
    rest = TensorType(focus.dtype, (*focus.shape[:-dims], *(1,) * dims))
    return focus.type, rest, rest


def _sample_group(scope: Scope, focus: Operand) -> Call | None:
    channels, inner = focus.shape[1], math.prod(focus.shape[2:])
    if not is_filled(focus.shape):
        return None
    groups = scope.draws.pick([count for count in (1, 2, 3, 4) if channels % count == 0])
    if inner * channels // groups < 2:
        return None
    sizes: dict[str, Attribute] = {"N": focus.shape[0], "C": channels, "HxW": inner, "group": groups}
    return Call((focus, *_factors(scope, focus.dtype, (channels,))), {**sizes, "eps": 1e-3})


def _infer_group(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    rest = TensorType(focus.dtype, (focus.shape[0], call.integer("group", 1)))
    return focus.type, rest, rest


def _with_statistics(call: Call) -> tuple[Range, ...]:
    own, most = _normed(call), _statistics(call)
    return tuple(Range(-bound, bound) for bound in (own, most, most))


def _sample_weight_norm(scope: Scope, focus: Operand) -> Call | None:
    """Away from zero, whose direction is left open."""
    axis = scope.draws.pick((0, focus.rank - 1))
    if not is_filled(focus.shape) or not focus.range.is_within(Range(-math.inf, math.inf, 0.05)):
        return None
    length = tuple(dim if at == axis else 1 for at, dim in enumerate(focus.shape))
    return Call((focus, scope.supply(focus.dtype, length)), {"dim": axis})


def _draw_axis(scope: Scope, focus: Operand) -> Attributes | None:
    return {"dim": scope.axis(focus.rank)} if is_filled(focus.shape) else None


def _draw_softmax(scope: Scope, focus: Operand) -> Attributes | None:
    drawn = _draw_axis(scope, focus)
    return None if drawn is None else {**drawn, "half_to_float": 0}


# Attention


def _sample_attention(scope: Scope, focus: Operand) -> Call | None:
    """The focus is the query; keys and values of one length, a mask to add or none."""
    if not is_filled(focus.shape):
        return None
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


# Products and distances


def _sample_linear(scope: Scope, focus: Operand) -> Call:
    width = max(1, scope.dim())
    bias = (scope.supply(focus.dtype, (width,)),) if scope.draws.chance(0.6) else ()
    return Call((focus, scope.supply(focus.dtype, (width, focus.shape[-1])), *bias))


def _multiplied(call: Call) -> float:
    return math.prod(magnitudes(call)[:2]) * (call.operand(0).shape[-1] + 1) + sum(magnitudes(call)[2:])


def _sample_bilinear(scope: Scope, focus: Operand) -> Call:
    width, made = max(1, scope.dim()), scope.draws.between(1, 3)
    other = scope.supply(focus.dtype, (*focus.shape[:-1], width))
    return Call((focus, other, scope.supply(focus.dtype, (made, focus.shape[-1], width))))


def _bilinear(call: Call) -> Shape:
    return (*call.operand(0).shape[:-1], call.operand(2).shape[0])


def _thrice(call: Call) -> float:
    return math.prod(magnitudes(call)) * (math.prod(call.operand(2).shape) + 1)


def _sample_cross(scope: Scope, focus: Operand) -> Call:
    """Vectors of three elements in place of one dim of the focus."""
    axis = scope.draws.below(focus.rank)
    shape = replaced(focus.shape, axis, 3)
    return Call((scope.supply(focus.dtype, shape), scope.supply(focus.dtype, shape)), {"dim": axis})


def _sample_norm(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    axes = scope.axes(focus.rank, 1, min(focus.rank, 3))
    order = scope.draws.pick((2.0, 1.0, 3.0, math.inf))
    return Call((focus,), {"p": order, "dim": axes, "keepdim": scope.draws.below(2)})


def _sample_mean(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_norm(scope, focus)
    if call is None:
        return None
    return call._replace(attributes={name: call.attributes[name] for name in ("dim", "keepdim")})


def _without(call: Call) -> Shape:
    rank = call.operand(0).rank
    axes = {axis % rank for axis in call.tuple_of("dim", ())}
    kept = call.integer("keepdim", 0)
    found = ((1 if axis in axes else dim) for axis, dim in enumerate(call.operand(0).shape))
    return tuple(dim for axis, dim in enumerate(found) if kept or axis not in axes)


def _sum(call: Call) -> float:
    return magnitudes(call)[0] * (math.prod(call.operand(0).shape) + 1)


def _accumulated(call: Call) -> Shape:
    axis = axis_of(call)
    return replaced(call.operand(0).shape, axis, max(call.operand(0).shape[axis] - 1, 0))


def _sample_quantile(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    return Call(
        (focus,), {"q": scope.draws.pick((0.5, 0.25, 0.1, 1.0)), "dim": scope.draws.below(focus.rank)}
    )


def _quantile(call: Call) -> Shape:
    return replaced(call.operand(0).shape, axis_of(call))


OPERATORS = (
    summing("batch_norm", _sample_batch, lambda call: call.operand(0).shape, _batched, FLAT, WIDE),
    summing(
        "instance_norm", _sample_instance, lambda call: call.operand(0).shape, _normed, range(3, 6), WIDE
    ),
    aten(
        "native_layer_norm",
        Kind.NORM,
        SUMS_INSIDE,
        WIDE,
        _sample_layer,
        _infer_layer,
        _with_statistics,
        ranks=ALONG,
    ),
    aten(
        "native_group_norm",
        Kind.NORM,
        SUMS_INSIDE,
        WIDE,
        _sample_group,
        _infer_group,
        _with_statistics,
        ranks=FLAT,
    ),
    summing("_weight_norm", _sample_weight_norm, lambda call: call.operand(0).shape, _sum, FLAT, WIDE),
    *(
        aten(name, Kind.NORM, SUMS_INSIDE, FLOATING, sampled_with(draw), SAME, bound, ranks=ALONG)
        for name, draw, bound in (
            ("_softmax", _draw_softmax, inside(0, 1.01)),
            ("_safe_softmax", _draw_axis, inside(0, 1.01)),
            (
                "_log_softmax",
                _draw_softmax,
                lambda call: (Range(-2 * magnitudes(call)[0] - 12, 0.1),),
            ),
        )
    ),
    summing(
        "scaled_dot_product_attention",
        _sample_attention,
        _attended,
        lambda call: magnitudes(call)[2] * 1.01,
        range(3, 5),
        WIDE,
    ),
    summing("linear", _sample_linear, inner, _multiplied, ALONG, FLOATING, SUMS, Kind.LINEAR),
    summing("bilinear", _sample_bilinear, _bilinear, _thrice, FLAT, WIDE, SUMS_INSIDE, Kind.LINEAR),
    summing(
        "linalg_cross",
        _sample_cross,
        lambda call: call.operand(0).shape,
        lambda call: 2 * math.prod(magnitudes(call)),
        ALONG,
        WIDE,
        SUMS_INSIDE,
        Kind.LINEAR,
    ),
    summing("trace", lambda scope, focus: Call((focus,)), lambda call: (), _sum, range(2, 3), WIDE, SUMS),
    summing("norm", _sample_norm, _without, _sum, ALONG),
    summing("nanmean", _sample_mean, _without, _sum, ALONG),
    summing("cumulative_trapezoid", sampled_with(_draw_axis), _accumulated, _sum, ALONG, WIDE, SUMS_INSIDE),
    summing("quantile", _sample_quantile, _quantile, _sum, ALONG, WIDE),
)
