"""Operators of torch itself that compute the gradient of another one."""

import math
from collections.abc import Callable, Mapping

from oracles.operators.aten_image import pooled, windows
from oracles.operators.aten_index import indices
from oracles.relation.arithmetic import MOVES, ROUNDS, ROUNDS_ABOUT_ONE, SUMS, SUMS_INSIDE, WHOLE, Arithmetic
from oracles.relation.aten import (
    EVERY,
    FLOATING,
    WIDE,
    aten,
    by_type,
    magnitudes,
    replaced,
    second_shape,
    shaped,
)
from oracles.relation.open_checks import is_filled
from oracles.relation.operator import Operator, Sampler
from oracles.relation.program import (
    ALONG,
    FLAT,
    MAX_ELEMENTS,
    MAX_RANK,
    Attribute,
    Call,
    Kind,
    Operand,
    Scope,
)
from oracles.relation.types import DType, Range, Shape

Draw = Callable[[Scope], Mapping[str, Attribute]]


# Element by element


def _none(scope: Scope) -> Mapping[str, Attribute]:
    return {}


def _each(**values: tuple[float, ...]) -> Draw:
    return lambda scope: {name: scope.draws.pick(found) for name, found in values.items()}


def _slope(
    name: str,
    arithmetic: Arithmetic,
    draw: Draw = _none,
    factor: float = 3.0,
    within: Range | None = None,
    dtypes: tuple[DType, ...] = FLOATING,
) -> Operator:
    """The gradient of a function, from that of its result and from its operand or its result."""

    def sample(scope: Scope, focus: Operand) -> Call:
        return Call((focus, scope.supply(*focus.type, within)), draw(scope))

    infer = shaped(lambda call: call.operand(0).shape)
    bound = by_type(infer, lambda call: factor * magnitudes(call)[0])
    return aten(name, Kind.ACTIVATION, arithmetic, dtypes, sample, infer, bound)


def _sample_glu(scope: Scope, focus: Operand) -> Call | None:
    axis = scope.draws.below(focus.rank)
    wide = replaced(focus.shape, axis, 2 * focus.shape[axis])
    if math.prod(wide) > MAX_ELEMENTS:
        return None
    return Call((focus, scope.supply(focus.dtype, wide)), {"dim": axis})


# Losses


