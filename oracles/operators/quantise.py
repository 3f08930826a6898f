"""Quantisation: to integers, back, and the operators on quantised values."""

import math

import numpy as np

from oracles.operators.conv import IMAGES, convolved, is_image, sample_conv, solve_conv
from oracles.operators.matmul import matmul_shape, multiplied
from oracles.relation.arithmetic import (
    ROUNDS,
    WHOLE,
    Arithmetic,
    Rounding,
    hull,
    mul,
    rounded,
    sub,
    symmetric,
    within_type,
)
from oracles.relation.edges import TIES
from oracles.relation.open_checks import has_no_range
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import FLAT, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import another_dim, inverted, retyped, same_shape, shaped
from oracles.relation.types import (
    F32,
    FLOAT8,
    I8,
    I16,
    I32,
    INT4,
    NUMPY,
    U8,
    U16,
    DType,
    Range,
    TensorType,
    extent,
)

QUANTISED = (U8, I8)
_LATER = {19: FLOAT8, 21: (*INT4, I16, U16)}


def fix_scale(scope: Scope, size: tuple[int, ...], magnitude: float) -> Operand:
    """A scale that spreads the magnitude over the range of the quantised type, give or take.

    At extremes it is a power of two, by which halves stay halves, or so small that nearly all saturates.
    """
    draws = scope.draws
    step = rounded(max(magnitude, 0.1)) / 128 * draws.pick((0.5, 1.0, 1.0, 2.0))
    if draws.chance(scope.profile.extreme):
        whole = math.floor(math.log2(step))
        return scope.fix(np.full(size, 2.0 ** draws.pick((whole, whole, whole + 1, -20)), np.float32), F32)
    wobble = 1 + (draws.words(int(np.prod(size, dtype=int))) % 8).reshape(size) / 8
    return scope.fix((step * wobble).astype(np.float32), F32)


