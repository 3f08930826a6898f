"""Functions and activations of torch itself, element by element."""

import math
from collections.abc import Callable
from functools import partial

from oracles.relation.arithmetic import (
    CHOOSES,
    ROUNDS,
    ROUNDS_ABOUT_ONE,
    SUMS_INSIDE,
    WHOLE,
    Arithmetic,
    rising,
    symmetric,
    within_type,
)
from oracles.relation.aten import EVERY, FLOATING, NUMBERS, TO_FLOAT, WIDE, aten, axis_of, number, times
from oracles.relation.operator import Operator, RangeRule, Sampler, same_type, sample_alone
from oracles.relation.program import ALONG, Call, Kind, Operand, Scope
from oracles.relation.rules import TO_TRUTH, Draw, by_type, choices, inside, magnitudes, sampled_with, shaped
from oracles.relation.types import I32, DType, Range, Shape, TensorType, is_float, replaced

_POSITIVE = Range(0.05, math.inf)


def _function(
    name: str,
    arithmetic: Arithmetic,
    bound: RangeRule,
    domain: Range | None = None,
    dtypes: tuple[DType, ...] = NUMBERS,
) -> Operator:
    """A function of floats, which makes floats of integers where its domain leaves some."""
    if domain and 0 < domain.low < 1:
        dtypes = tuple(dtype for dtype in dtypes if is_float(dtype))
    return aten(name, Kind.MATH, arithmetic, dtypes, infer=TO_FLOAT, bound=bound, domain=domain)


def _growing(name: str, function: Callable[[float], float], domain: Range | None = None) -> Operator:
    return _function(name, ROUNDS, lambda call: (rising(function)(call.operand(0).range),), domain)


def _draw_thresholds(scope: Scope, focus: Operand) -> dict[str, float]:
    limit = number(scope, focus.dtype, (0.0, 0.1, 1.0, -0.5), (0, 1, 3))
    return {"threshold": limit, "value": number(scope, focus.dtype, (0.0, 20.0, -1.0), (0, 5))}


def _draw_numbers(scope: Scope, focus: Operand) -> dict[str, float]:
    names = scope.draws.sample(("nan", "neginf", "posinf"), scope.draws.between(0, 2))
    return {name: scope.draws.pick((0.0, 1.0, -5.0)) for name in sorted(names)}


def _draw_limits(scope: Scope, focus: Operand) -> dict[str, float]:
    return {"min_val": scope.draws.pick((-1.0, 0.0)), "max_val": 6.0}


def _square(call: Call) -> tuple[Range, ...]:
    return (within_type(call.operand(0).dtype, Range(0, call.operand(0).range.magnitude ** 2)),)


def _sign(call: Call) -> tuple[Range, ...]:
    return (within_type(call.operand(0).dtype, Range(-1, 1)),)


def _wide(call: Call) -> tuple[Range, ...]:
    return (symmetric(2 * call.operand(0).range.magnitude + 21),)


def _wide_in_type(call: Call) -> tuple[Range, ...]:
    return (within_type(call.operand(0).dtype, *_wide(call)),)


def _activation(name: str, arithmetic: Arithmetic, draw: Draw | None = None) -> Operator:
    sample = sampled_with(draw) if draw else sample_alone
    return aten(name, Kind.ACTIVATION, arithmetic, FLOATING, sample, bound=_wide)


def _check(name: str, kind: Kind = Kind.COMPARE) -> Operator:
    return aten(name, kind, CHOOSES, EVERY, infer=TO_TRUTH, bound=inside(0, 1))


# Rarer ones


def _sums(name: str, sample: Sampler, low: float, high: float, domain: Range) -> Operator:
    """A series, whose terms may be much larger than their sum."""
    bound = inside(low, high)
    return aten(name, Kind.MATH, SUMS_INSIDE, WIDE, sample, bound=bound, domain=domain)


def _with_second(within: Range) -> Sampler:
    return lambda scope, focus: Call((focus, scope.supply(*focus.type, within)))


