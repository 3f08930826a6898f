"""Convolutions of quantised images."""

from __future__ import annotations

import math

from oracles.operators.conv import conv_shape, is_image, sample_conv, solve_conv
from oracles.operators.quantise import fix_scale, fix_zero_point
from oracles.relation.arithmetic import ROUNDS, WHOLE
from oracles.relation.intervals import within_type
from oracles.relation.inverses import recogniser
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import MAX_RANK, Call, Kind, Operand
from oracles.relation.scope import Scope
from oracles.relation.types import I8, I32, U8, Range, TensorType, extent


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


def _infer_qlinear(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(call.operand(7).dtype, conv_shape(call, call.operand(3))),)


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


def _infer_integer(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(I32, conv_shape(call, call.operand(1))),)


def _bound_integer(call: Call) -> tuple[Range, ...]:
    most = 255 * 255 * math.prod(call.operand(1).shape[1:])
    return (within_type(I32, Range(-most, most)),)


def _solve_integer(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return _with_zero_points(scope, solve_conv(scope, TensorType(U8, wanted.shape)))


_IMAGES = range(3, MAX_RANK + 1)

OPERATORS = (
    Operator(
        "QLinearConv",
        Kind.QUANTISE,
        ROUNDS,
        (U8, I8),
        _sample_qlinear,
        _infer_qlinear,
        lambda call: (extent(call.operand(7).dtype),),
        _IMAGES,
        inverse=Inverse(recogniser(is_image), _solve_qlinear),
    ),
    Operator(
        "ConvInteger",
        Kind.QUANTISE,
        WHOLE,
        (U8,),
        _sample_integer,
        _infer_integer,
        _bound_integer,
        _IMAGES,
        inverse=Inverse(recogniser(is_image, I32), _solve_integer),
    ),
)
