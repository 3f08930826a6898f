"""Operators of torch itself that work element by element, with its promotion of mixed types."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from corpus.values import Tensor
from oracles.relation.arithmetic import (
    CHOOSES,
    MOVES,
    ROUNDS,
    ROUNDS_ABOUT_ONE,
    SUMS,
    WHOLE,
    Arithmetic,
    Rounding,
    hull,
)
from oracles.relation.aten import (
    EVERY,
    FLOATING,
    INTEGRAL,
    NUMBERS,
    WIDE,
    aten,
    floating,
    largest,
    number,
    paired,
    promoted,
    promotion,
    times,
)
from oracles.relation.open_checks import LEAST, overflows, shifts_backwards
from oracles.relation.operator import Operator
from oracles.relation.program import Call, Kind, Operand, Scope
from oracles.relation.rules import by_type, divisor, inside, joined, magnitudes, shaped, truth, whole_type
from oracles.relation.types import BOOL, I32, DType, Range, broadcast

_JOINED = shaped(joined)
_PROMOTED = shaped(joined, promotion)
_QUOTIENT = shaped(joined, floating)
_COMPARED = shaped(joined, truth)
_MIXED, _AT_JUMPS = 0.25, 0.15
"""How often a partner is of another element type; how often quotients are nearly whole."""


def _sample_quotient(scope: Scope, focus: Operand) -> Call:
    """The focus is the dividend, or the divisor where it is known to be away from zero.

    Now and then the quotients are whole or nearly so, which is where rounding them jumps.
    """
    known = scope.content_of(focus)
    if known is not None and scope.draws.chance(_AT_JUMPS):
        return Call((focus, scope.fix(_fraction(scope, known, divisor(focus.dtype)), focus.dtype)))
    if focus.range.is_within(divisor(focus.dtype)) and scope.draws.chance(0.5):
        return Call((scope.partner(focus), focus))
    return Call((focus, scope.partner(focus, divisor(focus.dtype))))


def _fraction(scope: Scope, array: Tensor, within: Range) -> Tensor:
    """Each element divided by a small whole number; 1 where that lies outside."""
    steps = scope.draws.words(array.size).reshape(array.shape) % 12 + 1
    parts = np.where(steps == 1, 0, array.astype(np.float64) / steps).astype(array.dtype)
    quotients = np.where(steps == 1, array, parts)  # the largest integers have no place among float64's
    return np.where(np.abs(quotients.astype(np.float64)) >= within.away, quotients, np.ones_like(array))


def _sample_division(scope: Scope, focus: Operand) -> Call:
    mode = scope.draws.pick(("floor", "trunc"))
    return _sample_quotient(scope, focus)._replace(attributes={"rounding_mode": mode})


def _quotient(call: Call) -> float:
    divisor = call.operand(1).range.magnitude_floor
    return call.operand(0).range.magnitude / divisor + 1 if divisor else math.inf


def _remainder(call: Call) -> float:
    return call.operand(1).range.magnitude


def _sample_mixed(scope: Scope, focus: Operand) -> Call:
    dtype = scope.draws.pick(EVERY) if scope.draws.chance(_MIXED) else focus.dtype
    other = scope.partner(focus, dtype=dtype if scope.allows(dtype) else focus.dtype)
    return Call((focus, other) if scope.draws.chance(0.6) else (other, focus))


def _sample_difference(scope: Scope, focus: Operand) -> Call | None:
    """torch takes no truth away."""
    call = _sample_mixed(scope, focus)
    return None if any(value.dtype is BOOL for value in call.present) else call


def _sample_weighed(scope: Scope, focus: Operand) -> Call:
    call = _sample_mixed(scope, focus)
    if promoted(call.present) is BOOL or scope.draws.chance(0.4):
        return call
    alpha = number(scope, promoted(call.present), (0.5, 2.0, -1.0), (2, 3))
    return call._replace(attributes={"alpha": alpha})


def _sample_clamp(scope: Scope, focus: Operand) -> Call:
    low = number(scope, focus.dtype, (-2.0, -0.5, 0.0), (0, 1))
    return Call((focus,), {"min": low, "max": number(scope, focus.dtype, (0.0, 0.5, 6.0), (2, 5, 100))})


def _sample_clamp_by(name: str) -> Callable[[Scope, Operand], Call]:
    """Clamp by a number, or by a tensor."""

    def sample(scope: Scope, focus: Operand) -> Call:
        if scope.draws.chance(0.4):
            return Call((focus, scope.partner(focus)))
        return Call((focus,), {name: number(scope, focus.dtype, (-0.5, 0.0, 1.0), (0, 1, 3))})

    return sample


def _bound_clamp(call: Call) -> tuple[Range, ...]:
    limits = [float(value) for value in call.attributes.values() if isinstance(value, (int, float))]
    return (hull([*(value.range for value in call.present), *(Range(each, each) for each in limits)]),)


def _sample_three(scope: Scope, focus: Operand, within: Range | None = None) -> Call | None:
    """Three operands that broadcast together, the last of them within bounds."""
    second, third = scope.partner(focus), scope.partner(focus, within)
    return None if broadcast(focus.shape, second.shape, third.shape) is None else Call((focus, second, third))


def _sample_added(scope: Scope, focus: Operand, within: Range | None = None) -> Call | None:
    call = _sample_three(scope, focus, within)
    if call is None or scope.draws.chance(0.4):
        return call
    return call._replace(attributes={"value": number(scope, focus.dtype, (0.5, -1.0, 2.0), (2, 3))})


def _sample_lerp(scope: Scope, focus: Operand) -> Call | None:
    if scope.draws.chance(0.5):
        return _sample_three(scope, focus, Range(0, 1))
    return Call((focus, scope.partner(focus)), {"weight": scope.draws.pick((0.25, 0.5, 0.75))})


def _sample_fill(scope: Scope, focus: Operand) -> Call:
    mask = scope.partner(focus, dtype=BOOL)
    return Call((focus, mask), {"value": number(scope, focus.dtype, (0.0, -1.0, 2.5), (0, 1))})


def _sample_ldexp(scope: Scope, focus: Operand) -> Call:
    return Call((focus, scope.partner(focus, Range(-4, 6), I32)))


def _mixing(name: str, arithmetic: Arithmetic, magnitude: Callable[[Call], float]) -> Operator:
    return aten(name, Kind.ARITHMETIC, arithmetic, EVERY, _sample_mixed, _PROMOTED, magnitude)


def _sample_compared(scope: Scope, focus: Operand) -> Call:
    """With a tensor or a number."""
    if focus.dtype is BOOL or scope.draws.chance(0.7):
        return _sample_mixed(scope, focus)
    return Call((focus,), {"other": scope.draws.pick((0.5, 2.0, -1.0, 2.5, 0, 2))})


def _test(name: str, kind: Kind) -> Operator:
    sample = _sample_compared if kind is Kind.COMPARE else _sample_mixed
    return aten(name, kind, CHOOSES, EVERY, sample, _COMPARED, bound=inside(0, 1))


def _bitwise(name: str, arithmetic: Arithmetic, dtypes: tuple[DType, ...] = (*INTEGRAL, BOOL)) -> Operator:
    return aten(name, Kind.LOGIC, arithmetic, dtypes, paired(), _JOINED, bound=whole_type)


def _join(
    name: str, arithmetic: Arithmetic, dtypes: tuple[DType, ...], magnitude: Callable[[Call], float]
) -> Operator:
    return aten(name, Kind.MATH, arithmetic, dtypes, paired(), _JOINED, magnitude)


def _total(call: Call) -> float:
    return sum(magnitudes(call)) * 3


def _after_first(call: Call) -> float:
    """Bound the first operand with three products of the others."""
    return magnitudes(call)[0] + 3 * math.prod(magnitudes(call)[1:])


def _with_quotient(call: Call) -> float:
    return magnitudes(call)[0] + 20 * magnitudes(call)[1]


_FLOORS, _DIVIDES = (Arithmetic(each, opens=LEAST) for each in (Rounding.NOTHING, Rounding.RESULT))
_SHIFTS = Arithmetic(Rounding.NOTHING, opens={"by as many bits as there are": shifts_backwards})
_WHOLE = Arithmetic(Rounding.NOTHING, opens={"beyond the type": overflows})
_BITS, _POSITIVE, _AWAY = Range(0, 7), Range(0.05, math.inf), Range(-math.inf, math.inf, 0.1)

OPERATORS = (
    aten("floor_divide", Kind.ARITHMETIC, _FLOORS, NUMBERS, _sample_quotient, _JOINED, _quotient),
    aten("div", Kind.ARITHMETIC, _DIVIDES, NUMBERS, _sample_division, _JOINED, _quotient),
    aten("true_divide", Kind.ARITHMETIC, ROUNDS, NUMBERS, _sample_quotient, _QUOTIENT, _quotient),
    aten("remainder", Kind.ARITHMETIC, _DIVIDES, NUMBERS, _sample_quotient, _JOINED, _remainder),
    aten("fmod", Kind.ARITHMETIC, _FLOORS, NUMBERS, _sample_quotient, _JOINED, _remainder),
    aten("add", Kind.ARITHMETIC, SUMS, EVERY, _sample_weighed, _PROMOTED, _total),
    aten("sub", Kind.ARITHMETIC, ROUNDS, NUMBERS, _sample_difference, _PROMOTED, _total),
    _mixing("mul", ROUNDS, lambda call: math.prod(magnitudes(call))),
    *(_mixing(name, CHOOSES, largest) for name in ("maximum", "minimum", "fmax", "fmin")),
    *(_test(name, Kind.COMPARE) for name in ("ne", "eq", "lt", "ge")),
    *(_test(name, Kind.LOGIC) for name in ("logical_and", "logical_or", "logical_xor")),
    *(_bitwise(name, CHOOSES) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(
        aten(name, Kind.LOGIC, _SHIFTS, INTEGRAL, paired(lambda dtype: _BITS), _JOINED, bound=whole_type)
        for name in ("bitwise_left_shift", "bitwise_right_shift")
    ),
    *(_bitwise(name, _WHOLE, INTEGRAL) for name in ("gcd", "lcm")),
    _join("copysign", WHOLE, FLOATING, times(1)),
    _join("hypot", ROUNDS, FLOATING, lambda call: sum(magnitudes(call))),
    _join("atan2", ROUNDS, FLOATING, lambda call: 3.2),
    _join("nextafter", WHOLE, WIDE, lambda call: magnitudes(call)[0] + 1),
    _join("heaviside", WHOLE, EVERY, lambda call: max(1.0, magnitudes(call)[1])),
    *(
        _join(name, ROUNDS_ABOUT_ONE, FLOATING, lambda call: largest(call) + 1)
        for name in ("logaddexp", "logaddexp2")
    ),
    *(
        aten(name, Kind.MATH, ROUNDS_ABOUT_ONE, FLOATING, paired(lambda dtype: _POSITIVE), _JOINED, times(30))
        for name in ("xlogy", "special_xlog1py")
    ),
    aten("ldexp", Kind.MATH, WHOLE, WIDE, _sample_ldexp, _JOINED, times(64)),
    aten("addcmul", Kind.ARITHMETIC, SUMS, NUMBERS, _sample_added, _JOINED, _after_first),
    aten("addcdiv", Kind.ARITHMETIC, SUMS, FLOATING).by(
        partial(_sample_added, within=_AWAY), _JOINED, by_type(_JOINED, _with_quotient)
    ),
    aten("lerp", Kind.ARITHMETIC, SUMS, FLOATING, _sample_lerp, _JOINED, _total),
    aten(
        "masked_fill", Kind.LOGIC, MOVES, EVERY, _sample_fill, _JOINED, lambda call: magnitudes(call)[0] + 3
    ),
    aten("clamp", Kind.ARITHMETIC, CHOOSES, NUMBERS, _sample_clamp, bound=_bound_clamp),
    *(
        aten(
            f"clamp_{name}",
            Kind.ARITHMETIC,
            CHOOSES,
            NUMBERS,
            _sample_clamp_by(name),
            _JOINED,
            bound=_bound_clamp,
        )
        for name in ("min", "max")
    ),
)
