"""Elementwise operators of one operand: activations, mathematics, and changes of the element type."""

import math
from collections.abc import Callable
from dataclasses import replace

from oracles.relation.arithmetic import (
    CHOOSES,
    ROUNDS,
    ROUNDS_ABOUT_ONE,
    WHOLE,
    Arithmetic,
    Rounding,
    clamp,
    magnitude,
    rising,
    rounded,
    symmetric,
    within_type,
)
from oracles.relation.edges import (
    SATURATES,
    TYPE,
    WIDE,
    Edges,
    at,
    both,
    magnitudes,
    near,
    powers,
    scale,
    ties,
)
from oracles.relation.open_checks import INEXACT, is_out_of_range, widens
from oracles.relation.operator import Inverse, Operator, RangeRule, Sampler, Solver
from oracles.relation.program import FIRST_OPSET, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import TO_TRUTH, gives_dtype, inside, retyped, same_shape, shaped, whole_type
from oracles.relation.types import (
    ALL,
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOAT8,
    FLOATS,
    I8,
    I32,
    I64,
    INT4,
    INTEGERS,
    NARROW,
    NUMERIC,
    SIGNED,
    TEXT,
    TRUTH,
    U8,
    DType,
    Range,
    TensorType,
    extent,
    is_float,
)


def _through(bound: Callable[[Range], Range]) -> RangeRule:
    return lambda call: (within_type(call.operand(0).dtype, bound(call.operand(0).range)),)


def _math(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    bound: RangeRule,
    domain: Range | None = None,
    edges: Edges = TYPE,
) -> Operator:
    return Operator(name, Kind.MATH, arithmetic, dtypes, bound=bound, domain=domain, edges=edges)


def _activation(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    bound: RangeRule,
    since: int = 13,
    edges: Edges = SATURATES,
    **choices: tuple[Attribute, ...],
) -> Operator:
    """An activation with attributes."""
    sample = _choosing(**choices)
    return Operator(name, Kind.ACTIVATION, arithmetic, dtypes, sample, bound=bound, since=since, edges=edges)


def _choosing(**choices: tuple[Attribute, ...]) -> Sampler:
    """The sampler of one operand with attributes: each is left out, or one of its choices."""

    def sample(scope: Scope, focus: Operand) -> Call:
        attributes: dict[str, Attribute] = {}
        for attribute, values in choices.items():
            if scope.draws.chance(0.6):
                attributes[attribute] = scope.draws.pick(values)
        return Call((focus,), attributes)

    return sample


def _float_attribute(call: Call, name: str, default: float) -> float:
    value = call.attributes.get(name, default)
    return float(value) if isinstance(value, int | float) else default


def _leaky(call: Call) -> tuple[Range, ...]:
    """Bounds of everything that is the identity above zero and shrinks or scales what is below."""
    focus = call.operand(0).range
    slope = max(1.0, abs(_float_attribute(call, "alpha", 1.0)))
    return (symmetric(focus.magnitude * slope + 2.0 * slope),)


