"""Relations of operators that move, repeat, take apart and put together elements."""

from __future__ import annotations

from collections.abc import Sequence

from generators.solved.plan import Dims, Plan, Term, Use, Value
from oracles.relation.program import MAX_RANK, Attribute, Call
from oracles.relation.scope import DoesNotFit
from oracles.relation.types import I32, I64, Range

_MOST_INDEX = 8
"""Dims that are indexed are mostly small; an index is drawn below the size that was found."""


def _without(dims: Sequence[Term], axis: int) -> list[Term]:
    return [dim for at, dim in enumerate(dims) if at != axis]


def _with(dims: Dims, axis: int, dim: Term) -> Dims:
    return (*dims[:axis], dim, *dims[axis + 1 :])


def concatenated(plan: Plan) -> None:
    """Two or three values that differ along one axis."""
    first = plan.focus(1)
    name = plan.one_of(first, "Concat")
    rest = [plan.other(first.dtype, first.rank) for _ in range(plan.draws.between(1, 2))]
    axis = plan.draws.below(first.rank)
    for other in rest:
        plan.equal(_without(first.dims, axis), _without(other.dims, axis))
    total = sum((value.dims[axis] for value in rest), first.dims[axis])
    values = (first, *rest)

    def make(use: Use) -> Call:
        return Call(tuple(map(use.get, range(len(values)))), {"axis": axis})

    plan.add(name, values, make, (first.dtype, _with(first.dims, axis, total)))


def parted(plan: Plan) -> None:
    """Parts of whatever sizes their users need."""
    value = plan.focus(1)
    name = plan.one_of(value, "Split")
    axis = plan.draws.below(value.rank)
    sizes = [plan.dim() for _ in range(plan.draws.between(2, 3))]
    plan.must(sum(sizes[1:], sizes[0]) == value.dims[axis])

    def make(use: Use) -> Call:
        return Call((use.focus(), use.ints(sizes)), {"axis": axis}, len(sizes))

    plan.add(name, (value,), make, *((value.dtype, _with(value.dims, axis, size)) for size in sizes))


def transposed(plan: Plan) -> None:
    """The axes in another order."""
    value = plan.focus(2)
    name = plan.one_of(value, "Transpose")
    perm = tuple(plan.draws.sample(range(value.rank), value.rank))
    dims = [value.dims[axis] for axis in perm]
    plan.add(name, (value,), lambda use: Call((use.focus(),), {"perm": perm}), (value.dtype, dims))


def reshaped(plan: Plan) -> None:
    """To other dims with the same product."""
    value = plan.focus(1)
    name = plan.one_of(value, "Reshape")
    dims = tuple(plan.dim() for _ in range(plan.draws.between(1, 4)))
    plan.must(plan.z3.Product(*dims) == _product(plan, value.dims))
    plan.add(name, (value,), lambda use: Call((use.focus(), use.ints(dims))), (value.dtype, dims))


def _product(plan: Plan, dims: Sequence[Term]) -> Term:
    """Return the product of dims, some of which may be numbers."""
    found: Term = 1
    for dim in dims:
        found = dim if isinstance(found, int) and found == 1 else found * dim
    return found


def flattened(plan: Plan) -> None:
    """To a matrix, cut at an axis."""
    value = plan.focus(1)
    name = plan.one_of(value, "Flatten")
    axis = plan.draws.between(0, value.rank)
    dims = _product(plan, value.dims[:axis]), _product(plan, value.dims[axis:])
    plan.add(name, (value,), lambda use: Call((use.focus(),), {"axis": axis}), (value.dtype, dims))


def squeezed(plan: Plan) -> None:
    """Without an axis, which must be one."""
    value = plan.focus(1)
    name = plan.one_of(value, "Squeeze")
    axis = plan.draws.below(value.rank)
    plan.must(value.dims[axis] == 1)
    plan.add(
        name,
        (value,),
        lambda use: Call((use.focus(), use.ints([axis]))),
        (value.dtype, _without(value.dims, axis)),
    )


def unsqueezed(plan: Plan) -> None:
    """With an axis of one more."""
    value = plan.focus(0, MAX_RANK - 1)
    name = plan.one_of(value, "Unsqueeze", "com.microsoft.ExpandDims")
    axis = plan.draws.between(0, value.rank)
    dims = (*value.dims[:axis], 1, *value.dims[axis:])

    def make(use: Use) -> Call:
        is_own = use.operator.is_standard
        return Call((use.focus(), use.ints([axis]) if is_own else use.scope.fix_scalar(axis, I32)))

    plan.add(name, (value,), make, (value.dtype, dims))


def expanded(plan: Plan) -> None:
    """Dims of one become as large as the solver likes."""
    value = plan.focus(1)
    name = plan.one_of(value, "Expand")
    dims = list(value.dims)
    for axis in plan.draws.sample(range(value.rank), plan.draws.between(1, value.rank)):
        plan.must(dims[axis] == 1)
        dims[axis] = plan.dim()
    plan.add(name, (value,), lambda use: Call((use.focus(), use.ints(dims))), (value.dtype, dims))


