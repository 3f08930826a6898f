"""Elementwise operators of several operands: arithmetic, comparison, logic and selection."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from oracles.relation.arithmetic import (
    CHOOSES,
    ROUNDS,
    WHOLE,
    Arithmetic,
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
from oracles.relation.open_checks import has_negative_exponent, is_inexact, shifts_too_far
from oracles.relation.operator import Inverse, Operator, RangeRule
from oracles.relation.program import FIRST_OPSET, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import (
    SEVERAL,
    broadcasting,
    divisor,
    gives_dtype,
    hull_range,
    inside,
    joined,
    part_of,
    shaped,
    truth,
    whole_type,
)
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


def _sample_pair(scope: Scope, focus: Operand) -> Call:
    other = scope.partner(focus)
    return Call((focus, other) if scope.draws.chance(0.65) else (other, focus))


def _sample_quotient(scope: Scope, focus: Operand) -> Call:
    """The focus is the dividend, or the divisor where it is known to be away from zero."""
    apart = divisor(focus.dtype)
    if focus.range.is_within(apart) and scope.draws.chance(0.6):
        return Call((scope.partner(focus), focus))
    return Call((focus, scope.partner(focus, apart)))


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


def _combined(operation: Callable[[Range, Range], Range]) -> RangeRule:
    """All operands, combined one after another."""

    def bound(call: Call) -> tuple[Range, ...]:
        found = reduce(operation, (value.range for value in call.present))
        return (within_type(call.operand(0).dtype, found),)

    return bound


def _bound_mean(call: Call) -> tuple[Range, ...]:
    return (hull(value.range for value in call.present)._replace(away=0.0),)


def _sample_several(scope: Scope, focus: Operand) -> Call | None:
    """One to four operands that all broadcast together."""
    others: list[Operand] = []
    shape = focus.shape
    for _ in range(scope.draws.pick((0, 1, 1, 1, 2, 3))):
        other = scope.partner(focus)
        both = broadcast(shape, other.shape)
        if both is None:
            return None
        shape = both
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
_PAIR, _TEST, _JOINED = broadcasting(), broadcasting(truth=True), shaped(joined)
_ADD = _combined(add)


def _pair(
    name: str,
    arithmetic: Arithmetic,
    kind: Kind,
    dtypes: tuple[DType, ...],
    bound: RangeRule,
    later: Mapping[int, tuple[DType, ...]],
    since: int = FIRST_OPSET,
) -> Operator:
    return Operator(name, kind, arithmetic, dtypes, since=since, later=later, edges=WIDE).by(
        _sample_pair, _JOINED, bound, _PAIR
    )


def _test(
    name: str,
    arithmetic: Arithmetic,
    kind: Kind,
    dtypes: tuple[DType, ...],
    later: Mapping[int, tuple[DType, ...]] | None = None,
) -> Operator:
    """A comparison or a connective: its results are true or false."""
    return Operator(name, kind, arithmetic, dtypes, later=later or {}, edges=_NEAR_ONE).by(
        _sample_pair, shaped(joined, truth), inside(0, 1), _TEST
    )


def _several(
    name: str, arithmetic: Arithmetic, dtypes: tuple[DType, ...], bound: RangeRule, edges: Edges = WIDE
) -> Operator:
    return Operator(name, Kind.ARITHMETIC, arithmetic, dtypes, edges=edges).by(
        _sample_several, _JOINED, bound, SEVERAL
    )


_OPEN_POWERS = {
    "integers that a float64 does not hold": is_inexact,
    "an integer to a negative power": has_negative_exponent,
}
_SHIFTS = Arithmetic(Rounding.NOTHING, opens={"by as many bits as there are": shifts_too_far})
_SUMS = Arithmetic(Rounding.TERMS, terms=of_operands)
_ADDS = replace(ROUNDS, keeps_whole=True)

OPERATORS = (
    _pair("Add", _ADDS, Kind.ARITHMETIC, _WIDE, _ADD, _NARROW),
    _pair("Sub", _ADDS, Kind.ARITHMETIC, _WIDE, _combined(sub), _NARROW),
    _pair("Mul", replace(_ADDS, scales=True), Kind.ARITHMETIC, _WIDE, _combined(mul), _NARROW),
    Operator("Div", Kind.ARITHMETIC, replace(ROUNDS, scales=True), _WIDE, later=_NARROW, edges=WIDE).by(
        _sample_quotient, _JOINED, _bound_quotient, broadcasting(second=divisor)
    ),
    Operator("Mod", Kind.ARITHMETIC, ROUNDS, NUMERIC, edges=Edges(powers)).by(
        _sample_mod, _JOINED, _bound_mod, broadcasting(second=divisor, attributes=_mod_attributes)
    ),
    Operator("Pow", Kind.ARITHMETIC, replace(ROUNDS, opens=_OPEN_POWERS), (*FLOATS, I32, I64)).by(
        _sample_pow, _JOINED, _bound_pow, Inverse(gives_dtype, _solve_pow)
    ),
    _several("Max", CHOOSES, _ORDERED, hull_range),
    _several("Min", CHOOSES, _ORDERED, hull_range),
    _several("Mean", _SUMS, (F32, F16), _bound_mean, Edges()),
    _several("Sum", replace(_SUMS, keeps_whole=True), FLOATS, _ADD),
    Operator("BitShift", Kind.LOGIC, _SHIFTS, (U8, U32, U64)).by(
        _sample_shift, _JOINED, whole_type, broadcasting(second=_bits, attributes=_shift_attributes)
    ),
    *(
        _pair(name, WHOLE, Kind.LOGIC, INTEGERS, whole_type, {}, 18)
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ),
    _test("Equal", CHOOSES, Kind.COMPARE, (*NUMERIC, BOOL), {19: (TEXT,)}),
    *(
        _test(name, CHOOSES, Kind.COMPARE, NUMERIC)
        for name in ("Greater", "Less", "GreaterOrEqual", "LessOrEqual")
    ),
    *(_test(name, CHOOSES, Kind.LOGIC, (BOOL,)) for name in ("And", "Or", "Xor")),
    Operator("Where", Kind.LOGIC, CHOOSES, (BOOL, F32, F64, F16, I32, I64, I8, U8, U32, TEXT)).by(
        _sample_where,
        shaped(joined, lambda call: call.operand(1).dtype),
        _bound_where,
        Inverse(lambda operator, wanted, opset: wanted.dtype in operator.dtypes[1:], _solve_where),
    ),
)
