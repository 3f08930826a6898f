"""Functions and activations of torch itself, element by element."""

import math
from collections.abc import Callable
from functools import partial

from oracles.relation.arithmetic import (
    CHOOSES,
    ROUNDS,
    ROUNDS_ABOUT_ONE,
    WHOLE,
    Arithmetic,
    rising,
    symmetric,
    within_type,
)
from oracles.relation.aten import (
    EVERY,
    FLOATING,
    NUMBERS,
    WIDE,
    aten,
    floating,
    inside,
    number,
    sampled_with,
    shaped,
    truth,
)
from oracles.relation.operator import Operator, RangeRule, sample_alone
from oracles.relation.program import Call, Kind, Operand, Scope
from oracles.relation.types import DType, Range, is_float

_SAME = shaped(lambda call: call.operand(0).shape)
_TRUTH = shaped(lambda call: call.operand(0).shape, truth)
_FLOAT = shaped(lambda call: call.operand(0).shape, floating)
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
    return aten(name, Kind.MATH, arithmetic, dtypes, infer=_FLOAT, bound=bound, domain=domain)


def _growing(name: str, function: Callable[[float], float], domain: Range | None = None) -> Operator:
    return _function(name, ROUNDS, lambda call: (rising(function)(call.operand(0).range),), domain)


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


def _activation(
    name: str, arithmetic: Arithmetic, draw: Callable[[Scope, Operand], dict[str, float]] | None = None
) -> Operator:
    sample = sampled_with(draw) if draw else sample_alone
    return aten(name, Kind.ACTIVATION, arithmetic, FLOATING, sample, bound=_wide)


def _check(name: str, kind: Kind = Kind.COMPARE) -> Operator:
    return aten(name, kind, CHOOSES, EVERY, infer=_TRUTH, bound=inside(0, 1))


_OPEN_UNIT = Range(0.02, 0.98)


OPERATORS = (
    *(_check(name) for name in ("isposinf", "isneginf", "isfinite", "signbit")),
    _check("logical_not", Kind.LOGIC),
    aten("nan_to_num", Kind.MATH, CHOOSES, EVERY, sampled_with(_draw_numbers)),
    aten(
        "square",
        Kind.MATH,
        ROUNDS,
        NUMBERS,
        bound=lambda call: (
            within_type(call.operand(0).dtype, Range(0, call.operand(0).range.magnitude ** 2)),
        ),
    ),
    aten(
        "sgn", Kind.MATH, WHOLE, EVERY, bound=lambda call: (within_type(call.operand(0).dtype, Range(-1, 1)),)
    ),
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
    _function("special_ndtri", ROUNDS_ABOUT_ONE, inside(-2.2, 2.2), _OPEN_UNIT, WIDE),
    _function("special_log_ndtr", ROUNDS_ABOUT_ONE, inside(-60, 0), Range(-10, math.inf), WIDE),
    _function("special_erfcx", ROUNDS_ABOUT_ONE, inside(0, 17000), Range(-3, math.inf), WIDE),
    _function("special_bessel_j0", ROUNDS_ABOUT_ONE, inside(-0.5, 1.01), Range(-50, 50), WIDE),
    _function("logit", ROUNDS_ABOUT_ONE, inside(-4, 4), _OPEN_UNIT),
    aten(
        "hardtanh",
        Kind.ACTIVATION,
        WHOLE,
        FLOATING,
        sampled_with(lambda scope, focus: {"min_val": scope.draws.pick((-1.0, 0.0)), "max_val": 6.0}),
        bound=inside(-1, 6),
    ),
    aten(
        "threshold",
        Kind.ACTIVATION,
        WHOLE,
        NUMBERS,
        sampled_with(_draw_thresholds),
        bound=lambda call: (within_type(call.operand(0).dtype, *_wide(call)),),
    ),
    _activation("silu", ROUNDS_ABOUT_ONE),
    _activation("mish", ROUNDS_ABOUT_ONE),
    _activation("log_sigmoid", ROUNDS_ABOUT_ONE),
    _activation("hardsigmoid", ROUNDS_ABOUT_ONE),
    _activation("relu6", WHOLE),
    _activation("softplus", ROUNDS_ABOUT_ONE, _draw_softplus),
    _activation("elu", ROUNDS_ABOUT_ONE, _draw_elu),
    _activation("hardshrink", WHOLE, _chosen("lambd", 0.5, 0.0, 1.0)),
    _activation("softshrink", ROUNDS_ABOUT_ONE, _chosen("lambd", 0.5, 0.0, 1.0)),
)
