"""Changes of the element type."""

import math
from collections.abc import Callable
from dataclasses import replace

from oracles.relation.arithmetic import Arithmetic, Rounding, within_type
from oracles.relation.edges import Edges, both, powers, ties
from oracles.relation.open_checks import is_out_of_range
from oracles.relation.operator import Inverse, Operator, Sampler, Solver
from oracles.relation.program import FIRST_OPSET, Call, Kind, Operand, Scope
from oracles.relation.rules import gives_dtype, same_shape, shaped
from oracles.relation.types import (
    ALL,
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOAT8,
    I32,
    I64,
    INT4,
    INTEGERS,
    NARROW,
    TEXT,
    TRUTH,
    U8,
    DType,
    Range,
    TensorType,
    extent,
    is_float,
)

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
    _cast("Cast", replace(_CASTS, typed_by="to"), _sample_cast, _named, _solve_cast, FIRST_OPSET),
    _cast("CastLike", _CASTS, _sample_like, lambda call: call.operand(1).dtype, _solve_like, 15),
)
