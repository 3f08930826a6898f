"""Operators of torch itself that compute the gradient of another one."""

import math
from collections.abc import Callable, Mapping

from oracles.operators.aten_image import draw_border, padded, pooled, windows
from oracles.operators.aten_index import indices
from oracles.relation.arithmetic import MOVES, ROUNDS, ROUNDS_ABOUT_ONE, SUMS, SUMS_INSIDE, WHOLE, Arithmetic
from oracles.relation.aten import EVERY, FLOATING, WIDE, aten, times
from oracles.relation.operator import Operator, Sampler, TypeRule
from oracles.relation.program import (
    ALONG,
    FLAT,
    IMAGE,
    MAX_ELEMENTS,
    MAX_RANK,
    Attribute,
    Call,
    Kind,
    Operand,
    Scope,
)
from oracles.relation.rules import (
    Attributes,
    Choice,
    by_type,
    choices,
    magnitudes,
    sampled_with,
    second_shape,
    shaped,
)
from oracles.relation.types import DType, Range, Shape, replaced

_NONE, _SECOND = choices(), shaped(second_shape)

# Element by element


def _slope(
    name: str,
    arithmetic: Arithmetic,
    draw: Choice = _NONE,
    factor: float = 3.0,
    within: Range | None = None,
) -> Operator:
    """The gradient of a function, from that of its result and from its operand or its result."""

    def sample(scope: Scope, focus: Operand) -> Call:
        return Call((focus, scope.supply(*focus.type, within)), draw(scope, focus))

    return aten(name, Kind.ACTIVATION, arithmetic, FLOATING, sample, most=times(factor))


def _sample_glu(scope: Scope, focus: Operand) -> Call | None:
    axis = scope.draws.below(focus.rank)
    wide = replaced(focus.shape, axis, 2 * focus.shape[axis])
    if math.prod(wide) > MAX_ELEMENTS:
        return None
    return Call((focus, scope.supply(focus.dtype, wide)), {"dim": axis})


# Losses


def _loss(name: str, draw: Choice = _NONE, within: Range | None = None) -> Operator:
    """The gradient of a loss of two tensors, reduced or not."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        if within and not focus.range.is_within(within):
            return None
        how = scope.draws.below(3)
        gradient = scope.supply(focus.dtype, () if how else focus.shape)
        operands = (gradient, focus, scope.supply(*focus.type, within))
        return Call(operands, {**(draw(scope, focus)), "reduction": how})

    def most(call: Call) -> float:
        first, second, third = magnitudes(call)
        return first * (second + third + 1) * (2 if within is None else 200)

    return aten(
        name, Kind.NORM, ROUNDS_ABOUT_ONE, FLOATING, sample, _SECOND, most, domain=within, filled=True
    )


# Parts


def _placed(
    name: str,
    draw: Callable[[Scope, Shape], tuple[Mapping[str, Attribute], Shape] | None],
    arithmetic: Arithmetic = MOVES,
    ranks: range = ALONG,
    dtypes: tuple[DType, ...] = EVERY,
) -> Operator:
    """The gradient of what takes a part of a tensor: the operand's shape is an attribute."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        drawn = draw(scope, focus.shape)
        if drawn is None or math.prod(drawn[1]) > MAX_ELEMENTS:
            return None
        return Call((focus,), {**drawn[0], "input_sizes": drawn[1]})

    infer = shaped(lambda call: call.tuple_of("input_sizes", ()))
    most = times(1 if arithmetic is MOVES else 9)
    return aten(name, Kind.PART, arithmetic, dtypes, sample, infer, most, ranks, filled=True)


def _of_slice(scope: Scope, shape: Shape) -> tuple[Mapping[str, Attribute], Shape]:
    axis, step = scope.draws.below(len(shape)), scope.draws.between(1, 3)
    start, count = scope.draws.between(0, 3), shape[axis]
    end = start + (count - 1) * step + 1
    whole = replaced(shape, axis, end + scope.draws.between(0, 3))
    return {"dim": axis, "start": start, "end": end, "step": step}, whole


