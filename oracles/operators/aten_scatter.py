"""Operators of torch itself that write into a part of a tensor, or read places that several operands name."""

import math
from collections.abc import Callable
from dataclasses import replace

from oracles.operators.aten_index import indices
from oracles.relation.arithmetic import MOVES, SUMS, Arithmetic, Nonfinite, Rounding
from oracles.relation.aten import (
    EVERY,
    FLOATING,
    NUMBERS,
    aten,
    axis_of,
    by_type,
    magnitudes,
    moved_elements,
    number,
    promotion,
    replaced,
    same_shape,
    shaped,
)
from oracles.relation.open_checks import is_filled, part_of
from oracles.relation.operator import Operator, Sampler
from oracles.relation.overwrites import adds_up, puts_twice
from oracles.relation.program import ALONG, FLAT, MAX_ELEMENTS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.types import BOOL, DType, Shape, broadcast

_FEW = range(1, 4)
_WRITES = Arithmetic(Rounding.NOTHING, Nonfinite.MOVED, opens={"writes to one place twice": puts_twice})
_PUTS = replace(_WRITES, varies=lambda node: SUMS if adds_up(node) else _WRITES)


# A part that attributes name


def _part(draw: Callable[[Scope, Operand], tuple[dict[str, Attribute], Shape] | None]) -> Sampler:
    """The focus and what is written over a part of it."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        drawn = draw(scope, focus) if is_filled(focus.shape) else None
        if drawn is None:
            return None
        attributes, shape = drawn
        return Call((focus, scope.supply(focus.dtype, shape)), attributes)

    return sample


def _draw_slice(scope: Scope, focus: Operand) -> tuple[dict[str, Attribute], Shape]:
    axis = scope.axis(focus.rank)
    length = focus.shape[axis % focus.rank]
    start, end = sorted((scope.draws.between(0, length), scope.draws.between(0, length)))
    step = scope.draws.between(1, 3)
    attributes: dict[str, Attribute] = {"dim": axis, "start": start, "end": end, "step": step}
    return attributes, replaced(focus.shape, axis % focus.rank, -(-(end - start) // step))


def _draw_select(scope: Scope, focus: Operand) -> tuple[dict[str, Attribute], Shape]:
    axis = scope.axis(focus.rank)
    length = focus.shape[axis % focus.rank]
    attributes: dict[str, Attribute] = {"dim": axis, "index": scope.draws.between(-length, length - 1)}
    return attributes, replaced(focus.shape, axis % focus.rank)


def _draw_diagonal(scope: Scope, focus: Operand) -> tuple[dict[str, Attribute], Shape] | None:
    one, other = (axis % focus.rank for axis in scope.axes(focus.rank, 2, 2))
    offset = scope.draws.between(1 - focus.shape[one], focus.shape[other] - 1)
    rows, columns = focus.shape[one] + min(offset, 0), focus.shape[other] - max(offset, 0)
    rest = tuple(dim for axis, dim in enumerate(focus.shape) if axis not in (one, other))
    return {"offset": offset, "dim1": one, "dim2": other}, (*rest, min(rows, columns))


def _draw_window(scope: Scope, focus: Operand) -> tuple[dict[str, Attribute], Shape] | None:
    """A part of memory that holds no element twice; only what comes from outside surely lies in order."""
    if focus.producer is not None:
        return None
    size: list[int] = []
    strides: list[int] = []
    room = math.prod(focus.shape)
    reach = 1
    for _ in range(scope.draws.between(1, 3)):
        step = reach * scope.draws.between(1, 2)
        dim = scope.draws.between(1, max(1, min(room // step, 9)))
        size.insert(0, dim)
        strides.insert(0, step)
        reach = step * dim
    last = sum((dim - 1) * step for dim, step in zip(size, strides, strict=True))
    if last >= room:
        return None
    offset = scope.draws.between(0, room - 1 - last)
    return {"size": tuple(size), "stride": tuple(strides), "storage_offset": offset}, tuple(size)


def _sample_strided(scope: Scope, focus: Operand) -> Call | None:
    drawn = _draw_window(scope, focus) if is_filled(focus.shape) else None
    return None if drawn is None else Call((focus,), drawn[0])


# Places that several operands name


def _places(scope: Scope, focus: Operand) -> tuple[Operand | None, ...]:
    """An index for some dims, None for those before them that are taken whole."""
    dims = sorted(axis % focus.rank for axis in scope.axes(focus.rank, 1, min(focus.rank, 3)))
    shape = scope.shape(scope.draws.below(3))
    found: list[Operand | None] = [None] * (dims[-1] + 1)
    for axis in dims:
        own = part_of(scope, shape) if axis != dims[0] else shape
        found[axis] = indices(scope, own, focus.shape[axis])
    return tuple(found)


def _sample_get(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    call = Call((focus, *_places(scope, focus)))
    return call if math.prod(_gotten(call)) <= MAX_ELEMENTS else None


def _gotten(call: Call, given: int | None = None) -> Shape:
    """Indices side by side leave their dims there; with a whole dim between them they come first."""
    shape, found = call.operand(0).shape, call.operands[1:given]
    dims = [axis for axis, value in enumerate(found) if value is not None]
    joined = broadcast(*(value.shape for value in found if value is not None))
    assert joined is not None
    rest = [dim for axis, dim in enumerate(shape) if axis not in dims]
    at = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return (*rest[:at], *joined, *rest[at:])


def _sample_put_at(scope: Scope, focus: Operand) -> Call | None:
    """Values at places; with a mask one value for all of them; only a sum takes one place twice."""
    if not is_filled(focus.shape):
        return None
    if scope.draws.chance(0.25):
        mask = scope.supply(BOOL, focus.shape[: scope.draws.between(1, focus.rank)])
        return Call((focus, mask, scope.supply(focus.dtype, ())), {"accumulate": 0})
    adds = focus.dtype in NUMBERS and scope.draws.chance(0.5)
    if adds:
        found = _places(scope, focus)
    else:
        axis = scope.draws.below(focus.rank)
        count = scope.draws.between(1, min(focus.shape[axis], 6))
        found = (*(None,) * axis, indices(scope, (count,), focus.shape[axis], distinct=True))
    wanted = _gotten(Call((focus, *found)))
    if math.prod(wanted) > MAX_ELEMENTS:
        return None
    return Call((focus, *found, scope.supply(focus.dtype, part_of(scope, wanted))), {"accumulate": int(adds)})


def _sample_put(scope: Scope, focus: Operand) -> Call | None:
    """Values at places of the flat tensor."""
    if not is_filled(focus.shape):
        return None
    adds, room = focus.dtype in NUMBERS and scope.draws.chance(0.5), math.prod(focus.shape)
    index = indices(scope, (scope.draws.between(1, min(room, 9)),), room, distinct=not adds)
    return Call((focus, index, scope.supply(focus.dtype, index.shape)), {"accumulate": int(adds)})


def _added(call: Call) -> float:
    """Bound a sum: all of what is written may meet in one place."""
    first, last = magnitudes(call)[0], magnitudes(call)[-1]
    return first + last * MAX_ELEMENTS if call.integer("accumulate", 0) else max(first, last)


def _sample_masked(scope: Scope, focus: Operand) -> Call:
    """As many values as there are elements, in whatever shape the focus has."""
    return Call((focus, scope.supply(BOOL, part_of(scope, focus.shape)), scope.supply(*focus.type)))


def _sample_index_reduce(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    axis = scope.draws.below(focus.rank)
    count = scope.draws.between(1, 6)
    index = indices(scope, (count,), focus.shape[axis])
    source = scope.supply(focus.dtype, replaced(focus.shape, axis, count))
    how, own = scope.draws.pick(("mean", "amax", "amin")), scope.draws.below(2)
    return Call((focus, index, source), {"dim": axis, "reduce": how, "include_self": own})


def _grown(call: Call) -> float:
    return magnitudes(call)[0] + magnitudes(call)[-1] * 8


# Joined and padded


def _sample_cat(scope: Scope, focus: Operand) -> Call:
    """Up to five tensors along a dim, now and then of another element type: they are promoted."""
    axis = scope.draws.below(focus.rank)
    others = []
    for _ in range(scope.draws.between(0, 4)):
        length = focus.shape[axis] if scope.draws.chance(0.5) else scope.draws.between(0, 9)
        dtype = scope.draws.pick(EVERY) if scope.draws.chance(0.15) else focus.dtype
        dtype = dtype if scope.allows(dtype) else focus.dtype
        others.append(scope.supply(dtype, replaced(focus.shape, axis, length)))
    others.insert(scope.draws.between(0, len(others)), focus)
    return Call(tuple(others), {"dim": axis - focus.rank if scope.draws.chance(0.3) else axis})


def _joined(call: Call) -> Shape:
    axis = axis_of(call)
    return replaced(call.operand(0).shape, axis, sum(value.shape[axis] for value in call.present))


def _sample_filled(scope: Scope, focus: Operand) -> Call:
    """A new tensor of the focus's element type, or of its shape as well."""
    return Call((focus,), {"fill_value": number(scope, focus.dtype, (0.0, 2.5, -1.0), (0, 1))})


