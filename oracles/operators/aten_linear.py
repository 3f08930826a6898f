"""Operators of torch itself that multiply: matrices, vectors, distances between rows."""

import math
from collections.abc import Callable

from oracles.relation.arithmetic import ROUNDS, SUMS, SUMS_INSIDE, Arithmetic
from oracles.relation.aten import FLOATING, WIDE, aten
from oracles.relation.operator import Operator, Sampler, same_type
from oracles.relation.program import (
    ALONG,
    CUBE,
    FLAT,
    MATRIX,
    MAX_ELEMENTS,
    VECTOR,
    Call,
    Kind,
    Operand,
    Scope,
)
from oracles.relation.rules import Attributes, magnitudes, same_shape, shaped
from oracles.relation.types import I32, I64, DType, Shape, replaced


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


def _inner(call: Call) -> Shape:
    """The rows of the first by the rows of the second."""
    return (*call.operand(0).shape[:-1], call.operand(1).shape[0])


def _sample_far(scope: Scope, focus: Operand) -> Call:
    other = scope.supply(focus.dtype, (*focus.shape[:-2], max(1, scope.dim()), focus.shape[-1]))
    return Call((focus, other), {"p": scope.draws.pick((2.0, 1.0, 0.5, math.inf))})


def _far(call: Call) -> Shape:
    return (*call.operand(0).shape[:-1], call.operand(1).shape[-2])


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
    name: str, sample: Sampler, shape: Callable[[Call], Shape], ranks: range, arithmetic: Arithmetic = SUMS
) -> Operator:
    infer, dtypes = shaped(shape), (*FLOATING, I64, I32)
    return aten(name, Kind.LINEAR, arithmetic, dtypes, sample, infer, _largest, ranks)


# With more operands


def _sample_linear(scope: Scope, focus: Operand) -> Call:
    width = max(1, scope.dim())
    bias = (scope.supply(focus.dtype, (width,)),) if scope.draws.chance(0.6) else ()
    return Call((focus, scope.supply(focus.dtype, (width, focus.shape[-1])), *bias))


def _biased(call: Call) -> float:
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


def _crossed(call: Call) -> float:
    return 2 * math.prod(magnitudes(call))


def _sum(call: Call) -> float:
    return magnitudes(call)[0] * (math.prod(call.operand(0).shape) + 1)


_INNER, _BILINEAR = shaped(_inner), shaped(_bilinear)

OPERATORS = (
    _linear("mm", _sample_product, _multiplied, MATRIX),
    _linear("bmm", _sample_product, _multiplied, CUBE),
    _linear("addmm", _sample_added, _added, MATRIX),
    _linear("baddbmm", _sample_added, _added, CUBE),
    _linear("addbmm", _sample_batches, _summed, CUBE),
    _linear("mv", _sample_by_vector, lambda call: call.operand(0).shape[:1], MATRIX),
    _linear("addmv", _sample_vector_added, lambda call: call.operand(1).shape[:1], MATRIX),
    _linear("dot", _sample_by_vector, lambda call: (), VECTOR),
    _linear("outer", _sample_vectors, _outer, VECTOR, ROUNDS),
    _linear("addr", _sample_outer_added, same_shape, VECTOR),
    _linear("kron", _sample_kron, _kron, range(1, 4), ROUNDS),
    _linear("inner", _sample_inner, _inner, range(2, 4)),
    aten("linear", Kind.LINEAR, SUMS, FLOATING, _sample_linear, _INNER, _biased, ALONG),
    aten("bilinear", Kind.LINEAR, SUMS_INSIDE, WIDE, _sample_bilinear, _BILINEAR, _thrice, FLAT),
    aten("linalg_cross", Kind.LINEAR, SUMS_INSIDE, WIDE, _sample_cross, same_type, _crossed, ALONG),
    aten("trace", Kind.NORM, SUMS, WIDE, infer=shaped(lambda call: ()), most=_sum, ranks=MATRIX),
    aten(
        "cdist", Kind.LINEAR, SUMS_INSIDE, WIDE, _sample_far, shaped(_far), _apart, range(2, 4), filled=True
    ),
)
