"""Changes of the element type."""

from __future__ import annotations

import math

from generators.intervals import within_type
from generators.scope import Scope
from generators.spec import Call, Inverse, Kind, Operand, Operator
from generators.types import (
    ALL,
    BOOL,
    F32,
    F64,
    I32,
    I64,
    TRUTH,
    U8,
    DType,
    Range,
    TensorType,
    extent,
    is_float,
)

_USUAL = (F32, F32, F32, F64, I32, I64, BOOL, U8)


def _target(scope: Scope, focus: Operand) -> DType | None:
    """A type that holds every value of the focus: floats outside an integer's range are undefined."""
    wanted = scope.draws.pick(ALL if scope.draws.chance(0.4) else _USUAL)
    if not is_float(focus.dtype) or is_float(wanted) or wanted is BOOL:
        return wanted
    return wanted if focus.range.is_within(extent(wanted)._replace(away=0.0)) else None


def _sample_cast(scope: Scope, focus: Operand) -> Call | None:
    wanted = _target(scope, focus)
    return None if wanted is None else Call((focus,), {"to": int(wanted)})


def _infer_cast(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(DType(call.integer("to", 0)), call.operand(0).shape),)


def _sample_like(scope: Scope, focus: Operand) -> Call | None:
    wanted = _target(scope, focus)
    if wanted is None:
        return None
    model = scope.reuse(wanted, lambda shape: True)
    return Call((focus, model or scope.create(wanted, scope.shape(scope.draws.below(2)))))


def _recognise(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return True


def _source(scope: Scope, wanted: TensorType) -> Operand:
    """A value of any type that the wanted type holds."""
    dtype = scope.draws.pick(ALL)
    is_narrow = is_float(dtype) and not is_float(wanted.dtype) and wanted.dtype is not BOOL
    within = extent(wanted.dtype)._replace(away=0.0) if is_narrow else None
    return scope.supply(dtype, wanted.shape, within)


def _solve_cast(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((_source(scope, wanted),), {"to": int(wanted.dtype)})


def _solve_like(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    model = scope.supply(wanted.dtype, scope.shape(scope.draws.below(2)))
    return Call((_source(scope, wanted), model))


def _infer_like(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(call.operand(1).dtype, call.operand(0).shape),)


def _converted(focus: Operand, dtype: DType) -> tuple[Range, ...]:
    low, high, _ = focus.range
    if dtype is BOOL:
        return (TRUTH,)
    if is_float(dtype):
        return (focus.range,)
    return (within_type(dtype, Range(math.trunc(low), math.trunc(high))),)


OPERATORS = (
    Operator(
        "Cast",
        Kind.CAST,
        ALL,
        _sample_cast,
        _infer_cast,
        lambda call: _converted(call.operand(0), DType(call.integer("to", 0))),
        inverse=Inverse(_recognise, _solve_cast),
    ),
    Operator(
        "CastLike",
        Kind.CAST,
        ALL,
        _sample_like,
        _infer_like,
        lambda call: _converted(call.operand(0), call.operand(1).dtype),
        since=15,
        inverse=Inverse(_recognise, _solve_like),
    ),
)
