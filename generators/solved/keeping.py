"""Relations of operators that keep, join or reduce dims: element by element, along axes, by other dtypes."""

from __future__ import annotations

from collections.abc import Sequence

from generators.solved.plan import Dims, Plan, Use, Value
from oracles.relation.operator import Operator
from oracles.relation.program import Attribute, Call
from oracles.relation.scope import DoesNotFit
from oracles.relation.types import BOOL, F32, F64, I32, I64, U8, DType

_CHOSEN = (F32, F64, I32, I64, U8)
"""The element types of which Where has a kernel in every framework that has it."""
_TRIES = 6
_ALTERNATIVES = 4
_MAYBE = ("Pow", "Where", "Cast", "CastLike", "EyeLike")
"""Operators that keep the dims, or broadcast them, as they happen to be drawn."""


def _sampled(use: Use, wanted: tuple[DType, tuple[int, ...]]) -> Call | None:
    """Return a call of the operator on its focus, drawn until it gives the type that was planned."""
    focus = use.focus(use.operator.inverse.within)
    for _ in range(_TRIES):
        mark = use.scope.mark()
        try:
            call = use.operator.sample(use.scope, focus)
            if call is not None and use.operator.infer(call)[0] == wanted:
                return call
        except DoesNotFit:
            pass
        use.scope.restore(mark)
    return None


def _drawn(plan: Plan, found: Sequence[Operator]) -> Operator:
    if not found:
        raise DoesNotFit("operators")
    return plan.draws.pick(found)


def _planned(plan: Plan, found: Sequence[Operator], value: Value, dtype: DType) -> None:
    if not found:
        raise DoesNotFit("operators")
    names = [each.name for each in plan.draws.sample(found, min(_ALTERNATIVES, len(found)))]
    plan.add(names, (value,), lambda use: _sampled(use, (dtype, use.sizes(value.dims))), (dtype, value.dims))


def kept(plan: Plan) -> None:
    """Whatever has the type of its focus: functions of one element, normalisations, scans, scatters."""
    value = plan.focus(0)
    _planned(plan, [each for each in plan.taking(value) if each.inverse.keeps], value, value.dtype)


def maybe(plan: Plan) -> None:
    """Operators that keep the focus's type if they are drawn so."""
    value = plan.focus(0)
    _planned(plan, plan.taking(value, *_MAYBE), value, value.dtype)


def retyped(plan: Plan) -> None:
    """The same dims in another dtype."""
    value = plan.focus(0)
    found = [each for each in plan.taking(value) if each.inverse.gives]
    operator = _drawn(plan, found)
    _planned(plan, [operator], value, plan.draws.pick(operator.inverse.gives))


def cast(plan: Plan) -> None:
    """To any dtype that the program has, or the usual ones."""
    value = plan.focus(0)
    name = plan.one_of(value, "Cast")
    to = plan.draws.pick((*plan.dtypes, F32, I32, BOOL))
    plan.add(name, (value,), lambda use: Call((use.focus(),), {"to": int(to)}), (to, value.dims))


def joined_dims(plan: Plan, *shapes: Dims) -> Dims:
    """Return the dims to which shapes broadcast: each pair is equal, or one of them is one."""
    rank = max(map(len, shapes))
    dims: list[object] = [1] * rank
    for shape in shapes:
        for at, dim in enumerate(shape, rank - len(shape)):
            form = plan.draws.random()
            if dims[at] == 1 and isinstance(dims[at], int):
                dims[at] = dim
            elif form < 0.65:
                plan.equal((dims[at],), (dim,))
            elif form < 0.85 or isinstance(dims[at], int):
                plan.must(dim == 1)
            else:
                plan.must(dims[at] == 1)
                dims[at] = dim
    return tuple(dims)


def _rank_beside(plan: Plan, rank: int) -> int:
    return rank if plan.draws.chance(0.75) else plan.draws.between(0, rank)


