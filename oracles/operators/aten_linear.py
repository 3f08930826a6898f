"""Operators of torch itself that multiply matrices, and pools and resizing of images."""

import math
from collections.abc import Callable

from oracles.operators.aten_image import and_places, draw_window, pooled, sized
from oracles.relation.arithmetic import MOVES, ROUNDS, SUMS, SUMS_INSIDE, WHOLE, Arithmetic
from oracles.relation.aten import (
    FLOATING,
    WIDE,
    Attributes,
    aten,
    by_type,
    magnitudes,
    sampled_with,
    shaped,
    with_places,
)
from oracles.relation.open_checks import is_filled
from oracles.relation.operator import Operator, Sampler
from oracles.relation.program import MAX_ELEMENTS, Call, Kind, Operand, Scope
from oracles.relation.types import F32, F64, I32, I64, DType, Shape

_NUMBERS = (F32, F64, I64, I32)
_VECTOR, _MATRIX, _BATCH = range(1, 2), range(2, 3), range(3, 4)


def _factors(scope: Scope, dtype: DType) -> Attributes:
    """Draw the factors of the two terms; often there are none."""
    if scope.draws.chance(0.4):
        return {}
    if dtype in (I64, I32):
        return {"alpha": scope.draws.pick((1, 2)), "beta": scope.draws.pick((0, 1, 3))}
    return {"alpha": scope.draws.pick((1.0, 0.5, -1.0)), "beta": scope.draws.pick((1.0, 0.0, 0.25))}


def _sample_product(scope: Scope, focus: Operand) -> Call:
    """Multiply by another matrix with as many batches."""
    *batch, _, inner = focus.shape
    return Call((focus, scope.supply(focus.dtype, (*batch, inner, scope.dim()))))


def _sample_added(scope: Scope, focus: Operand, drop: int = 0) -> Call:
    """A product and its addend, which has the product's shape or broadcasts to it."""
    call = _sample_product(scope, focus)
    shape = _product_shape(call.operand(0).shape, call.operand(1).shape)[drop:]
    addend = shape if scope.draws.chance(0.6) else shape[-1:]
    attributes = _factors(scope, focus.dtype)
    return Call((scope.supply(focus.dtype, addend), *call.operands), attributes)


def _sample_batches(scope: Scope, focus: Operand) -> Call:
    return _sample_added(scope, focus, 1)


def _product_shape(left: Shape, right: Shape) -> Shape:
    return (*left[:-1], right[-1])


def _multiplied(call: Call) -> Shape:
    return _product_shape(call.operand(0).shape, call.operand(1).shape)


def _added(call: Call) -> Shape:
    return _product_shape(call.operand(1).shape, call.operand(2).shape)


def _summed(call: Call) -> Shape:
    return _added(call)[1:]


def _sample_by_vector(scope: Scope, focus: Operand) -> Call:
    return Call((focus, scope.supply(focus.dtype, focus.shape[-1:])))


def _sample_vector_added(scope: Scope, focus: Operand) -> Call:
    call = _sample_by_vector(scope, focus)
    return Call((scope.supply(focus.dtype, focus.shape[:1]), *call.operands), _factors(scope, focus.dtype))


def _sample_vectors(scope: Scope, focus: Operand) -> Call | None:
    size = scope.dim()
    if focus.shape[0] * size > MAX_ELEMENTS:
        return None
    return Call((focus, scope.supply(focus.dtype, (size,))))