def _infer_frexp(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return focus.type, TensorType(I32, focus.shape)


def _bound_frexp(call: Call) -> tuple[Range, ...]:
    return Range(-1, 1), Range(-1100, 1100)


def _flexible(name: str, arithmetic: Arithmetic, **values: tuple[float | str, ...]) -> Operator:
    """An activation at most twice as large as its operand, and 2 more."""
    sample = sampled_with(choices(**values))
    return aten(
        name,
        Kind.ACTIVATION,
        arithmetic,
        FLOATING,
        sample,
        most=lambda call: 2 * magnitudes(call)[0] + 2,
    )


def _sample_halves(scope: Scope, focus: Operand) -> Call | None:
    axis = scope.axis(focus.rank)
    return None if focus.shape[axis % focus.rank] % 2 else Call((focus,), {"dim": axis})


def _half(call: Call) -> Shape:
    axis = axis_of(call)
    return replaced(call.operand(0).shape, axis, call.operand(0).shape[axis] // 2)


def _sample_slopes(scope: Scope, focus: Operand) -> Call | None:
    """One slope, or one for each channel."""
    channels = focus.shape[1] if scope.draws.chance(0.6) and focus.rank > 1 else 1
    return Call((focus, scope.supply(focus.dtype, (channels,), Range(-2, 2)))) if channels else None


_UNIT, _TO_FIFTY = Range(0.02, 0.98), Range(-50, 50)
_TO_TWENTY, _TO_TEN = Range(0.1, 20), Range(-10, 10)
_THRESHOLDS = choices(lambd=(0.5, 0.0, 1.0))
_HALF = shaped(_half)

OPERATORS = (
    *(_check(name) for name in ("isposinf", "isneginf", "isfinite", "signbit")),
    _check("logical_not", Kind.LOGIC),
    aten("nan_to_num", Kind.MATH, CHOOSES, EVERY, sampled_with(_draw_numbers)),
    aten("square", Kind.MATH, ROUNDS, NUMBERS, bound=_square),
    aten("sgn", Kind.MATH, WHOLE, EVERY, bound=_sign),
    aten("trunc", Kind.MATH, WHOLE, NUMBERS),
    aten("frac", Kind.MATH, WHOLE, FLOATING, bound=inside(-1, 1)),
    aten("positive", Kind.MATH, CHOOSES, NUMBERS),
    _growing("expm1", math.expm1, Range(-math.inf, 8)),
    _growing("exp2", partial(math.pow, 2), Range(-math.inf, 10)),
    _growing("log1p", math.log1p, Range(-0.9, math.inf)),
    _growing("log2", math.log2, _POSITIVE),
    _growing("log10", math.log10, _POSITIVE),
    _growing("deg2rad", math.radians),
    _growing("rad2deg", math.degrees),
    _function("rsqrt", ROUNDS, inside(0, 4.5), _POSITIVE),
    _function("lgamma", ROUNDS_ABOUT_ONE, inside(-0.2, 720), Range(0.1, 200)),
    _function("digamma", ROUNDS_ABOUT_ONE, inside(-11, 6), Range(0.1, 200)),
    _function("erfc", ROUNDS_ABOUT_ONE, inside(0, 2)),
    _function("erfinv", ROUNDS, inside(-1.5, 1.5), Range(-0.95, 0.95)),
    _function("sinc", ROUNDS_ABOUT_ONE, inside(-0.3, 1)),
    _function("i0", ROUNDS, inside(1, 1100), Range(-9, 9)),
    _function("special_i0e", ROUNDS_ABOUT_ONE, inside(0, 1)),
    _function("special_i1", ROUNDS_ABOUT_ONE, inside(-1100, 1100), Range(-9, 9)),
    _function("special_i1e", ROUNDS_ABOUT_ONE, inside(-0.5, 0.5)),
    _function("special_entr", ROUNDS_ABOUT_ONE, inside(-7000, 0.4), Range(0, 1000)),
    _function("special_ndtr", ROUNDS_ABOUT_ONE, inside(0, 1)),
    _function("special_ndtri", ROUNDS_ABOUT_ONE, inside(-2.2, 2.2), _UNIT, WIDE),
    _function("special_log_ndtr", ROUNDS_ABOUT_ONE, inside(-60, 0), Range(-10, math.inf), WIDE),
    _function("special_erfcx", ROUNDS_ABOUT_ONE, inside(0, 17000), Range(-3, math.inf), WIDE),
    _function("special_bessel_j0", ROUNDS_ABOUT_ONE, inside(-0.5, 1.01), _TO_FIFTY, WIDE),
    _function("logit", ROUNDS_ABOUT_ONE, inside(-4, 4), _UNIT),
    aten("hardtanh", Kind.ACTIVATION, WHOLE, FLOATING, sampled_with(_draw_limits), bound=inside(-1, 6)),
    aten("threshold", Kind.ACTIVATION, WHOLE, NUMBERS, sampled_with(_draw_thresholds), bound=_wide_in_type),
    *(_activation(name, ROUNDS_ABOUT_ONE) for name in ("silu", "mish", "log_sigmoid", "hardsigmoid")),
    _activation("relu6", WHOLE),
    _activation("softplus", ROUNDS_ABOUT_ONE, choices(beta=(1.0, 0.5, 2.0), threshold=(20.0, 1.0))),
    _activation(
        "elu",
        ROUNDS_ABOUT_ONE,
        choices(**dict.fromkeys(("alpha", "scale", "input_scale"), (1.0, 0.5, 1.5))),
    ),
    _activation("hardshrink", WHOLE, _THRESHOLDS),
    _activation("softshrink", ROUNDS_ABOUT_ONE, _THRESHOLDS),
    aten("frexp", Kind.MATH, WHOLE, FLOATING, infer=_infer_frexp, bound=_bound_frexp),
    *(
        _sums(f"special_{name}", _with_second(_TO_TWENTY), -0.1, 1.1, _TO_TWENTY)
        for name in ("gammainc", "gammaincc")
    ),
    _sums("special_zeta", _with_second(Range(0.5, 20)), 0, 1e5, Range(1.5, 10)),
    _sums("polygamma", sampled_with(choices(n=range(5))), -1e5, 1e5, Range(0.5, 50)),
    _sums("mvlgamma", sampled_with(choices(p=(1, 2, 3))), -1e3, 1e3, Range(1.5, 50)),
    _function("acosh", ROUNDS_ABOUT_ONE, inside(0, 20), Range(1.01, math.inf), FLOATING),
    _function("special_bessel_j1", ROUNDS_ABOUT_ONE, inside(-0.7, 0.7), _TO_FIFTY, WIDE),
    _function("special_bessel_y0", ROUNDS_ABOUT_ONE, inside(-5, 1), _TO_TWENTY, WIDE),
    _function("special_bessel_y1", ROUNDS_ABOUT_ONE, inside(-20, 1), _TO_TWENTY, WIDE),
    _function("special_modified_bessel_i0", ROUNDS, inside(0, 3000), _TO_TEN, WIDE),
    _function("special_modified_bessel_i1", ROUNDS_ABOUT_ONE, inside(-3000, 3000), _TO_TEN, WIDE),
    _function("special_modified_bessel_k0", ROUNDS_ABOUT_ONE, inside(0, 5), _TO_TWENTY, WIDE),
    _function("special_scaled_modified_bessel_k1", ROUNDS_ABOUT_ONE, inside(0, 20), _TO_TWENTY, WIDE),
    _function("special_spherical_bessel_j0", ROUNDS_ABOUT_ONE, inside(-0.3, 1.01), _TO_FIFTY, WIDE),
    _function("special_airy_ai", ROUNDS_ABOUT_ONE, inside(-0.5, 0.6), Range(-5, 10), WIDE),
    *(
        _sums(f"special_{name}", sampled_with(choices(n=range(7))), -1e5, 1e5, Range(-2, 2))
        for name in (
            "chebyshev_polynomial_t",
            "hermite_polynomial_h",
            "laguerre_polynomial_l",
            "legendre_polynomial_p",
        )
    ),
    _flexible("gelu", ROUNDS_ABOUT_ONE, approximate=("none", "tanh")),
    _flexible("celu", ROUNDS_ABOUT_ONE, alpha=(1.0, 0.5)),
    _flexible("selu", ROUNDS_ABOUT_ONE),
    _flexible("hardswish", ROUNDS_ABOUT_ONE),
    _flexible("leaky_relu", ROUNDS, negative_slope=(0.01, 0.5)),
    aten("glu", Kind.ACTIVATION, ROUNDS_ABOUT_ONE, FLOATING, ranks=ALONG).by(
        _sample_halves, _HALF, by_type(_HALF, lambda call: magnitudes(call)[0] + 1)
    ),
    aten("prelu", Kind.ACTIVATION, ROUNDS, FLOATING, _sample_slopes, same_type, times(2), ALONG),
)
