"""Attention and what stands around it: rotary positions, normalisation by the root of the mean square."""

from __future__ import annotations

import math

from oracles.relation.arithmetic import SUMS_INSIDE
from oracles.relation.intervals import symmetric
from oracles.relation.inverses import another_dim, filled, is_filled, recogniser
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import MAX_RANK, Attribute, Call, Kind, Operand
from oracles.relation.scope import MAX_ELEMENTS, Scope
from oracles.relation.types import F16, F32, Range, Shape, TensorType


def _sample_attention(scope: Scope, focus: Operand) -> Call | None:
    """The focus is the query: batch, heads, length, size of a head."""
    if 0 in focus.shape:
        return None
    return _attend(scope, focus, max(1, scope.dim()))


def _attend(scope: Scope, query: Operand, size: int) -> Call:
    """Keys and values of one length; the values' heads have this size."""
    draws = scope.draws
    batch, heads, length, depth = query.shape
    other = another_dim(scope, (batch, heads, max(depth, size)))
    keys = scope.supply(query.dtype, (batch, heads, other, depth))
    operands: list[Operand] = [query, keys, scope.supply(query.dtype, (batch, heads, other, size))]
    attributes: dict[str, Attribute] = {"is_causal": 1} if draws.chance(0.3) else {}
    if not attributes and length * other <= MAX_ELEMENTS and draws.chance(0.3):
        operands.append(scope.supply(query.dtype, (length, other)))
    if draws.chance(0.3):
        attributes["scale"] = draws.pick((0.5, 1.0, 0.125))
    return Call(tuple(operands), attributes)


def _infer_attention(call: Call) -> tuple[TensorType, ...]:
    query, values = call.operand(0), call.operand(2)
    return (TensorType(query.dtype, (*query.shape[:3], values.shape[3])),)


def _bound_attention(call: Call) -> tuple[Range, ...]:
    """A weighted mean of the values; the scores must not overflow on the way."""
    query, keys = call.operand(0), call.operand(1)
    score = query.range.magnitude * keys.range.magnitude * query.shape[3]
    values = symmetric(call.operand(2).range.magnitude)
    return (values if score < 1e3 else symmetric(math.inf),)


def _solve_attention(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    query = scope.supply(wanted.dtype, (*wanted.shape[:3], another_dim(scope, wanted.shape[:3])))
    return _attend(scope, query, wanted.shape[3])


def _is_attended(shape: Shape) -> bool:
    return len(shape) == 4 and is_filled(shape)


def _sample_rotary(scope: Scope, focus: Operand) -> Call | None:
    batch, _, length, depth = focus.shape
    if 0 in focus.shape or depth % 2:
        return None
    caches = [scope.supply(focus.dtype, (batch, length, depth // 2), Range(-1, 1)) for _ in range(2)]
    return Call((focus, *caches), {"interleaved": 1} if scope.draws.chance(0.4) else {})


def _bound_rotary(call: Call) -> tuple[Range, ...]:
    return (symmetric(2 * call.operand(0).range.magnitude),)


def _is_rotated(operator: Operator, wanted: TensorType, opset: int) -> bool:
    shape = wanted.shape
    is_even = len(shape) == 4 and is_filled(shape) and not shape[3] % 2
    return is_even and wanted.dtype in operator.dtypes


def _sample_rms(scope: Scope, focus: Operand) -> Call | None:
    if 0 in focus.shape:
        return None
    axis = scope.axis(focus.rank)
    attributes: dict[str, Attribute] = {"axis": axis}
    if scope.draws.chance(0.5):
        attributes["epsilon"] = scope.draws.pick((1e-5, 1e-3, 0.1))
    return Call((focus, scope.supply(focus.dtype, focus.shape[axis:])), attributes)


def _bound_rms(call: Call) -> tuple[Range, ...]:
    """At most the root of the count, before the scale; the squares must not overflow on the way."""
    focus = call.operand(0)
    if focus.range.magnitude > 100:
        return (symmetric(math.inf),)
    return (symmetric(math.sqrt(math.prod(focus.shape)) * call.operand(1).range.magnitude + 1),)


_HEADS = range(4, 5)

OPERATORS = (
    Operator(
        "Attention",
        Kind.LINEAR,
        SUMS_INSIDE,
        (F32, F16),
        _sample_attention,
        _infer_attention,
        _bound_attention,
        _HEADS,
        since=23,
        inverse=Inverse(recogniser(_is_attended), _solve_attention),
    ),
    Operator(
        "RotaryEmbedding",
        Kind.ARITHMETIC,
        SUMS_INSIDE,
        (F32, F16),
        _sample_rotary,
        bound=_bound_rotary,
        ranks=_HEADS,
        since=23,
        inverse=Inverse(_is_rotated, filled().solve),
    ),
    Operator(
        "RMSNormalization",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F16),
        _sample_rms,
        bound=_bound_rms,
        ranks=range(1, MAX_RANK + 1),
        since=23,
        inverse=filled(),
    ),
)