def _sample_outer_added(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_vectors(scope, focus)
    if call is None:
        return None
    addend = scope.supply(focus.dtype, _outer(call))
    return Call((addend, *call.operands), _factors(scope, focus.dtype))


def _outer(call: Call) -> Shape:
    return (*call.operand(0).shape, *call.operand(1).shape)


def _sample_kron(scope: Scope, focus: Operand) -> Call | None:
    other = scope.supply(focus.dtype, tuple(scope.draws.between(1, 3) for _ in focus.shape))
    return Call((focus, other)) if math.prod(focus.shape) * math.prod(other.shape) <= MAX_ELEMENTS else None


def _kron(call: Call) -> Shape:
    return tuple(a * b for a, b in zip(call.operand(0).shape, call.operand(1).shape, strict=True))


def _sample_inner(scope: Scope, focus: Operand) -> Call:
    return Call((focus, scope.supply(focus.dtype, (scope.dim(), focus.shape[-1]))))


def inner(call: Call) -> Shape:
    """The rows of the first by the rows of the second."""
    return (*call.operand(0).shape[:-1], call.operand(1).shape[0])


def _sample_far(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    other = scope.supply(focus.dtype, (*focus.shape[:-2], max(1, scope.dim()), focus.shape[-1]))
    return Call((focus, other), {"p": scope.draws.pick((2.0, 1.0, 0.5, math.inf))})


def _far(call: Call) -> Shape:
    return (*call.operand(0).shape[:-1], call.operand(1).shape[-2])


_FAR = shaped(_far)


def _apart(call: Call) -> float:
    """Bound a distance of any norm of order one half or more."""
    return sum(magnitudes(call)) * call.operand(0).shape[-1] ** 2 + 1


def _largest(call: Call) -> float:
    """Bound a sum of products with a term added, all of it at most doubled."""
    product = (
        math.prod(magnitudes(call)[-2:]) * max(max(value.shape, default=1) for value in call.present) ** 2
    )
    return product + 3 * magnitudes(call)[0]


def _linear(
    name: str, arithmetic: Arithmetic, sample: Sampler, shape: Callable[[Call], Shape], ranks: range
) -> Operator:
    infer, dtypes = shaped(shape), (*FLOATING, I64, I32)
    return aten(name, Kind.LINEAR, arithmetic, dtypes, sample, infer, by_type(infer, _largest), ranks=ranks)


# Images


_draw_pool = draw_window(2)


def _draw_average(scope: Scope, focus: Operand) -> Attributes | None:
    attributes = _draw_pool(scope, focus)
    if attributes is None:
        return None
    divisor: Attributes = {"divisor_override": scope.draws.between(1, 5)} if scope.draws.chance(0.3) else {}
    return {**attributes, "count_include_pad": scope.draws.below(2), **divisor}


_PLACES = and_places(pooled)


def _draw_sizes(scope: Scope, focus: Operand) -> Attributes | None:
    return (
        {"output_size": (scope.draws.between(1, 5), scope.draws.between(1, 5))}
        if is_filled(focus.shape)
        else None
    )


def _draw_aligned(scope: Scope, focus: Operand) -> Attributes | None:
    attributes = _draw_sizes(scope, focus)
    return None if attributes is None else {**attributes, "align_corners": scope.draws.below(2)}


def _draw_blocks(scope: Scope, focus: Operand) -> Attributes | None:
    if not is_filled(focus.shape):
        return None
    kernel = tuple(scope.draws.between(1, min(size, 3)) for size in focus.shape[-2:])
    pads, stride = (scope.draws.below(2), scope.draws.below(2)), (scope.draws.between(1, 2), 1)
    return {"kernel_size": kernel, "dilation": (1, 1), "padding": pads, "stride": stride}


def _blocks(call: Call) -> Shape:
    batch, channels, *sizes = call.operand(0).shape
    kernel, pads, stride = (call.tuple_of(name, ()) for name in ("kernel_size", "padding", "stride"))
    counts = [
        (size + 2 * pad - width) // step + 1
        for size, width, pad, step in zip(sizes, kernel, pads, stride, strict=True)
    ]
    return (batch, channels * math.prod(kernel), math.prod(counts))


def _image(
    name: str,
    arithmetic: Arithmetic,
    draw: Callable[[Scope, Operand], Attributes | None],
    shape: Callable[[Call], Shape],
    kind: Kind,
    ranks: range = range(4, 5),
    dtypes: tuple[DType, ...] = FLOATING,
) -> Operator:
    infer = shaped(shape)
    bound = by_type(infer, lambda call: 9 * magnitudes(call)[0])
    return aten(name, kind, arithmetic, dtypes, sampled_with(draw), infer, bound, ranks=ranks)


OPERATORS = (
    _linear("mm", SUMS, _sample_product, _multiplied, _MATRIX),
    _linear("bmm", SUMS, _sample_product, _multiplied, _BATCH),
    _linear("addmm", SUMS, _sample_added, _added, _MATRIX),
    _linear("baddbmm", SUMS, _sample_added, _added, _BATCH),
    _linear("addbmm", SUMS, _sample_batches, _summed, _BATCH),
    _linear("mv", SUMS, _sample_by_vector, lambda call: call.operand(0).shape[:1], _MATRIX),
    _linear("addmv", SUMS, _sample_vector_added, lambda call: call.operand(1).shape[:1], _MATRIX),
    _linear("dot", SUMS, _sample_by_vector, lambda call: (), _VECTOR),
    _linear("outer", ROUNDS, _sample_vectors, _outer, _VECTOR),
    _linear("addr", SUMS, _sample_outer_added, lambda call: call.operand(0).shape, _VECTOR),
    _linear("kron", ROUNDS, _sample_kron, _kron, range(1, 4)),
    _linear("inner", SUMS, _sample_inner, inner, range(2, 4)),
    aten(
        "cdist", Kind.LINEAR, SUMS_INSIDE, WIDE, _sample_far, _FAR, by_type(_FAR, _apart), ranks=range(2, 4)
    ),
    _image("avg_pool2d", SUMS, _draw_average, pooled, Kind.POOL, range(3, 5)),
    _image("adaptive_avg_pool2d", SUMS, _draw_sizes, sized, Kind.POOL, range(3, 5)),
    aten(
        "max_pool2d_with_indices",
        Kind.POOL,
        WHOLE,
        FLOATING,
        sampled_with(_draw_pool),
        _PLACES,
        with_places(_PLACES),
        ranks=range(3, 5),
    ),
    _image("upsample_nearest2d", MOVES, _draw_sizes, sized, Kind.RESAMPLE),
    _image("upsample_bilinear2d", SUMS, _draw_aligned, sized, Kind.RESAMPLE),
    _image("im2col", MOVES, _draw_blocks, _blocks, Kind.LAYOUT),
)