def _filled(call: Call) -> float:
    value = call.attributes["fill_value"]
    assert isinstance(value, (int, float))
    return abs(value)


def _writing(
    name: str,
    sample: Sampler,
    arithmetic: Arithmetic = MOVES,
    dtypes: tuple[DType, ...] = EVERY,
    magnitude: Callable[[Call], float] = lambda call: max(magnitudes(call)),
    ranks: range = ALONG,
) -> Operator:
    infer = shaped(same_shape)
    bound = by_type(infer, magnitude)
    return aten(name, Kind.PART, arithmetic, dtypes, sample, infer, bound, ranks=ranks)


_GOTTEN, _JOINED = shaped(_gotten), shaped(_joined, promotion)

OPERATORS = (
    _writing("slice_scatter", _part(_draw_slice)),
    _writing("select_scatter", _part(_draw_select)),
    _writing("diagonal_scatter", _part(_draw_diagonal), ranks=FLAT),
    _writing("as_strided_scatter", _part(_draw_window)),
    _writing("masked_scatter", _sample_masked),
    _writing("index_put", _sample_put_at, _PUTS, EVERY, _added, _FEW),
    _writing("put", _sample_put, _PUTS, EVERY, _added),
    _writing("index_reduce", _sample_index_reduce, SUMS, FLOATING, _grown),
    _writing("full_like", _sample_filled, MOVES, EVERY, _filled),
    aten(
        "as_strided",
        Kind.LAYOUT,
        MOVES,
        EVERY,
        _sample_strided,
        shaped(lambda call: call.tuple_of("size", ())),
        by_type(shaped(lambda call: call.tuple_of("size", ())), lambda call: magnitudes(call)[0]),
        ranks=ALONG,
    ),
    aten("index", Kind.PART, MOVES, EVERY, _sample_get, _GOTTEN, moved_elements, ranks=ALONG),
    aten(
        "cat",
        Kind.LAYOUT,
        MOVES,
        EVERY,
        _sample_cat,
        _JOINED,
        by_type(_JOINED, lambda call: max(magnitudes(call))),
        ranks=ALONG,
    ),
)