def tiled(plan: Plan) -> None:
    """Each axis repeated."""
    value = plan.focus(1)
    name = plan.one_of(value, "Tile")
    repeats = [plan.amount(1) if plan.draws.chance(0.6) else 1 for _ in value.dims]
    dims = [dim * times for dim, times in zip(value.dims, repeats, strict=True)]
    plan.add(name, (value,), lambda use: Call((use.focus(), use.ints(repeats))), (value.dtype, dims))


def padded(plan: Plan) -> None:
    """More at either end of each axis."""
    value = plan.focus(1)
    name = plan.one_of(value, "Pad")
    pads = [plan.amount() for _ in range(2 * value.rank)]
    ends = zip(value.dims, pads[: value.rank], pads[value.rank :], strict=True)
    dims = [dim + before + after for dim, before, after in ends]
    plan.add(name, (value,), lambda use: Call((use.focus(), use.ints(pads))), (value.dtype, dims))


def sliced(plan: Plan) -> None:
    """Every so many of one axis, from a start to an end."""
    value = plan.focus(1)
    name = plan.one_of(value, "Slice")
    axis, step = plan.draws.below(value.rank), plan.draws.pick((1, 1, 2, 3))
    start, count = plan.amount(), plan.dim()
    end = start + (count - 1) * step + 1
    plan.must(end <= value.dims[axis])

    def make(use: Use) -> Call:
        return Call((use.focus(), *(use.ints([one]) for one in (start, end, axis, step))))

    plan.add(name, (value,), make, (value.dtype, _with(value.dims, axis, count)))


def gathered(plan: Plan) -> None:
    """Elements of an axis by indices of any shape."""
    value = plan.focus(1)
    name = plan.one_of(value, "Gather")
    axis = plan.draws.below(value.rank)
    indices = plan.input(I64, plan.draws.between(0, min(2, MAX_RANK - value.rank + 1)))
    dims = (*value.dims[:axis], *indices.dims, *value.dims[axis + 1 :])

    def make(use: Use) -> Call:
        most = use.size(value.dims[axis]) - 1
        return Call((use.focus(), use.get(1, Range(0, most))), {"axis": axis})

    plan.add(name, (value, indices), make, (value.dtype, dims))


def gathered_elements(plan: Plan) -> None:
    """One element for each index; along the other axes no more indices than elements."""
    value = plan.focus(1)
    name = plan.one_of(value, "GatherElements")
    axis = plan.draws.below(value.rank)
    indices = plan.input(I64, value.rank)
    plan.must(*(indices.dims[at] <= dim for at, dim in enumerate(value.dims) if at != axis))

    def make(use: Use) -> Call:
        most = use.size(value.dims[axis]) - 1
        return Call((use.focus(), use.get(1, Range(0, most))), {"axis": axis})

    plan.add(name, (value, indices), make, (value.dtype, indices.dims))


def blocks(plan: Plan) -> None:
    """Channels to space, or space to channels."""
    value = plan.focus(4, 4)
    name = plan.one_of(value, "DepthToSpace", "SpaceToDepth")
    side = plan.draws.pick((1, 2, 2, 3))
    n, c, h, w = value.dims
    part, high, wide = plan.dim(), plan.dim(), plan.dim()
    if name == "DepthToSpace":
        plan.must(c == part * side * side)
        dims: Dims = (n, part, h * side, w * side)
    else:
        plan.must(h == high * side, w == wide * side)
        dims = (n, c * side * side, high, wide)
    told: dict[str, Attribute] = {"blocksize": side}
    plan.add(name, (value,), lambda use: Call((use.focus(),), told), (value.dtype, dims))


def cropped(plan: Plan) -> None:
    """To sizes of the solver, cut or padded at the middle."""
    value = plan.focus(1)
    name = plan.one_of(value, "CenterCropPad")
    axes = plan.draws.sample(range(value.rank), plan.draws.between(1, value.rank))
    sizes = [plan.dim() for _ in axes]
    dims = list(value.dims)
    for axis, size in zip(axes, sizes, strict=True):
        dims[axis] = size

    def make(use: Use) -> Call:
        return Call((use.focus(), use.ints(sizes)), {"axes": tuple(axes)})

    plan.add(name, (value,), make, (value.dtype, dims))


def measured(plan: Plan) -> None:
    """The sizes of a value, or how many elements it has."""
    value = plan.focus(1)
    name = plan.one_of(value, "Shape", "Size")
    dims: Dims = (value.rank,) if name == "Shape" else ()
    plan.add(name, (value,), lambda use: Call((use.focus(),)), (I64, dims))


def taken(plan: Plan) -> None:
    """A tensor of indices into one axis, each of which becomes a slice."""
    value: Value = plan.focus(2)
    name = plan.one_of(value, "GatherND")
    rows = plan.dim()
    indices = plan.input(I64, (rows, 1))

    def make(use: Use) -> Call:
        return Call((use.focus(), use.get(1, Range(0, use.size(value.dims[0]) - 1))))

    if value.rank > MAX_RANK:
        raise DoesNotFit("rank")
    plan.add(name, (value, indices), make, (value.dtype, (rows, *value.dims[1:])))


RELATIONS = {
    **dict.fromkeys((concatenated, parted, transposed, reshaped, padded, sliced), 1.5),
    **dict.fromkeys((flattened, squeezed, unsqueezed, expanded, tiled, gathered), 1.0),
    **dict.fromkeys((gathered_elements, blocks, cropped, measured, taken), 0.7),
}
"""By relation, how often it is drawn."""
