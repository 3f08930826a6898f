"""Elementwise operators of several operands: arithmetic, comparison, logic and selection."""

import math
from collections.abc import Mapping
from functools import reduce

from oracles.relation.arithmetic import (
    CHOOSES,
    ROUNDS,
    WHOLE,
    Arithmetic,
    Nonfinite,
    Rounding,
    add,
    div,
    hull,
    mul,
    of_operands,
    power,
    sub,
    symmetric,
    within_type,
)
from oracles.relation.edges import WIDE, Edges, both, near, powers, scale
from oracles.relation.open_checks import (
    SEVERAL,
    broadcasting,
    gives_dtype,
    has_negative_exponent,
    is_inexact,
    part_of,
    shifts_too_far,
)
from oracles.relation.operator import Inverse, Operator, RangeRule
from oracles.relation.program import Attribute, Call, Kind, Operand, Scope
from oracles.relation.types import (
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I16,
    I32,
    I64,
    INTEGERS,
    NUMERIC,
    TEXT,
    TRUTH,
    U8,
    U16,
    U32,
    U64,
    DType,
    Range,
    TensorType,
    broadcast,
    extent,
    is_float,
)

_WIDE = (*FLOATS, I32, I64, U32, U64)
_NARROW = {14: (I8, I16, U8, U16)}
_ORDERED = (*FLOATS, I8, U8, I32, U32, I64, U64)


def _joined(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(call.operand(0).dtype, joined_shape(call)),)


def _joined_truth(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(BOOL, joined_shape(call)),)


def joined_shape(call: Call) -> tuple[int, ...]:
    """The shape to which the operands broadcast."""
    shape = broadcast(*(value.shape for value in call.present))
    if shape is None:
        raise ValueError("operands do not broadcast")
    return shape


def _sample_pair(scope: Scope, focus: Operand) -> Call:
    other = scope.partner(focus)
    return Call((focus, other) if scope.draws.chance(0.65) else (other, focus))


def _sample_quotient(scope: Scope, focus: Operand) -> Call:
    """The focus is the dividend, or the divisor where it is known to be away from zero."""
    divisor = _divisor(focus.dtype)
    if focus.range.is_within(divisor) and scope.draws.chance(0.6):
        return Call((scope.partner(focus), focus))
    return Call((focus, scope.partner(focus, divisor)))


def _divisor(dtype: DType) -> Range:
    return Range(-math.inf, math.inf, 0.1 if is_float(dtype) else 1)


def _sample_mod(scope: Scope, focus: Operand) -> Call:
    return _sample_quotient(scope, focus)._replace(attributes=_mod_attributes(scope, focus.dtype))


def _mod_attributes(scope: Scope, dtype: DType) -> dict[str, Attribute]:
    is_fmod = is_float(dtype) or scope.draws.chance(0.4)
    return {"fmod": 1} if is_fmod else {}


def _sample_pow(scope: Scope, focus: Operand) -> Call:
    """A small whole exponent for any base, any exponent for a base above zero; exponents of mixed types."""
    draws = scope.draws
    dtype = focus.dtype if draws.chance(0.7) else draws.pick((F32, F64, I32, I64))
    if is_float(focus.dtype) and focus.range.low >= 0.1 and draws.chance(0.4):
        return Call((focus, scope.partner(focus, Range(-2, 3), focus.dtype)))
    return Call((focus, scope.fix_scalar(draws.pick((0, 1, 2, 3)), dtype)))


def _bound_quotient(call: Call) -> tuple[Range, ...]:
    left, right = call.operand(0), call.operand(1)
    bounds = div(left.range, right.range)
    if not is_float(left.dtype):
        # Integers are rounded towards zero.
        bounds = Range(min(bounds.low, 0), max(bounds.high, 0))
    return (within_type(left.dtype, bounds),)


def _bound_mod(call: Call) -> tuple[Range, ...]:
    return (within_type(call.operand(0).dtype, symmetric(call.operand(1).range.magnitude)),)


def _bound_pow(call: Call) -> tuple[Range, ...]:
    base = call.operand(0)
    return (within_type(base.dtype, power(base.range, call.operand(1).range)),)


def _bound_add(call: Call) -> tuple[Range, ...]:
    return (within_type(call.operand(0).dtype, reduce(add, (value.range for value in call.present))),)


def _bound_sub(call: Call) -> tuple[Range, ...]:
    return (within_type(call.operand(0).dtype, sub(call.operand(0).range, call.operand(1).range)),)


