"""Operators of torch itself that work element by element, with its promotion of mixed types."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from corpus.values import Tensor
from generators.entries.aten import (
    EVERY,
    FLOATING,
    NUMBERS,
    WHOLE,
    WIDE,
    aten,
    by_type,
    floating,
    inside,
    joined,
    magnitudes,
    number,
    paired,
    promoted,
    promotion,
    sampled_with,
    shaped,
    truth,
    whole_type,
)
from generators.language.intervals import hull, rising, symmetric, within_type
from generators.language.operator import Operator, RangeRule, sample_alone
from generators.language.program import Call, Kind, Operand
from generators.language.scope import Scope
from generators.language.types import BOOL, I32, DType, Range, broadcast, is_float

_SAME = shaped(lambda call: call.operand(0).shape)
_TRUTH = shaped(lambda call: call.operand(0).shape, truth)
_FLOAT = shaped(lambda call: call.operand(0).shape, floating)
_JOINED = shaped(joined)
_PROMOTED = shaped(joined, promotion)
_QUOTIENT = shaped(joined, floating)
_COMPARED = shaped(joined, truth)
_MIXED, _AT_JUMPS = 0.25, 0.5
"""How often a partner is of another element type; how often quotients are nearly whole."""


def _function(
    name: str, bound: RangeRule, domain: Range | None = None, dtypes: tuple[DType, ...] = NUMBERS
) -> Operator:
    """Return a function of floats, which makes floats of integers where its domain leaves some."""
    if domain and 0 < domain.low < 1:
        dtypes = tuple(dtype for dtype in dtypes if is_float(dtype))
    return aten(name, Kind.MATH, dtypes, infer=_FLOAT, bound=bound, domain=domain)


def _growing(name: str, function: Callable[[float], float], domain: Range | None = None) -> Operator:
    return _function(name, lambda call: (rising(function)(call.operand(0).range),), domain)


def _divisor(dtype: DType) -> Range:
    return Range(-math.inf, math.inf, 0.1 if is_float(dtype) else 1)


def _sample_quotient(scope: Scope, focus: Operand) -> Call:
    """The focus is the dividend, or the divisor where it is known to be away from zero.

    Now and then the quotients are whole or nearly so, which is where rounding them jumps.
    """
    known = scope.content_of(focus)
    if known is not None and scope.draws.chance(_AT_JUMPS):
        return Call((focus, scope.fix(_fraction(scope, known, _divisor(focus.dtype)), focus.dtype)))
    if focus.range.is_within(_divisor(focus.dtype)) and scope.draws.chance(0.5):
        return Call((scope.partner(focus), focus))
    return Call((focus, scope.partner(focus, _divisor(focus.dtype))))


def _fraction(scope: Scope, array: Tensor, within: Range) -> Tensor:
    """Return each element divided by a small whole number; 1 where that lies outside."""
    steps = scope.draws.words(array.size).reshape(array.shape) % 12 + 1
    quotients = np.asarray(array.astype(np.float64) / steps).astype(array.dtype)
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


def _draw_thresholds(scope: Scope, focus: Operand) -> dict[str, float]:
    limit = number(scope, focus.dtype, (0.0, 0.1, 1.0, -0.5), (0, 1, 3))
    return {"threshold": limit, "value": number(scope, focus.dtype, (0.0, 20.0, -1.0), (0, 5))}


def _draw_numbers(scope: Scope, focus: Operand) -> dict[str, float]:
    names = scope.draws.sample(("nan", "neginf", "posinf"), scope.draws.between(0, 2))
    return {name: scope.draws.pick((0.0, 1.0, -5.0)) for name in sorted(names)}


def _draw_softplus(scope: Scope, focus: Operand) -> dict[str, float]:
    return {"beta": scope.draws.pick((1.0, 0.5, 2.0)), "threshold": scope.draws.pick((20.0, 1.0))}


def _draw_elu(scope: Scope, focus: Operand) -> dict[str, float]:
    return {name: scope.draws.pick((1.0, 0.5, 1.5)) for name in ("alpha", "scale", "input_scale")}


def _chosen(name: str, *values: float) -> Callable[[Scope, Operand], dict[str, float]]:
    return lambda scope, focus: {name: scope.draws.pick(values)}


def _wide(call: Call) -> tuple[Range, ...]:
    return (symmetric(2 * call.operand(0).range.magnitude + 21),)


def _activation(name: str, draw: Callable[[Scope, Operand], dict[str, float]] | None = None) -> Operator:
    sample = sampled_with(draw) if draw else sample_alone
    return aten(name, Kind.ACTIVATION, FLOATING, sample, bound=_wide)


def _mixing(name: str, kind: Kind, magnitude: Callable[[Call], float]) -> Operator:
    return aten(name, kind, EVERY, _sample_mixed, _PROMOTED, by_type(_PROMOTED, magnitude))


def _choosing(name: str) -> Operator:
    """Gives one of its operands: never beyond the largest of them."""
    return _mixing(name, Kind.ARITHMETIC, lambda call: max(magnitudes(call)))


def _test(name: str, kind: Kind) -> Operator:
    return aten(name, kind, EVERY, _sample_mixed, _COMPARED, inside(0, 1))


def _bitwise(name: str, dtypes: tuple[DType, ...] = (*WHOLE, BOOL)) -> Operator:
    return aten(name, Kind.LOGIC, dtypes, paired(), _JOINED, whole_type)


def _shift(name: str) -> Operator:
    return aten(name, Kind.LOGIC, WHOLE, paired(lambda dtype: Range(0, 7)), _JOINED, whole_type)


def _join(name: str, dtypes: tuple[DType, ...], magnitude: Callable[[Call], float]) -> Operator:
    return aten(name, Kind.MATH, dtypes, paired(), _JOINED, by_type(_JOINED, magnitude))


def _check(name: str, kind: Kind = Kind.COMPARE) -> Operator:
    return aten(name, kind, EVERY, infer=_TRUTH, bound=inside(0, 1))


def _total(call: Call) -> float:
    return sum(magnitudes(call)) * 3


def _scaled_log(call: Call) -> float:
    return 30 * magnitudes(call)[0]


def _product(call: Call) -> float:
    return math.prod(magnitudes(call))


_POSITIVE = Range(0.05, math.inf)
_OPEN_UNIT = Range(0.02, 0.98)

OPERATORS = (
    aten("floor_divide", Kind.ARITHMETIC, NUMBERS, _sample_quotient, _JOINED, by_type(_JOINED, _quotient)),
    aten("div", Kind.ARITHMETIC, NUMBERS, _sample_division, _JOINED, by_type(_JOINED, _quotient)),
    aten("true_divide", Kind.ARITHMETIC, NUMBERS, _sample_quotient, _QUOTIENT, by_type(_QUOTIENT, _quotient)),
    aten("remainder", Kind.ARITHMETIC, NUMBERS, _sample_quotient, _JOINED, by_type(_JOINED, _remainder)),
    aten("fmod", Kind.ARITHMETIC, NUMBERS, _sample_quotient, _JOINED, by_type(_JOINED, _remainder)),
    aten("add", Kind.ARITHMETIC, EVERY, _sample_weighed, _PROMOTED, by_type(_PROMOTED, _total)),
    aten("sub", Kind.ARITHMETIC, NUMBERS, _sample_difference, _PROMOTED, by_type(_PROMOTED, _total)),
    _mixing("mul", Kind.ARITHMETIC, _product),
    *map(_choosing, ("maximum", "minimum", "fmax", "fmin")),
    *(_test(name, Kind.COMPARE) for name in ("ne", "eq", "lt", "ge")),
    *(_test(name, Kind.LOGIC) for name in ("logical_and", "logical_or", "logical_xor")),
    *map(_bitwise, ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *map(_shift, ("bitwise_left_shift", "bitwise_right_shift")),
    _bitwise("gcd", WHOLE),
    _bitwise("lcm", WHOLE),
    *(_check(name) for name in ("isposinf", "isneginf", "isfinite", "signbit")),
    _check("logical_not", Kind.LOGIC),
    _join("copysign", FLOATING, lambda call: magnitudes(call)[0]),
    _join("hypot", FLOATING, lambda call: sum(magnitudes(call))),
    _join("atan2", FLOATING, lambda call: 3.2),
    _join("nextafter", (*WIDE,), lambda call: magnitudes(call)[0] + 1),
    _join("heaviside", EVERY, lambda call: max(1.0, magnitudes(call)[1])),
    _join("logaddexp", FLOATING, lambda call: max(magnitudes(call)) + 1),
    _join("logaddexp2", FLOATING, lambda call: max(magnitudes(call)) + 1),
    *(
        aten(
            name, Kind.MATH, FLOATING, paired(lambda dtype: _POSITIVE), _JOINED, by_type(_JOINED, _scaled_log)
        )
        for name in ("xlogy", "special_xlog1py")
    ),
    aten(
        "ldexp",
        Kind.MATH,
        WIDE,
        _sample_ldexp,
        _JOINED,
        by_type(_JOINED, lambda call: 64 * magnitudes(call)[0]),
    ),
    aten(
        "addcmul",
        Kind.ARITHMETIC,
        NUMBERS,
        _sample_added,
        _JOINED,
        by_type(_JOINED, lambda call: magnitudes(call)[0] + 3 * math.prod(magnitudes(call)[1:])),
    ),
    aten(
        "addcdiv",
        Kind.ARITHMETIC,
        FLOATING,
        partial(_sample_added, within=Range(-math.inf, math.inf, 0.1)),
        _JOINED,
        by_type(_JOINED, lambda call: magnitudes(call)[0] + 20 * magnitudes(call)[1]),
    ),
    aten("lerp", Kind.ARITHMETIC, FLOATING, _sample_lerp, _JOINED, by_type(_JOINED, _total)),
    aten(
        "masked_fill",
        Kind.LOGIC,
        EVERY,
        _sample_fill,
        _JOINED,
        by_type(_JOINED, lambda call: magnitudes(call)[0] + 3),
    ),
    aten("clamp", Kind.ARITHMETIC, NUMBERS, _sample_clamp, bound=_bound_clamp),
    aten("clamp_min", Kind.ARITHMETIC, NUMBERS, _sample_clamp_by("min"), _JOINED, _bound_clamp),
    aten("clamp_max", Kind.ARITHMETIC, NUMBERS, _sample_clamp_by("max"), _JOINED, _bound_clamp),
    aten("nan_to_num", Kind.MATH, EVERY, sampled_with(_draw_numbers)),
    aten(
        "square",
        Kind.MATH,
        NUMBERS,
        bound=lambda call: (
            within_type(call.operand(0).dtype, Range(0, call.operand(0).range.magnitude ** 2)),
        ),
    ),
    aten("sgn", Kind.MATH, EVERY, bound=lambda call: (within_type(call.operand(0).dtype, Range(-1, 1)),)),
    aten("trunc", Kind.MATH, NUMBERS),
    aten("frac", Kind.MATH, FLOATING, bound=inside(-1, 1)),
    aten("positive", Kind.MATH, NUMBERS),
    _growing("expm1", math.expm1, Range(-math.inf, 8)),
    _growing("exp2", partial(math.pow, 2), Range(-math.inf, 10)),
    _growing("log1p", math.log1p, Range(-0.9, math.inf)),
    _growing("log2", math.log2, _POSITIVE),
    _growing("log10", math.log10, _POSITIVE),
    _growing("deg2rad", math.radians),
    _growing("rad2deg", math.degrees),
    _function("rsqrt", inside(0, 4.5), _POSITIVE),
    _function("lgamma", inside(-0.2, 720), Range(0.1, 200)),
    _function("digamma", inside(-11, 6), Range(0.1, 200)),
    _function("erfc", inside(0, 2)),
    _function("erfinv", inside(-1.5, 1.5), Range(-0.95, 0.95)),
    _function("sinc", inside(-0.3, 1)),
    _function("i0", inside(1, 1100), Range(-9, 9)),
    _function("special_i0e", inside(0, 1)),
    _function("special_i1", inside(-1100, 1100), Range(-9, 9)),
    _function("special_i1e", inside(-0.5, 0.5)),
    _function("special_entr", inside(-7000, 0.4), Range(0, 1000)),
    _function("special_ndtr", inside(0, 1)),
    _function("special_ndtri", inside(-2.2, 2.2), _OPEN_UNIT, WIDE),
    _function("special_log_ndtr", inside(-60, 0), Range(-10, math.inf), WIDE),
    _function("special_erfcx", inside(0, 17000), Range(-3, math.inf), WIDE),
    _function("special_bessel_j0", inside(-0.5, 1.01), Range(-50, 50), WIDE),
    _function("logit", inside(-4, 4), _OPEN_UNIT),
    aten(
        "hardtanh",
        Kind.ACTIVATION,
        FLOATING,
        sampled_with(lambda scope, focus: {"min_val": scope.draws.pick((-1.0, 0.0)), "max_val": 6.0}),
        bound=inside(-1, 6),
    ),
    aten(
        "threshold",
        Kind.ACTIVATION,
        NUMBERS,
        sampled_with(_draw_thresholds),
        bound=lambda call: (within_type(call.operand(0).dtype, *_wide(call)),),
    ),
    _activation("silu"),
    _activation("mish"),
    _activation("log_sigmoid"),
    _activation("hardsigmoid"),
    _activation("relu6"),
    _activation("softplus", _draw_softplus),
    _activation("elu", _draw_elu),
    _activation("hardshrink", _chosen("lambd", 0.5, 0.0, 1.0)),
    _activation("softshrink", _chosen("lambd", 0.5, 0.0, 1.0)),
)