def fix_zero_point(scope: Scope, dtype: DType, size: tuple[int, ...]) -> Operand:
    """A constant zero point of that size within its type."""
    draws = scope.draws
    low, high, _ = extent(dtype)
    value = draws.pick((0, 0, 1, int(low + high + 1) // 2, int(low), int(high)))
    if dtype in FLOAT8:
        value = 0
    return scope.fix(np.full(size, value, NUMPY[dtype]), dtype)


def _axis(scope: Scope, focus: Operand) -> tuple[tuple[int, ...], dict[str, Attribute]]:
    """One scale for the whole tensor, or one for each index of an axis."""
    if focus.rank and scope.draws.chance(0.2):
        axis = scope.axis(focus.rank)
        return (focus.shape[axis],), {"axis": axis}
    return (), {}


def _sample_quantise(scope: Scope, focus: Operand) -> Call:
    size, attributes = _axis(scope, focus)
    scale = fix_scale(scope, size, focus.range.magnitude)
    if scope.draws.chance(0.15):
        return Call((focus, scale), attributes)
    dtypes = [each for each in _results(scope.opset) if each in QUANTISED or scope.allows(each)]
    return Call((focus, scale, fix_zero_point(scope, scope.draws.pick(dtypes), size)), attributes)


def _results(opset: int) -> list[DType]:
    """The quantised types of an opset."""
    return [*QUANTISED, *(dtype for first, more in _LATER.items() if opset >= first for dtype in more)]


def _solve_quantise(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    focus = scope.supply(F32, wanted.shape)
    size, attributes = _axis(scope, focus)
    scale = fix_scale(scope, size, focus.range.magnitude)
    return Call((focus, scale, fix_zero_point(scope, wanted.dtype, size)), attributes)


def infer_quantise(call: Call) -> tuple[TensorType, ...]:
    """The zero point's type, uint8 if there is none."""
    zero = call.optional(2)
    return (TensorType(zero.dtype if zero else U8, call.operand(0).shape),)


def _bound_by_type(call: Call) -> tuple[Range, ...]:
    """A float of eight bits saturates far outside what the scale is for."""
    dtype = infer_quantise(call)[0].dtype
    if dtype not in FLOAT8:
        return (extent(dtype),)
    step = call.operand(1).range.magnitude_floor or 1.0  # no scale at all where there is no element
    return (symmetric(1.15 * call.operand(0).range.magnitude / step),)


def sample_dequantise(scope: Scope, focus: Operand) -> Call:
    """Values of 32 bits have no zero point."""
    size, attributes = _axis(scope, focus)
    scale = fix_scale(scope, size, scope.draws.pick((1.0, 4.0, 10.0)))
    if focus.dtype is I32 or scope.draws.chance(0.15):
        return Call((focus, scale), attributes)
    return Call((focus, scale, fix_zero_point(scope, focus.dtype, size)), attributes)


DEQUANTISED = shaped(same_shape, lambda call: F32)


def bound_dequantise(call: Call) -> tuple[Range, ...]:
    """The range of the steps from the zero point, times the scale."""
    zero = call.optional(2)
    steps = sub(call.operand(0).range, zero.range) if zero else call.operand(0).range
    return (mul(steps, call.operand(1).range),)


def _infer_dynamic(call: Call) -> tuple[TensorType, ...]:
    return TensorType(U8, call.operand(0).shape), TensorType(F32, ()), TensorType(U8, ())


def _sample_dynamic(scope: Scope, focus: Operand) -> Call:
    return Call((focus,), results=3)


def _bound_dynamic(call: Call) -> tuple[Range, ...]:
    focus = hull((call.operand(0).range, Range(0, 0)))
    return Range(0, 255), Range(0, max(1.0, (focus.high - focus.low) / 255 + 1e-6)), Range(0, 255)


def _sample_qlinear_matmul(scope: Scope, focus: Operand) -> Call:
    return _qlinear_matmul(scope, focus, scope.dim())


def _second_dtype(scope: Scope, first: DType) -> DType:
    """Kernels exist for u8 by u8, u8 by i8 and i8 by i8."""
    return U8 if first is U8 and scope.draws.chance(0.5) else I8


def _qlinear_matmul(scope: Scope, focus: Operand, columns: int) -> Call:
    other = scope.supply(_second_dtype(scope, focus.dtype), (focus.shape[-1], columns))
    one: tuple[int, ...] = ()
    parts: list[Operand] = []
    for operand in (focus, other):
        parts += [operand, fix_scale(scope, one, 1.0), fix_zero_point(scope, operand.dtype, one)]
    wide = float(focus.shape[-1])
    return Call((*parts, fix_scale(scope, one, wide), fix_zero_point(scope, focus.dtype, one)))


def _result_dtype(call: Call) -> DType:
    """The type of the last zero point."""
    return call.operand(7).dtype


def _bound_result(call: Call) -> tuple[Range, ...]:
    return (extent(_result_dtype(call)),)


def _sample_matmul_integer(scope: Scope, focus: Operand) -> Call:
    return _matmul_integer(scope, focus, scope.dim())


def _matmul_integer(scope: Scope, focus: Operand, columns: int) -> Call:
    draws, kind = scope.draws, _second_dtype(scope, focus.dtype)
    operands: tuple[Operand, ...] = (focus, scope.supply(kind, (focus.shape[-1], columns)))
    if draws.chance(0.7):
        operands += (fix_zero_point(scope, focus.dtype, ()),)
        if draws.chance(0.7):
            operands += (fix_zero_point(scope, kind, ()),)
    return Call(operands)


def _bound_matmul_integer(call: Call) -> tuple[Range, ...]:
    high = 255 * 255 * max(call.operand(0).shape[-1], 1)
    return (within_type(I32, Range(-high, high)),)


def _matrix_back(scope: Scope, dtype: DType, shape: tuple[int, ...]) -> Operand:
    """A left factor for a result of this shape."""
    return scope.supply(dtype, (*shape[:-1], another_dim(scope, (*shape[:-1], max(shape[-1], 1)))))


def _solve_qlinear_matmul(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return _qlinear_matmul(scope, _matrix_back(scope, *wanted), wanted.shape[-1])


def _solve_matmul_integer(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    dtype = scope.draws.pick(QUANTISED)
    return _matmul_integer(scope, _matrix_back(scope, dtype, wanted.shape), wanted.shape[-1])


def _sample_qlinear(scope: Scope, focus: Operand) -> Call | None:
    call = sample_conv(scope, focus)
    return None if call is None else _with_scales(scope, call)


def _with_scales(scope: Scope, call: Call) -> Call:
    """The same convolution with scales and zero points for image, weight and result; an integer bias."""
    image, weight = call.operand(0), call.operand(1)
    parts: list[Operand] = []
    for operand in (image, weight):
        parts += [operand, fix_scale(scope, (), 1.0), fix_zero_point(scope, operand.dtype, ())]
    wide = float(math.prod(weight.shape[1:]))
    parts += [fix_scale(scope, (), wide), fix_zero_point(scope, image.dtype, ())]
    if scope.draws.chance(0.5):
        parts.append(scope.supply(I32, (weight.shape[0],), Range(-1000, 1000)))
    return call._replace(operands=tuple(parts))


def _solve_qlinear(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return _with_scales(scope, solve_conv(scope, wanted))


def _sample_integer(scope: Scope, focus: Operand) -> Call | None:
    call = sample_conv(scope, focus)
    return None if call is None else _with_zero_points(scope, call)


def _with_zero_points(scope: Scope, call: Call) -> Call:
    image, weight = call.operand(0), call.operand(1)
    operands: tuple[Operand, ...] = (image, weight)
    if scope.draws.chance(0.6):
        operands += (fix_zero_point(scope, image.dtype, ()), fix_zero_point(scope, weight.dtype, ()))
    return call._replace(operands=operands)


def _bound_integer(call: Call) -> tuple[Range, ...]:
    most = 255 * 255 * math.prod(call.operand(1).shape[1:])
    return (within_type(I32, Range(-most, most)),)


def _solve_integer(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return _with_zero_points(scope, solve_conv(scope, TensorType(U8, wanted.shape)))


_PRODUCT = shaped(lambda call: matmul_shape(call.operand(0).shape, call.operand(3).shape), _result_dtype)
_CONVOLVED = shaped(lambda call: convolved(call, 3), _result_dtype)
QUANTISES = Arithmetic(Rounding.RESULT, quantises=True, has_scale=True)
DEQUANTISES = Arithmetic(Rounding.RESULT, has_scale=True, typed_by="output_dtype")
_BY_RANGE = Arithmetic(
    Rounding.RESULT, opens={"of a range of zero or infinity": has_no_range}, quantises=True
)


OPERATORS = (
    Operator("QuantizeLinear", Kind.QUANTISE, QUANTISES, (F32,), edges=TIES).by(
        _sample_quantise,
        infer_quantise,
        _bound_by_type,
        Inverse(lambda operator, wanted, opset: wanted.dtype in _results(opset), _solve_quantise),
    ),
    Operator("DequantizeLinear", Kind.QUANTISE, DEQUANTISES, (*QUANTISED, I32), later=_LATER).by(
        sample_dequantise, DEQUANTISED, bound_dequantise, retyped(F32)
    ),
    Operator("DynamicQuantizeLinear", Kind.QUANTISE, _BY_RANGE, (F32,), filled=True).by(
        _sample_dynamic, _infer_dynamic, _bound_dynamic, retyped(U8)
    ),
    Operator("QLinearMatMul", Kind.QUANTISE, ROUNDS, QUANTISED, ranks=FLAT).by(
        _sample_qlinear_matmul, _PRODUCT, _bound_result, inverted(FLAT, _solve_qlinear_matmul)
    ),
    Operator("MatMulInteger", Kind.QUANTISE, WHOLE, QUANTISED, ranks=FLAT).by(
        _sample_matmul_integer,
        shaped(multiplied, lambda call: I32),
        _bound_matmul_integer,
        inverted(FLAT, _solve_matmul_integer, I32),
    ),
    Operator("QLinearConv", Kind.QUANTISE, ROUNDS, QUANTISED, ranks=IMAGES).by(
        _sample_qlinear, _CONVOLVED, _bound_result, inverted(is_image, _solve_qlinear)
    ),
    Operator("ConvInteger", Kind.QUANTISE, WHOLE, (U8,), ranks=IMAGES).by(
        _sample_integer,
        shaped(convolved, lambda call: I32),
        _bound_integer,
        inverted(is_image, _solve_integer, I32),
    ),
)