def joined(plan: Plan) -> None:
    """Two values that broadcast."""
    value = plan.focus(0)
    found = [each for each in plan.taking(value) if each.inverse.joins is not None]
    operator = _drawn(plan, found)
    joins = operator.inverse.joins
    assert joins is not None
    other = plan.other(value.dtype, _rank_beside(plan, value.rank))

    def make(use: Use) -> Call | None:
        second = joins.second(value.dtype)
        right = use.get(1, second)
        if not right.range.is_within(second):
            return None
        return Call((use.focus(), right), joins.attributes(use.scope, value.dtype))

    dtype = BOOL if joins.is_truth else value.dtype
    plan.add(operator.name, (value, other), make, (dtype, joined_dims(plan, value.dims, other.dims)))


def several(plan: Plan) -> None:
    """One to four values that broadcast."""
    value = plan.focus(0)
    name = plan.one_of(value, "Max", "Mean", "Min", "Sum")
    count = plan.draws.below(4)
    values = [value, *(plan.other(value.dtype, _rank_beside(plan, value.rank)) for _ in range(count))]
    dims = joined_dims(plan, *(each.dims for each in values))
    plan.add(name, values, lambda use: Call(tuple(map(use.get, range(len(values))))), (value.dtype, dims))


def chosen(plan: Plan) -> None:
    """Where, by a condition of its own."""
    value = plan.focus(0, dtypes=_CHOSEN)
    name = plan.one_of(value, "Where")
    other = plan.other(value.dtype, _rank_beside(plan, value.rank))
    condition = plan.other(BOOL, _rank_beside(plan, value.rank))
    dims = joined_dims(plan, condition.dims, value.dims, other.dims)
    values = (condition, value, other)
    plan.add(name, values, lambda use: Call(tuple(map(use.get, range(3)))), (value.dtype, dims))


def _reduced_dims(dims: Dims, axes: Sequence[int], keeps: bool) -> Dims:
    if keeps:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(dims))
    return tuple(dim for axis, dim in enumerate(dims) if axis not in axes)


def reduced(plan: Plan) -> None:
    """Sums and the like over some axes."""
    value = plan.focus(1)
    found = [each for each in plan.taking(value) if each.inverse.axes_since]
    operator = _drawn(plan, found)
    axes = tuple(plan.draws.sample(range(value.rank), plan.draws.between(1, value.rank)))
    keeps = plan.draws.chance(0.5)

    def make(use: Use) -> Call:
        told: dict[str, Attribute] = {"keepdims": int(keeps)}
        if use.scope.opset >= operator.inverse.axes_since:
            return Call((use.focus(), use.scope.fix_ints(axes)), told)
        return Call((use.focus(),), {**told, "axes": axes})

    plan.add(operator.name, (value,), make, (value.dtype, _reduced_dims(value.dims, axes, keeps)))


def located(plan: Plan) -> None:
    """The place of the largest or least along an axis."""
    value = plan.focus(1)
    name = plan.one_of(value, "ArgMax", "ArgMin")
    axis, keeps = plan.draws.below(value.rank), plan.draws.chance(0.5)
    told: dict[str, Attribute] = {"axis": axis, "keepdims": int(keeps)}
    dims = _reduced_dims(value.dims, (axis,), keeps)
    plan.add(name, (value,), lambda use: Call((use.focus(),), told), (I64, dims))


def highest(plan: Plan) -> None:
    """The first of an axis, as many as the solver takes."""
    value = plan.focus(1)
    name = plan.one_of(value, "TopK")
    axis, count = plan.draws.below(value.rank), plan.dim()
    plan.must(count <= value.dims[axis])
    dims = (*value.dims[:axis], count, *value.dims[axis + 1 :])

    def make(use: Use) -> Call:
        return Call((use.focus(), use.ints([count])), {"axis": axis}, 2)

    plan.add(name, (value,), make, (value.dtype, dims), (I64, dims))


RELATIONS = {
    kept: 9.0,
    joined: 5.0,
    retyped: 1.5,
    maybe: 1.0,
    cast: 1.0,
    several: 1.2,
    chosen: 0.7,
    reduced: 3.0,
    located: 0.8,
    highest: 0.6,
}
"""By relation, how often it is drawn: for about as many operators as it is of."""