def _bound_mul(call: Call) -> tuple[Range, ...]:
    return (within_type(call.operand(0).dtype, mul(call.operand(0).range, call.operand(1).range)),)


def _bound_hull(call: Call) -> tuple[Range, ...]:
    return (hull(value.range for value in call.present),)


def _bound_mean(call: Call) -> tuple[Range, ...]:
    return (hull(value.range for value in call.present)._replace(away=0.0),)


def _bound_type(call: Call) -> tuple[Range, ...]:
    return (extent(call.operand(0).dtype),)


def _sample_several(scope: Scope, focus: Operand) -> Call | None:
    """One to four operands that all broadcast together."""
    others: list[Operand] = []
    shape = focus.shape
    for _ in range(scope.draws.pick((0, 1, 1, 1, 2, 3))):
        other = scope.partner(focus)
        joined = broadcast(shape, other.shape)
        if joined is None:
            return None
        shape = joined
        others.append(other)
    others.insert(scope.draws.between(0, len(others)), focus)
    return Call(tuple(others))


def _sample_shift(scope: Scope, focus: Operand) -> Call:
    return Call((focus, scope.partner(focus, _bits(focus.dtype))), _shift_attributes(scope, focus.dtype))


def _bits(dtype: DType) -> Range:
    """Shifts by less than the width, which is all that the standard defines."""
    return Range(0, int(extent(dtype).high).bit_length() - 1)


def _shift_attributes(scope: Scope, dtype: DType) -> dict[str, Attribute]:
    return {"direction": scope.draws.pick(("LEFT", "RIGHT"))}


def _sample_where(scope: Scope, focus: Operand) -> Call | None:
    """The focus is the condition, or one of the branches."""
    draws = scope.draws
    if focus.dtype is BOOL:
        dtype = draws.pick((F32, F32, F64, I32, I64, U8))
        then = scope.partner(focus, dtype=dtype)
        condition, other = focus, scope.partner(focus, dtype=dtype)
    else:
        condition, then, other = scope.partner(focus, dtype=BOOL), focus, scope.partner(focus)
        if draws.chance(0.5):
            then, other = other, then
    if broadcast(condition.shape, then.shape, other.shape) is None:
        return None
    return Call((condition, then, other))


def _infer_where(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(call.operand(1).dtype, joined_shape(call)),)


def _bound_where(call: Call) -> tuple[Range, ...]:
    return (hull((call.operand(1).range, call.operand(2).range)),)