def _of_select(scope: Scope, shape: Shape) -> tuple[Mapping[str, Attribute], Shape] | None:
    if len(shape) >= MAX_RANK:
        return None
    axis, dim = scope.draws.between(0, len(shape)), scope.draws.between(1, 6)
    index = scope.draws.between(-dim, dim - 1)
    return {"dim": axis, "index": index}, (*shape[:axis], dim, *shape[axis:])


def _of_diagonal(scope: Scope, shape: Shape) -> tuple[Mapping[str, Attribute], Shape] | None:
    if len(shape) >= MAX_RANK:
        return None
    offset, more = scope.draws.between(-2, 2), scope.draws.between(0, 2)
    rows, columns = shape[-1] + max(-offset, 0), shape[-1] + max(offset, 0)
    rows, columns = (rows, columns + more) if offset <= 0 else (rows + more, columns)
    rank = len(shape) - 1
    return {"offset": offset, "dim1": rank, "dim2": rank + 1}, (*shape[:-1], rows, columns)


def _of_windows(scope: Scope, shape: Shape) -> tuple[Mapping[str, Attribute], Shape] | None:
    axis, step = scope.draws.below(len(shape) - 1), scope.draws.between(1, 3)
    size, count = shape[-1], shape[axis]
    length = (count - 1) * step + size + scope.draws.between(0, step - 1)
    return {"dim": axis, "size": size, "step": step}, replaced(shape[:-1], axis, length)


# Over dims


def _sample_softmax(scope: Scope, focus: Operand) -> Call:
    result = scope.supply(*focus.type, Range(-20, 1))
    return Call((focus, result), {"dim": scope.axis(focus.rank), "input_dtype": int(focus.dtype)})


def _normalised(name: str, factor: float) -> Operator:
    def most(call: Call) -> float:
        return magnitudes(call)[0] * factor * (1 + math.prod(call.operand(0).shape))

    return aten(name, Kind.NORM, SUMS_INSIDE, WIDE, _sample_softmax, most=most, ranks=ALONG, filled=True)


def _sample_embedding(scope: Scope, focus: Operand) -> Call:
    """Rows of gradients summed by the words that they belong to, perhaps but for one word."""
    words = scope.draws.between(1, 9)
    index = indices(scope, focus.shape[:-1], words)
    padding = scope.draws.between(-1, words - 1)
    attributes: dict[str, Attribute] = {"num_weights": words, "padding_idx": padding}
    return Call((focus, index), {**attributes, "scale_grad_by_freq": scope.draws.below(2)})


def _embedded(call: Call) -> Shape:
    return call.integer("num_weights", 1), call.operand(0).shape[-1]


def _of_words(call: Call) -> float:
    return magnitudes(call)[0] * math.prod(call.operand(1).shape)


# Images


def _padding(name: str, dims: int, most: int) -> Operator:
    """A gradient of the padded shape, which follows from the focus."""
    draw = draw_border(dims, most)

    def sample(scope: Scope, focus: Operand) -> Call | None:
        pads = draw(scope, focus)
        shape = padded(Call((focus,), pads))
        return (
            None if math.prod(shape) > MAX_ELEMENTS else Call((scope.supply(focus.dtype, shape), focus), pads)
        )

    ranks = range(dims + 1, dims + 3)
    return aten(name, Kind.PAD, SUMS, WIDE, sample, _SECOND, times(7**dims), ranks, filled=True)


def _draw_resized(scope: Scope, focus: Operand) -> Attributes:
    """The focus is the gradient of the resized image."""
    size = (*focus.shape[:2], *(scope.draws.between(1, 6) for _ in focus.shape[2:]))
    return {"output_size": focus.shape[2:], "input_size": size}


def _sample_pooled(scope: Scope, focus: Operand) -> Call:
    """The focus is the pool's operand; sizes are rounded down."""
    window = windows(scope, focus.shape[-2:])
    gradient = scope.supply(focus.dtype, pooled(Call((focus,), window)))
    counted = {"count_include_pad": scope.draws.below(2), "divisor_override": scope.draws.between(1, 5)}
    return Call((gradient, focus), {**window, **counted, "ceil_mode": 0})