def _sign(a: Range) -> Range:
    return Range(-1 if a.low < 0 else 0, 1 if a.high > 0 else 0)


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _sample_shrink(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    if not is_float(focus.dtype):
        return Call((focus,), {"lambd": draws.pick((0.5, 1.0, 2.0)), "bias": draws.pick((0.0, 1.0))})
    return Call((focus,), {"lambd": draws.pick((0.3, 0.5, 1.7)), "bias": draws.pick((0.0, 0.5))})


def _bound_shrink(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    return (within_type(focus.dtype, Range(min(focus.range.low, -1) - 1, max(focus.range.high, 1) + 1)),)


def _sample_prelu(scope: Scope, focus: Operand) -> Call:
    shape = focus.shape
    start = scope.draws.between(0, len(shape))
    slope = tuple(dim if scope.draws.chance(0.6) else 1 for dim in shape[start:])
    return Call((focus, scope.supply(focus.dtype, slope)))


def _bound_prelu(call: Call) -> tuple[Range, ...]:
    slope = max(1.0, call.operand(1).range.magnitude)
    return (symmetric(call.operand(0).range.magnitude * slope),)


_CROSSED = 0.2
"""How often bounds that were drawn the wrong way round stay so: everything is the upper one then."""


def _sample_clip(scope: Scope, focus: Operand) -> Call | None:
    """Bounds around, inside or beside the focus's range; each may be left out."""
    draws = scope.draws
    low, high, _ = focus.range
    choices: list[float] = [0, 1, 6, -1]
    if is_float(focus.dtype):
        choices += [rounded(low), rounded((low + high) / 2), rounded(high)]
    else:
        choices += [int(low), int(low + high) // 2, int(high)]
    if focus.dtype in (DType.U8, DType.U32, DType.U64):
        choices = [value for value in choices if value >= 0]
    first, second = draws.pick(choices), draws.pick(choices)
    if first > second and not draws.chance(_CROSSED):
        first, second = second, first
    at_least = scope.fix_scalar(first, focus.dtype) if draws.chance(0.85) else None
    if draws.chance(0.15):
        return Call((focus, at_least))
    return Call((focus, at_least, scope.fix_scalar(second, focus.dtype)))


def _bound_clip(call: Call) -> tuple[Range, ...]:
    low, high = call.optional(1), call.optional(2)
    at_least = -math.inf if low is None else low.range.low
    at_most = math.inf if high is None else high.range.high
    return (clamp(call.operand(0).range, at_least, at_most),)


_SINGLE = (F32, F16)
_UNIT = Range(-0.95, 0.95)
_SLOPES = (0.01, 0.2, 1.0, 0.0, -0.5)
_WHOLE = Edges(both(ties, near(1.0, -1.0, 3.0)), is_wide=True)
_POSITIVE = Edges(both(magnitudes, near(1.0)), is_wide=True)
_FLAT = SATURATES._replace(is_wide=False)
_UNBOUNDED = Edges(scale, is_wide=True)
_SHRINKS = Arithmetic(Rounding.RESULT, opens=INEXACT)
_SLOPED = Arithmetic(Rounding.RESULT, misfits={"a slope that does not broadcast to its input": widens})


_USUAL = (F32, F32, F32, F64, I32, I64, BOOL, U8)
_PARSED = (F32, F64, I32, I64)
"""What text that spells numbers is read as."""
_ROUND_8 = 1.15
"""A float of eight bits is within this factor of what it stands for."""


def _rare(scope: Scope) -> list[DType]:
    """List the rare types that the program and the opset allow."""
    first = {**dict.fromkeys(FLOAT8, 19), **dict.fromkeys(INT4, 21)}
    return [d for d in (TEXT, *NARROW) if scope.allows(d) and scope.opset >= first.get(d, 0)]


def _converts(source: DType, wanted: DType) -> bool:
    """Whether numbers of one type become numbers of the other; only whole ones have one spelling as text."""
    if wanted is TEXT:
        return source in (*INTEGERS, TEXT)
    if source is TEXT:
        return wanted in _PARSED
    if wanted in FLOAT8 or source in FLOAT8:
        return source in _EIGHT_BITS and wanted in _EIGHT_BITS
    return True


_EIGHT_BITS = (F32, F16, BF16, *FLOAT8)


def _must_hold(source: DType, wanted: DType) -> Range | None:
    """The range of defined casts: a float outside an integer's range is undefined; so is text."""
    is_whole = not is_float(wanted) and wanted not in (BOOL, TEXT)
    if (is_whole and is_float(source)) or source is TEXT or wanted in FLOAT8:
        return None if wanted is TEXT else extent(wanted)._replace(away=0.0)
    return None


def _target(scope: Scope, focus: Operand) -> DType | None:
    """A type that holds every value of the focus."""
    rare = _rare(scope)
    if rare and scope.draws.chance(0.4):
        wanted = scope.draws.pick(rare)
    else:
        wanted = scope.draws.pick(ALL if scope.draws.chance(0.4) else _USUAL)
    if not _converts(focus.dtype, wanted):
        return None
    within = _must_hold(focus.dtype, wanted)
    return wanted if within is None or focus.range.is_within(within) else None


def _sample_cast(scope: Scope, focus: Operand) -> Call | None:
    wanted = _target(scope, focus)
    return None if wanted is None else Call((focus,), {"to": int(wanted)})


def _named(call: Call) -> DType:
    return DType(call.integer("to", 0))


def _sample_like(scope: Scope, focus: Operand) -> Call | None:
    wanted = _target(scope, focus)
    if wanted is None:
        return None
    model = scope.reuse(wanted, lambda shape: True)
    return Call((focus, model or scope.create(wanted, scope.shape(scope.draws.below(2)))))


def _source(scope: Scope, wanted: TensorType) -> Operand:
    """A value of any type that the wanted type holds."""
    found = [dtype for dtype in (*ALL, *_rare(scope)) if _converts(dtype, wanted.dtype)]
    dtype = scope.draws.pick(found)
    return scope.supply(dtype, wanted.shape, _must_hold(dtype, wanted.dtype))


def _solve_cast(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((_source(scope, wanted),), {"to": int(wanted.dtype)})


def _solve_like(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    model = scope.supply(wanted.dtype, scope.shape(scope.draws.below(2)))
    return Call((_source(scope, wanted), model))


def _converted(focus: Operand, dtype: DType) -> tuple[Range, ...]:
    low, high, _ = focus.range
    if dtype is BOOL:
        return (TRUTH,)
    if dtype in FLOAT8:
        return (Range(low * _ROUND_8 if low < 0 else low / _ROUND_8, high * _ROUND_8 if high > 0 else high),)
    if is_float(dtype) or dtype is TEXT:
        return (focus.range,)
    return (within_type(dtype, Range(math.trunc(low), math.trunc(high))),)


_TAKEN = (*ALL, TEXT, BF16)
_LATER = {19: FLOAT8, 21: INT4}
_EDGES = Edges(both(ties, powers))

_CASTS = Arithmetic(Rounding.NARROWING, opens={"out of the range of the integers": is_out_of_range})


def _cast(
    name: str,
    arithmetic: Arithmetic,
    sample: Sampler,
    target: Callable[[Call], DType],
    solve: Solver,
    since: int,
) -> Operator:
    return Operator(name, Kind.CAST, arithmetic, _TAKEN, since=since, later=_LATER, edges=_EDGES).by(
        sample,
        shaped(same_shape, target),
        lambda call: _converted(call.operand(0), target(call)),
        Inverse(gives_dtype, solve),
    )


OPERATORS = (
    _math("Abs", CHOOSES, NUMERIC, _through(magnitude), edges=WIDE),
    _math("Neg", CHOOSES, FLOATS + SIGNED, _through(lambda a: Range(-a.high, -a.low, a.away)), edges=WIDE),
    _math("Ceil", WHOLE, FLOATS, _through(rising(math.ceil)), edges=_WHOLE),
    _math("Floor", WHOLE, FLOATS, _through(rising(math.floor)), edges=_WHOLE),
    _math("Round", WHOLE, FLOATS, _through(lambda a: Range(a.low - 1, a.high + 1)), edges=_WHOLE),
    _math("Sign", WHOLE, (*NUMERIC, BF16), _through(_sign)),
    _math("Exp", ROUNDS, FLOATS, _through(rising(math.exp))),
    _math("Log", ROUNDS, FLOATS, _through(rising(math.log)), Range(0.02, math.inf), _POSITIVE),
    _math("Sqrt", ROUNDS, FLOATS, _through(rising(math.sqrt)), Range(0, math.inf), _POSITIVE),
    _math(
        "Reciprocal",
        ROUNDS,
        FLOATS,
        _through(lambda a: symmetric(1 / a.magnitude_floor)),
        Range(-math.inf, math.inf, 0.1),
        _UNBOUNDED,
    ),
    _math("Erf", ROUNDS_ABOUT_ONE, _SINGLE, inside(-1, 1), edges=SATURATES),
    _math("Sin", ROUNDS, FLOATS, inside(-1, 1), Range(-1e3, 1e3)),
    _math("Cos", ROUNDS, FLOATS, inside(-1, 1), Range(-1e3, 1e3)),
    _math("Tan", ROUNDS, _SINGLE, _through(rising(math.tan)), Range(-1.4, 1.4)),
    _math("Asin", ROUNDS, _SINGLE, inside(-1.6, 1.6), _UNIT, Edges(near(1.0, -1.0))),
    _math("Acos", ROUNDS, _SINGLE, inside(0, 3.2), _UNIT, Edges(near(1.0, -1.0))),
    _math("Atan", ROUNDS, _SINGLE, inside(-1.6, 1.6), edges=SATURATES),
    _math("Sinh", ROUNDS_ABOUT_ONE, _SINGLE, _through(rising(math.sinh)), Range(-20, 20)),
    _math("Cosh", ROUNDS, _SINGLE, _through(lambda a: Range(1, math.cosh(a.magnitude))), Range(-20, 20)),
    _math("Asinh", ROUNDS_ABOUT_ONE, _SINGLE, _through(rising(math.asinh))),
    _math("Acosh", ROUNDS, _SINGLE, _through(rising(math.acosh)), Range(1.05, math.inf), Edges(at(1.0))),
    _math("Atanh", ROUNDS_ABOUT_ONE, _SINGLE, _through(rising(math.atanh)), _UNIT, Edges(at(0.999, -0.999))),
    Operator("IsNaN", Kind.COMPARE, CHOOSES, FLOATS, later={20: (BF16, *FLOAT8)}).by(
        infer=TO_TRUTH, bound=inside(0, 1), inverse=retyped(BOOL)
    ),
    Operator("IsInf", Kind.COMPARE, CHOOSES, FLOATS[:2], later={20: (F16, BF16, *FLOAT8)}).by(
        _choosing(detect_negative=(0, 1), detect_positive=(0, 1)), TO_TRUTH, inside(0, 1), retyped(BOOL)
    ),
    Operator("Not", Kind.LOGIC, CHOOSES, (BOOL,), bound=inside(0, 1)),
    Operator("BitwiseNot", Kind.LOGIC, WHOLE, INTEGERS, bound=whole_type, since=18),
    Operator("Relu", Kind.ACTIVATION, CHOOSES, FLOATS, later={14: (I8, I32)}, edges=_UNBOUNDED).by(
        bound=_through(lambda a: clamp(a, 0, math.inf))
    ),
    _activation("Sigmoid", ROUNDS, FLOATS, inside(0, 1)),
    _activation("Tanh", ROUNDS_ABOUT_ONE, FLOATS, inside(-1, 1)),
    _activation("LeakyRelu", ROUNDS, _SINGLE, _leaky, edges=_UNBOUNDED, alpha=_SLOPES),
    _activation("Elu", ROUNDS_ABOUT_ONE, _SINGLE, _leaky, alpha=(0.5, 1.0, 2.0)),
    _activation("Celu", ROUNDS_ABOUT_ONE, (F32,), _leaky, alpha=(0.5, 1.0, 2.0)),
    _activation(
        "Selu",
        ROUNDS_ABOUT_ONE,
        _SINGLE,
        _through(lambda a: symmetric(a.magnitude * 2 + 5)),
        alpha=(1.6, 1.0),
        gamma=(1.05, 1.5),
    ),
    _activation("HardSigmoid", ROUNDS, _SINGLE, inside(0, 1), alpha=(0.2, 0.25, 1.0), beta=(0.5, 0.0)),
    _activation("HardSwish", ROUNDS, _SINGLE, _leaky, 14, _FLAT),
    _activation("Softplus", ROUNDS_ABOUT_ONE, _SINGLE, _through(rising(_softplus))),
    _activation("Softsign", ROUNDS, _SINGLE, inside(-1, 1)),
    _activation(
        "ThresholdedRelu",
        WHOLE,
        _SINGLE,
        _leaky,
        edges=Edges(near(1.0, 0.5), is_wide=True),
        alpha=(1.0, 0.5, 0.0),
    ),
    _activation("Gelu", ROUNDS_ABOUT_ONE, _SINGLE, _leaky, 20, _FLAT, approximate=("none", "tanh")),
    _activation("Mish", ROUNDS_ABOUT_ONE, _SINGLE, _leaky, 18, _FLAT),
    Operator("Shrink", Kind.ACTIVATION, _SHRINKS, NUMERIC, _sample_shrink, bound=_bound_shrink),
    Operator("PRelu", Kind.ACTIVATION, _SLOPED, _SINGLE, _sample_prelu, bound=_bound_prelu),
    Operator(
        "Clip",
        Kind.ACTIVATION,
        CHOOSES,
        (*FLOATS, I8, I32, DType.U8, DType.I64, DType.U32, DType.U64),
        edges=WIDE,
    ).by(_sample_clip, bound=_bound_clip),
    _cast("Cast", replace(_CASTS, typed_by="to"), _sample_cast, _named, _solve_cast, FIRST_OPSET),
    _cast("CastLike", _CASTS, _sample_like, lambda call: call.operand(1).dtype, _solve_like, 15),
)