def _solve_pow(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    exponent = scope.fix_scalar(scope.draws.pick((0, 1, 2, 3)), scope.draws.pick((wanted.dtype, F32, I64)))
    return Call((scope.supply(*wanted), exponent))


def _solve_where(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """One of the three operands has the wanted shape."""
    shapes = [part_of(scope, wanted.shape) for _ in range(2)]
    shapes.insert(scope.draws.below(3), wanted.shape)
    dtypes = (BOOL, wanted.dtype, wanted.dtype)
    return Call(tuple(scope.supply(*of) for of in zip(dtypes, shapes, strict=True)))


_NEAR_ONE = Edges(both(scale, powers, near(1.0, -1.0)), is_wide=True)
_PAIR, _TEST = broadcasting(), broadcasting(truth=True)


def _pair(
    name: str,
    arithmetic: Arithmetic,
    kind: Kind,
    dtypes: tuple[DType, ...],
    bound: RangeRule,
    later: Mapping[int, tuple[DType, ...]] | None = None,
) -> Operator:
    return Operator(
        name,
        kind,
        arithmetic,
        dtypes,
        _sample_pair,
        _joined,
        bound,
        later=later or {},
        inverse=_PAIR,
        edges=WIDE,
    )


def _test(
    name: str,
    arithmetic: Arithmetic,
    kind: Kind,
    dtypes: tuple[DType, ...],
    later: Mapping[int, tuple[DType, ...]] | None = None,
) -> Operator:
    """A comparison or a connective: its results are true or false."""
    return Operator(
        name,
        kind,
        arithmetic,
        dtypes,
        _sample_pair,
        _joined_truth,
        lambda call: (TRUTH,),
        later=later or {},
        inverse=_TEST,
        edges=_NEAR_ONE,
    )


def _several(
    name: str, arithmetic: Arithmetic, dtypes: tuple[DType, ...], bound: RangeRule, edges: Edges = WIDE
) -> Operator:
    return Operator(
        name,
        Kind.ARITHMETIC,
        arithmetic,
        dtypes,
        _sample_several,
        _joined,
        bound,
        inverse=SEVERAL,
        edges=edges,
    )


def _bitwise(name: str) -> Operator:
    return Operator(
        name,
        Kind.LOGIC,
        WHOLE,
        INTEGERS,
        _sample_pair,
        _joined,
        _bound_type,
        since=18,
        inverse=_PAIR,
        edges=WIDE,
    )


OPERATORS = (
    _pair(
        "Add",
        Arithmetic(Rounding.RESULT, commutes=True, keeps_whole=True),
        Kind.ARITHMETIC,
        _WIDE,
        _bound_add,
        _NARROW,
    ),
    _pair("Sub", Arithmetic(Rounding.RESULT, keeps_whole=True), Kind.ARITHMETIC, _WIDE, _bound_sub, _NARROW),
    _pair(
        "Mul",
        Arithmetic(Rounding.RESULT, commutes=True, keeps_whole=True, scales=True),
        Kind.ARITHMETIC,
        _WIDE,
        _bound_mul,
        _NARROW,
    ),
    Operator(
        "Div",
        Kind.ARITHMETIC,
        Arithmetic(Rounding.RESULT, scales=True),
        _WIDE,
        _sample_quotient,
        _joined,
        _bound_quotient,
        later=_NARROW,
        inverse=broadcasting(second=_divisor),
        edges=WIDE,
    ),
    Operator(
        "Mod",
        Kind.ARITHMETIC,
        ROUNDS,
        NUMERIC,
        _sample_mod,
        _joined,
        _bound_mod,
        inverse=broadcasting(second=_divisor, attributes=_mod_attributes),
        edges=Edges(powers),
    ),
    Operator(
        "Pow",
        Kind.ARITHMETIC,
        Arithmetic(
            Rounding.RESULT,
            opens={
                "integers that a float64 does not hold": is_inexact,
                "an integer to a negative power": has_negative_exponent,
            },
        ),
        (*FLOATS, I32, I64),
        _sample_pow,
        _joined,
        _bound_pow,
        inverse=Inverse(gives_dtype, _solve_pow),
    ),
    _several("Max", CHOOSES, _ORDERED, _bound_hull),
    _several("Min", CHOOSES, _ORDERED, _bound_hull),
    _several("Mean", Arithmetic(Rounding.TERMS, terms=of_operands), (F32, F16), _bound_mean, Edges()),
    _several("Sum", Arithmetic(Rounding.TERMS, terms=of_operands, keeps_whole=True), FLOATS, _bound_add),
    Operator(
        "BitShift",
        Kind.LOGIC,
        Arithmetic(Rounding.NOTHING, opens={"by as many bits as there are": shifts_too_far}),
        (U8, U32, U64),
        _sample_shift,
        _joined,
        _bound_type,
        inverse=broadcasting(second=_bits, attributes=_shift_attributes),
    ),
    _bitwise("BitwiseAnd"),
    _bitwise("BitwiseOr"),
    _bitwise("BitwiseXor"),
    _test(
        "Equal",
        Arithmetic(Rounding.NOTHING, Nonfinite.DEFINED, commutes=True),
        Kind.COMPARE,
        (*NUMERIC, BOOL),
        {19: (TEXT,)},
    ),
    _test("Greater", CHOOSES, Kind.COMPARE, NUMERIC),
    _test("Less", CHOOSES, Kind.COMPARE, NUMERIC),
    _test("GreaterOrEqual", CHOOSES, Kind.COMPARE, NUMERIC),
    _test("LessOrEqual", CHOOSES, Kind.COMPARE, NUMERIC),
    _test("And", Arithmetic(Rounding.NOTHING, Nonfinite.DEFINED, commutes=True), Kind.LOGIC, (BOOL,)),
    _test("Or", Arithmetic(Rounding.NOTHING, Nonfinite.DEFINED, commutes=True), Kind.LOGIC, (BOOL,)),
    _test("Xor", Arithmetic(Rounding.NOTHING, Nonfinite.DEFINED, commutes=True), Kind.LOGIC, (BOOL,)),
    Operator(
        "Where",
        Kind.LOGIC,
        CHOOSES,
        (BOOL, F32, F64, F16, I32, I64, I8, U8, U32, TEXT),
        _sample_where,
        _infer_where,
        _bound_where,
        inverse=Inverse(lambda operator, wanted, opset: wanted.dtype in operator.dtypes[1:], _solve_where),
    ),
)