def _sample_adaptive(scope: Scope, focus: Operand) -> Call:
    sizes = (scope.draws.between(1, 5), scope.draws.between(1, 5))
    return Call((scope.supply(focus.dtype, (*focus.shape[:-2], *sizes)), focus))


def _image(name: str, sample: Sampler, infer: TypeRule, ranks: range) -> Operator:
    def most(call: Call) -> float:
        return magnitudes(call)[0] * math.prod(call.operand(0).shape[-2:])

    return aten(name, Kind.RESAMPLE, SUMS, WIDE, sample, infer, most, ranks, filled=True)


_UNIT, _BETWEEN = Range(0.02, 0.98), Range(-1, 1)
_EMBEDDED = shaped(_embedded)
_RESIZED = shaped(lambda call: call.tuple_of("input_size", ()))
_ELU: dict[str, tuple[float, ...]] = {
    "alpha": (1.0, 0.5),
    "scale": (1.0, 1.5),
    "input_scale": (1.0, 0.5),
    "is_result": (0,),
}

OPERATORS = (
    _slope("sigmoid_backward", ROUNDS_ABOUT_ONE, within=Range(0, 1)),
    _slope("tanh_backward", ROUNDS_ABOUT_ONE, within=_BETWEEN),
    _slope("gelu_backward", ROUNDS_ABOUT_ONE, choices(approximate=("none", "tanh"))),
    _slope("silu_backward", ROUNDS_ABOUT_ONE),
    _slope("mish_backward", ROUNDS_ABOUT_ONE),
    _slope("hardswish_backward", ROUNDS_ABOUT_ONE),
    _slope("hardsigmoid_backward", ROUNDS),
    _slope("hardtanh_backward", WHOLE, choices(min_val=(-1.0, 0.0), max_val=(6.0, 1.0))),
    _slope("threshold_backward", WHOLE, choices(threshold=(0.0, 0.5, -1.0))),
    _slope("softplus_backward", ROUNDS_ABOUT_ONE, choices(beta=(1.0, 0.5, 2.0), threshold=(20.0, 1.0))),
    _slope("logit_backward", ROUNDS, factor=60, within=_UNIT),
    _slope("elu_backward", ROUNDS_ABOUT_ONE, choices(**_ELU)),
    _slope("leaky_relu_backward", ROUNDS, choices(negative_slope=(0.01, 0.3), self_is_result=(0, 1))),
    aten("glu_backward", Kind.ACTIVATION, ROUNDS_ABOUT_ONE, WIDE, ranks=ALONG).by(
        _sample_glu, _SECOND, by_type(_SECOND, lambda call: magnitudes(call)[0] * (magnitudes(call)[1] + 1))
    ),
    _loss("mse_loss_backward"),
    _loss("smooth_l1_loss_backward", choices(beta=(1.0, 0.5))),
    _loss("huber_loss_backward", choices(delta=(1.0, 0.5))),
    _loss("binary_cross_entropy_backward", within=_UNIT),
    _placed("slice_backward", _of_slice),
    _placed("select_backward", _of_select, ranks=range(MAX_RANK)),
    _placed("diagonal_backward", _of_diagonal),
    _placed("unfold_backward", _of_windows, SUMS, FLAT, FLOATING),
    _normalised("_softmax_backward_data", 40),
    _normalised("_log_softmax_backward_data", 4),
    aten("embedding_dense_backward", Kind.PART, SUMS, WIDE, ranks=FLAT, filled=True).by(
        _sample_embedding, _EMBEDDED, by_type(_EMBEDDED, _of_words)
    ),
    _padding("reflection_pad1d_backward", 1, -1),
    _padding("reflection_pad2d_backward", 2, -1),
    _padding("replication_pad2d_backward", 2, 3),
    _image("upsample_nearest2d_backward", sampled_with(_draw_resized), _RESIZED, IMAGE),
    _image("avg_pool2d_backward", _sample_pooled, _SECOND, range(3, 5)),
    _image("_adaptive_avg_pool2d_backward", _sample_adaptive, _SECOND, range(3, 5)),
)