def _loss(name: str, draw: Draw = _none, within: Range | None = None) -> Operator:
    """The gradient of a loss of two tensors, reduced or not."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        if not is_filled(focus.shape) or (within and not focus.range.is_within(within)):
            return None
        how = scope.draws.below(3)
        gradient = scope.supply(focus.dtype, () if how else focus.shape)
        operands = (gradient, focus, scope.supply(*focus.type, within))
        return Call(operands, {**draw(scope), "reduction": how})

    infer = shaped(lambda call: call.operand(1).shape)

    def magnitude(call: Call) -> float:
        first, second, third = magnitudes(call)
        return first * (second + third + 1) * (2 if within is None else 200)

    return aten(
        name, Kind.NORM, ROUNDS_ABOUT_ONE, FLOATING, sample, infer, by_type(infer, magnitude), domain=within
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
        shape = focus.shape
        drawn = draw(scope, shape) if is_filled(shape) else None
        if drawn is None or math.prod(drawn[1]) > MAX_ELEMENTS:
            return None
        return Call((focus,), {**drawn[0], "input_sizes": drawn[1]})

    infer = shaped(lambda call: call.tuple_of("input_sizes", ()))
    bound = by_type(infer, lambda call: magnitudes(call)[0] * (1 if arithmetic is MOVES else 9))
    return aten(name, Kind.PART, arithmetic, dtypes, sample, infer, bound, ranks=ranks)


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


def _sample_softmax(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    result = scope.supply(*focus.type, Range(-20, 1))
    return Call((focus, result), {"dim": scope.axis(focus.rank), "input_dtype": int(focus.dtype)})


def _normalised(name: str, factor: float) -> Operator:
    infer = shaped(lambda call: call.operand(0).shape)
    bound = by_type(infer, lambda call: magnitudes(call)[0] * factor * (1 + math.prod(call.operand(0).shape)))
    return aten(name, Kind.NORM, SUMS_INSIDE, WIDE, _sample_softmax, infer, bound, ranks=ALONG)


def _sample_embedding(scope: Scope, focus: Operand) -> Call | None:
    """Rows of gradients summed by the words that they belong to, perhaps but for one word."""
    if not is_filled(focus.shape):
        return None
    words = scope.draws.between(1, 9)
    index = indices(scope, focus.shape[:-1], words)
    padding = scope.draws.between(-1, words - 1)
    attributes: dict[str, Attribute] = {"num_weights": words, "padding_idx": padding}
    return Call((focus, index), {**attributes, "scale_grad_by_freq": scope.draws.below(2)})


def _embedded(call: Call) -> Shape:
    return call.integer("num_weights", 1), call.operand(0).shape[-1]


# Images


def _sample_padded(dims: int, most: int) -> Sampler:
    """A gradient of the padded shape, which follows from the focus; pads as `aten_layout` draws them."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        if not is_filled(focus.shape):
            return None
        sizes = [focus.shape[-1 - place // 2] for place in range(2 * dims)]
        pads = tuple(scope.draws.between(0, min(size + most, 3)) for size in sizes)
        shape = list(focus.shape)
        for place, pad in enumerate(pads):
            shape[-1 - place // 2] += pad
        if math.prod(shape) > MAX_ELEMENTS:
            return None
        return Call((scope.supply(focus.dtype, tuple(shape)), focus), {"padding": pads})

    return sample


def _padding(name: str, dims: int, most: int) -> Operator:
    infer = shaped(lambda call: call.operand(1).shape)
    bound = by_type(infer, lambda call: magnitudes(call)[0] * 7**dims)
    ranks = range(dims + 1, dims + 3)
    return aten(name, Kind.PAD, SUMS, WIDE, _sample_padded(dims, most), infer, bound, ranks=ranks)


def _sample_resized(scope: Scope, focus: Operand) -> Call | None:
    """The focus is the gradient of the resized image."""
    if not is_filled(focus.shape):
        return None
    size = (*focus.shape[:2], *(scope.draws.between(1, 6) for _ in focus.shape[2:]))
    return Call((focus,), {"output_size": focus.shape[2:], "input_size": size})


def _sample_pooled(scope: Scope, focus: Operand) -> Call | None:
    """The focus is the pool's operand; sizes are rounded down."""
    if not is_filled(focus.shape):
        return None
    window = windows(scope, focus.shape[-2:])
    gradient = scope.supply(focus.dtype, pooled(Call((focus,), window)))
    counted = {"count_include_pad": scope.draws.below(2), "divisor_override": scope.draws.between(1, 5)}
    return Call((gradient, focus), {**window, **counted, "ceil_mode": 0})


def _sample_adaptive(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    sizes = (scope.draws.between(1, 5), scope.draws.between(1, 5))
    return Call((scope.supply(focus.dtype, (*focus.shape[:-2], *sizes)), focus))


def _image(
    name: str, arithmetic: Arithmetic, sample: Sampler, shape: Callable[[Call], Shape], ranks: range
) -> Operator:
    infer = shaped(shape)
    bound = by_type(infer, lambda call: magnitudes(call)[0] * math.prod(call.operand(0).shape[-2:]))
    return aten(name, Kind.RESAMPLE, arithmetic, WIDE, sample, infer, bound, ranks=ranks)


def _resized(call: Call) -> Shape:
    return call.tuple_of("input_size", ())


_UNIT, _BETWEEN = Range(0.02, 0.98), Range(-1, 1)
_GLU, _EMBEDDED = shaped(second_shape), shaped(_embedded)

OPERATORS = (
    _slope("sigmoid_backward", ROUNDS_ABOUT_ONE, within=Range(0, 1)),
    _slope("tanh_backward", ROUNDS_ABOUT_ONE, within=_BETWEEN),
    _slope("gelu_backward", ROUNDS_ABOUT_ONE, _each(approximate=("none", "tanh"))),  # type: ignore[arg-type]
    _slope("silu_backward", ROUNDS_ABOUT_ONE),
    _slope("mish_backward", ROUNDS_ABOUT_ONE),
    _slope("hardswish_backward", ROUNDS_ABOUT_ONE),
    _slope("hardsigmoid_backward", ROUNDS),
    _slope("hardtanh_backward", WHOLE, _each(min_val=(-1.0, 0.0), max_val=(6.0, 1.0))),
    _slope("threshold_backward", WHOLE, _each(threshold=(0.0, 0.5, -1.0))),
    _slope("softplus_backward", ROUNDS_ABOUT_ONE, _each(beta=(1.0, 0.5, 2.0), threshold=(20.0, 1.0))),
    _slope("logit_backward", ROUNDS, factor=60, within=_UNIT),
    _slope(
        "elu_backward",
        ROUNDS_ABOUT_ONE,
        _each(alpha=(1.0, 0.5), scale=(1.0, 1.5), input_scale=(1.0, 0.5), is_result=(0,)),
    ),
    _slope("leaky_relu_backward", ROUNDS, _each(negative_slope=(0.01, 0.3), self_is_result=(0, 1))),
    aten(
        "glu_backward",
        Kind.ACTIVATION,
        ROUNDS_ABOUT_ONE,
        WIDE,
        _sample_glu,
        _GLU,
        by_type(_GLU, lambda call: magnitudes(call)[0] * (magnitudes(call)[1] + 1)),
        ranks=ALONG,
    ),
    _loss("mse_loss_backward"),
    _loss("smooth_l1_loss_backward", _each(beta=(1.0, 0.5))),
    _loss("huber_loss_backward", _each(delta=(1.0, 0.5))),
    _loss("binary_cross_entropy_backward", within=_UNIT),
    _placed("slice_backward", _of_slice),
    _placed("select_backward", _of_select, ranks=range(MAX_RANK)),
    _placed("diagonal_backward", _of_diagonal),
    _placed("unfold_backward", _of_windows, SUMS, FLAT, FLOATING),
    _normalised("_softmax_backward_data", 40),
    _normalised("_log_softmax_backward_data", 4),
    aten(
        "embedding_dense_backward",
        Kind.PART,
        SUMS,
        WIDE,
        _sample_embedding,
        _EMBEDDED,
        by_type(_EMBEDDED, lambda call: magnitudes(call)[0] * math.prod(call.operand(1).shape)),
        ranks=FLAT,
    ),
    _padding("reflection_pad1d_backward", 1, -1),
    _padding("reflection_pad2d_backward", 2, -1),
    _padding("replication_pad2d_backward", 2, 3),
    _image("upsample_nearest2d_backward", SUMS, _sample_resized, _resized, range(4, 5)),
    _image("avg_pool2d_backward", SUMS, _sample_pooled, second_shape, range(3, 5)),
    _image("_adaptive_avg_pool2d_backward", SUMS, _sample_adaptive, second_shape, range(3, 5)),
)
