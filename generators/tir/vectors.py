"""Stores of several lanes: a scalar expression over a lane's number, with that number a ramp."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from corpus.tir.forms import (
    lanes,
    with_lanes,
)
from corpus.tir.tree import Store
from corpus.tir.values import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Unary,
    Var,
    type_of,
)
from corpus.tir.walk import expressions
from generators.language.values import RandomSource
from generators.tir.frame import Frame, Known, static_shape
from generators.tir.values import Sampler, usable

LANES = (2, 4, 4, 8, 8, 16)

_STEPS = (1, 1, 1, 1, 2, 3, -1, -1, -2)

_SCALAR_CALLS = frozenset(
    {"if_then_else", "clz", "popcount", "isnan", "isinf", "isfinite", "ldexp", "nextafter"}
)
"""Intrinsics that TVM has for one lane, or spells as something else."""


def vector_store(draws: RandomSource, frame: Frame, lane: Var, fuel: int) -> Store | None:
    """Store some lanes along the last dim of a buffer; None where none is that long, or none was drawn."""
    count = draws.pick(LANES)
    found = [(each, static_shape(each) or ()) for each in frame.buffers if usable(each) and each.shape]
    long = [each for each, shape in found if shape[-1] >= count]
    if not long:
        return None
    buffer = draws.pick(long)
    shape, step = static_shape(buffer) or (), draws.pick(_STEPS)
    if (count - 1) * abs(step) >= shape[-1]:
        step = 1
    inner = frame.with_loop(Known(lane, 0, count - 1))
    outside, inside = Sampler(draws, frame), Sampler(draws, inner)
    head = outside.indices(shape[:-1])
    first = _first(outside, shape[-1] - (count - 1) * abs(step), -step * (count - 1) if step < 0 else 0)
    for _ in range(6):
        value = inside.kept(inside.value(buffer.dtype, fuel), buffer.dtype)
        made = lifted(value, lane, count)
        if made is not None and not any(each == lane for each in expressions((made,))):
            return Store(buffer.name, (*head, Ramp(first, Const(step), count)), made)
    return None


def _first(sampler: Sampler, room: int, least: int) -> Expr:
    """Where the first lane lies: one of so many places, the least of them given."""
    place = sampler.index(room)
    if not least:
        return place
    return Const(least + int(place.value)) if isinstance(place, Const) else Binary("add", place, Const(least))


def lifted(expr: Expr, lane: Var, count: int) -> Expr | None:
    """The vector of an expression's values for the lanes 0 to `count`; None for what has no vector form."""
    made = _lifted(expr, lane, count)
    return made if made is None or lanes(type_of(made)) > 1 else Broadcast(made, count)


def _lifted(expr: Expr, lane: Var, count: int) -> Expr | None:
    if lane not in expressions((expr,)):
        return expr
    if expr == lane:
        return Ramp(Const(0), Const(1), count)
    rule = _RULES.get(type(expr))
    return rule(expr, lane, count) if rule is not None else None


def _all(parts: tuple[Expr, ...], lane: Var, count: int) -> tuple[Expr, ...] | None:
    """Each part as a vector."""
    made = [lifted(each, lane, count) for each in parts]
    return tuple(each for each in made if each is not None) if None not in made else None


def _fields(*names: str) -> Callable[[Any, Var, int], Expr | None]:
    def rule(expr: Any, lane: Var, count: int) -> Expr | None:
        parts = _all(tuple(getattr(expr, name) for name in names), lane, count)
        return replace(expr, **dict(zip(names, parts, strict=True))) if parts is not None else None

    return rule


def _binary(expr: Binary, lane: Var, count: int) -> Expr | None:
    """A sum with a ramp is a ramp, as TVM's own vectorising leaves it."""
    a, b = _lifted(expr.a, lane, count), _lifted(expr.b, lane, count)
    if a is None or b is None:
        return None
    if isinstance(a, Ramp) and lanes(type_of(b)) == 1 and expr.op in ("add", "sub"):
        return replace(a, base=Binary(expr.op, a.base, b))
    if isinstance(b, Ramp) and lanes(type_of(a)) == 1 and expr.op == "sub":
        return Ramp(Binary("sub", a, b.base), Binary("sub", Const(0), b.stride), count)
    return _fields("a", "b")(expr, lane, count)


def _cast_lanes(expr: Cast, lane: Var, count: int) -> Expr | None:
    value = lifted(expr.value, lane, count)
    return Cast(with_lanes(expr.dtype, count), value) if value is not None else None


def _load(expr: Load, lane: Var, count: int) -> Expr | None:
    """A load whose last index alone tells the lanes apart."""
    *head, last = expr.indices
    index = _lifted(last, lane, count)
    if index is None or any(lane in expressions((each,)) for each in head):
        return None
    return Load(expr.buffer, (*head, index), with_lanes(expr.dtype, count))


def _call(expr: Call, lane: Var, count: int) -> Expr | None:
    args = _all(expr.args, lane, count) if expr.callee not in _SCALAR_CALLS else None
    return Call(expr.callee, args, with_lanes(expr.dtype, count)) if args is not None else None


_RULES: dict[type, Callable[[Any, Var, int], Expr | None]] = {
    Binary: _binary,
    Unary: _fields("a"),
    Cast: _cast_lanes,
    Select: _fields("condition", "then", "other"),
    Load: _load,
    Call: _call,
}
