"""What moves or repeats elements: reshapes, transposes, slices, joins, pads."""

from itertools import pairwise

import numpy as np

from generators.relax.operator import (
    Argument,
    Asking,
    Call,
    Dim,
    Fields,
    Given,
    Group,
    Json,
    Likely,
    Operator,
    Tensor,
    Want,
    Within,
    all_of,
    anything,
    is_filled,
    is_float,
    is_number,
    number,
    numbers,
    ranked,
    shape_literal,
    size_of,
    times,
)

_MOST_ELEMENTS = 4096


_ranked = ranked(1)
_is_static = all_of(is_filled, ranked(1))


def _with(target: Tensor, axis: int, dim: Dim) -> Tensor:
    return target.shaped(*target.shape[:axis], dim, *target.shape[axis + 1 :])


def _reshape(asking: Asking, target: Tensor) -> Call:
    """Reshape from another order of the dims, some of them joined."""
    dims: list[Dim] = list(asking.draws.sample(target.shape, target.rank))
    while len(dims) > 1 and asking.draws.chance(0.5):
        dims = [*dims[:-2], times(dims[-2], dims[-1])]
    if asking.draws.chance(0.3) and len(dims) < asking.most_rank:
        dims.insert(asking.draws.below(len(dims) + 1), 1)
    return Call((Want(target.shaped(*dims)), shape_literal(target.shape)), target)


def _permute(asking: Asking, target: Tensor) -> Call:
    axes = asking.draws.sample(range(target.rank), target.rank)
    if asking.draws.chance(0.2):
        axes = [*reversed(range(target.rank))]
    shape: list[Dim] = [0] * target.rank
    for at, axis in enumerate(axes):
        shape[axis] = target.shape[at]
    told: Json = None if axes == [*reversed(range(target.rank))] and asking.draws.chance(0.5) else axes
    return Call((Want(target.shaped(*shape)),), target, ("PermuteDimsAttrs", {"axes": told}))


def _expand(asking: Asking, target: Tensor) -> Call:
    ones = [at for at, dim in enumerate(target.shape) if dim == 1]
    axes = sorted(asking.draws.sample(ones, asking.draws.between(1, len(ones))))
    shape = tuple(dim for at, dim in enumerate(target.shape) if at not in axes)
    told = [asking.axis(axis, target.rank) for axis in axes]
    return Call((Want(target.shaped(*shape)),), target, ("ExpandDimsAttrs", {"axis": told}))


def _squeeze(asking: Asking, target: Tensor) -> Call:
    shape, at = list(target.shape), asking.draws.below(target.rank + 1)
    shape.insert(at, 1)
    told: Json = [asking.axis(at, len(shape))]
    if target.is_static and 1 not in target.shape and asking.draws.chance(0.3):
        told = None
    return Call((Want(target.shaped(*shape)),), target, ("SqueezeAttrs", {"axis": told}))


def _flatten(asking: Asking, target: Tensor) -> Call | None:
    (whole,) = target.shape
    if not isinstance(whole, int):
        return Call((Want(target.shaped(1, whole)),), target)
    factors = [each for each in range(1, whole + 1) if whole % each == 0] or [0]
    first = asking.draws.pick(factors)
    return Call((Want(target.shaped(first, whole // first if first else 1)),), target)


def _batch_flatten(asking: Asking, target: Tensor) -> Call | None:
    batch, whole = target.shape
    if not isinstance(whole, int) or not whole:
        return None
    first = asking.draws.pick([each for each in range(1, whole + 1) if whole % each == 0])
    return Call((Want(target.shaped(batch, first, whole // first)),), target)


def _broadcast(asking: Asking, target: Tensor) -> Call:
    kept = target.shape[asking.draws.below(target.rank + 1) :]
    shape = tuple(1 if asking.draws.chance(0.4) else dim for dim in kept)
    return Call((Want(target.shaped(*shape)), shape_literal(target.shape)), target)


def _concat(asking: Asking, target: Tensor) -> Call | None:
    axis = asking.draws.below(target.rank)
    whole = target.shape[axis]
    if not isinstance(whole, int):
        parts: list[Dim] = [whole]
    else:
        cuts = sorted(asking.draws.below(whole + 1) for _ in range(asking.draws.between(1, 2)))
        edges = [0, *cuts, whole]
        parts = [last - first for first, last in pairwise(edges) if last > first] or [whole]
    wants = tuple(Want(_with(target, axis, part)) for part in parts)
    return Call((Group(wants),), target, ("ConcatAttrs", {"axis": asking.axis(axis, target.rank)}))


def _stack(asking: Asking, target: Tensor) -> Call | None:
    axis = asking.sized_axis(target.shape, most=4)
    if axis is None:
        return None
    part = target.shaped(*target.shape[:axis], *target.shape[axis + 1 :])
    count = int(target.shape[axis])
    told = {"axis": asking.axis(axis, target.rank)}
    return Call((Group((Want(part),) * count),), target, ("StackAttrs", told))


def _split(asking: Asking, target: Tensor) -> Call | None:
    axis = asking.draws.below(target.rank)
    part = target.shape[axis]
    if asking.draws.chance(0.5) and isinstance(part, int):
        count = asking.draws.between(2, 3)  # of one section TVM makes no tuple
        source = _with(target, axis, part * count)
        told: dict[str, Json] = {"indices_or_sections": number(count).item, "axis": axis}
        fields = Fields((target,) * count)
        return Call((Want(source),), fields, ("SplitAttrs", told), at=asking.draws.below(count))
    if not isinstance(part, int):
        return None
    before, after = (asking.draws.between(1, 4) for _ in range(2))
    if not part:
        return None
    source = _with(target, axis, before + part + after)
    fields = Fields(tuple(_with(target, axis, size) for size in (before, part, after)))
    told = {"indices_or_sections": [number(place).item for place in (before, before + part)], "axis": axis}
    return Call((Want(source),), fields, ("SplitAttrs", told), at=1)


def _tile(asking: Asking, target: Tensor) -> Call:
    shape: list[Dim] = []
    repeats: list[int] = []
    for dim in target.shape:
        fitting = [each for each in (1, 2, 3) if isinstance(dim, int) and dim % each == 0]
        repeats.append(asking.draws.pick(fitting or [1]))
        shape.append(dim // repeats[-1] if isinstance(dim, int) else dim)
    if shape and shape[0] == 1 and asking.draws.chance(0.3):
        shape = shape[1:]
    return Call((Want(target.shaped(*shape)),), target, ("TileAttrs", {"repeats": repeats}))


def _repeat(asking: Asking, target: Tensor) -> Call | None:
    axis = asking.draws.below(target.rank)
    dim = target.shape[axis]
    if not isinstance(dim, int):
        return None
    count = asking.draws.pick([each for each in (1, 2, 3) if dim % each == 0])
    told = {"repeats": count, "axis": asking.axis(axis, target.rank)}
    return Call((Want(_with(target, axis, dim // count)),), target, ("RepeatAttrs", told))


def _flip(asking: Asking, target: Tensor) -> Call:
    axis = asking.axis(asking.draws.below(target.rank), target.rank)
    return Call((Want(target),), target, ("FlipAttrs", {"axis": axis}))


def _reverse(asking: Asking, target: Tensor) -> Call | None:
    seq, batch = asking.draws.sample(range(target.rank), 2)
    rows, most = target.shape[batch], target.shape[seq]
    if not isinstance(rows, int) or not isinstance(most, int):
        return None
    lengths = np.array([asking.draws.between(min(1, most), most) for _ in range(rows)], "int32")
    told = {"seq_axis": seq, "batch_axis": batch}
    return Call((Want(target), Given(lengths)), target, ("ReverseSequenceAttrs", told))


def _slice(asking: Asking, target: Tensor) -> Call | None:
    chosen = [at for at, dim in enumerate(target.shape) if isinstance(dim, int)]
    if not chosen:
        return None
    axes = sorted(asking.draws.sample(chosen, asking.draws.between(1, min(2, len(chosen)))))
    shape, cuts = list(target.shape), []
    for axis in axes:
        size = int(target.shape[axis])
        step, first = asking.amount((1, 1, 2), 16), asking.amount((0, 1, 2), 16)
        last = first + (size - 1) * step + 1 if size else first
        cuts.append((first, last, step))
        shape[axis] = last + asking.draws.below(3)
    told = [numbers(each) for each in zip(*cuts, strict=True)]
    if all(step == 1 for _, _, step in cuts) and asking.draws.chance(0.4):
        told = told[:2]
    args: tuple[Argument, ...] = (Want(target.shaped(*shape)), numbers(axes), *told)
    return Call(args, target, ("StridedSliceAttrs", {"assume_inbound": asking.draws.chance(0.3)}))


def _slice_scatter(asking: Asking, target: Tensor) -> Call | None:
    axis = asking.sized_axis(target.shape)
    if axis is None:
        return None
    size = int(target.shape[axis])
    first = asking.draws.below(size)
    last, step = asking.draws.between(first + 1, size), asking.amount((1, 1, 2), 16)
    source = _with(target, axis, -(-(last - first) // step))
    args: tuple[Argument, ...] = (Want(target), Want(source), *map(number, (first, last, step)))
    return Call(args, target, ("SliceScatterAttrs", {"axis": asking.axis(axis, target.rank)}))


def _pad(asking: Asking, target: Tensor) -> Call | None:
    mode = asking.draws.pick(["constant", "constant", "reflect", "replicate"])
    widths, shape = [], []
    for dim in target.shape:
        room = max(0, dim - 1) if isinstance(dim, int) else 0
        before = asking.amount(range(min(2, room) + 1), room)
        after = asking.amount(range(min(2, room - before) + 1), room - before)
        if not isinstance(dim, int) and mode == "constant" and asking.draws.chance(0.3):
            before = after = 0
        inner = dim - before - after if isinstance(dim, int) else dim
        if isinstance(inner, int) and mode == "reflect" and max(before, after) >= inner:
            return None
        widths += [before, after]
        shape.append(inner)
    values = [0.0, 1.0] if target.dtype == "bool" else [0.0, 1.0, 2.0]
    value = asking.draws.pick(values) if mode == "constant" else 0.0
    told = {"pad_width": widths, "pad_value": value, "pad_mode": mode}
    return Call((Want(target.shaped(*shape)),), target, ("PadAttrs", told))


def _shuffle(asking: Asking, target: Tensor) -> Call | None:
    *lead, channels, height, width = target.shape
    if not (isinstance(height, int) and isinstance(width, int)) or height % 2 or width % 2:
        return None
    if not isinstance(channels, int):  # TVM 0.27 dies of these in its inference: see corpus/regressions
        return None
    shape = (*lead, times(channels, 4), height // 2, width // 2)
    return Call((Want(target.shaped(*shape)),), target, ("PixelShuffleAttrs", {"upscale_factor": 2}))


def _collapsible(asking: Asking, target: Tensor) -> Want:
    """An operand of a shape that the target broadcasts to."""
    shape = [asking.dim() if dim == 1 else dim for dim in target.shape]
    if len(shape) < asking.most_rank and asking.draws.chance(0.6):
        shape = [asking.dim(), *shape]
    return Want(target.shaped(*shape), Within(-2.0, 2.0))


def _collapse_to(asking: Asking, target: Tensor) -> Call:
    return Call((_collapsible(asking, target), shape_literal(target.shape)), target)


def _collapse_like(asking: Asking, target: Tensor) -> Call:
    return Call((_collapsible(asking, target), Want(target)), target)


def _meshgrid(asking: Asking, target: Tensor) -> Call:
    wants = Group(tuple(Want(target.shaped(dim)) for dim in target.shape))
    result, at = Fields((target,) * target.rank), asking.draws.below(target.rank)
    return Call((wants,), result, ("MeshgridAttrs", {"indexing": "ij"}), at)


def _same(asking: Asking, target: Tensor) -> Call:
    return Call((Want(target, is_named=True),), target)


def _layout_transform(asking: Asking, target: Tensor) -> Call:
    """Two dims of the target are the quotient and the remainder of one, which may lack a few at its end."""
    draws = asking.draws
    shape = tuple(size_of(dim, {}) for dim in target.shape)
    outer, inner = draws.sample(range(target.rank), 2)
    factor = shape[inner]
    lacking = draws.below(factor) if shape[outer] > 1 and draws.chance(0.4) else 0
    order = draws.sample([at for at in range(target.rank) if at != inner], target.rank - 1)
    sizes = tuple(shape[at] * factor - lacking if at == outer else shape[at] for at in order)
    texts = {at: f"i{at}" for at in order} | {outer: f"i{outer} // {factor}", inner: f"i{outer} % {factor}"}
    results = [texts[at] for at in range(target.rank)]
    filled: Json = {"prim": [target.dtype, 1.0 if target.is_float else 1]} if lacking else None
    told = {"index_map": {"axes": [f"i{at}" for at in order], "results": results}, "pad_value": filled}
    return Call((Want(target.shaped(*sizes)),), target, ("LayoutTransformAttrs", told))


_ANY = Likely.ANYTHING
OPERATORS = (
    Operator("relax.reshape", _ranked, _reshape, _ANY, ranks=(1, 4), weight=2.0),
    Operator("relax.permute_dims", _ranked, _permute, _ANY, ranks=(1, 4), weight=2.0),
    Operator("relax.expand_dims", lambda told: 1 in told.shape, _expand, _ANY, ranks=(1, 4)),
    Operator("relax.squeeze", ranked(0, 3), _squeeze, _ANY, ranks=(0, 3)),
    Operator("relax.flatten", ranked(1, 1), _flatten, _ANY, ranks=(1, 1)),
    Operator("relax.nn.batch_flatten", ranked(2, 2), _batch_flatten, ranks=(2, 2)),
    Operator("relax.broadcast_to", _ranked, _broadcast, _ANY, ranks=(1, 4)),
    Operator("relax.concat", _ranked, _concat, _ANY, ranks=(1, 4), weight=2.0),
    Operator("relax.stack", _ranked, _stack, _ANY, ranks=(1, 4)),
    Operator("relax.split", _ranked, _split, _ANY, ranks=(1, 4), weight=2.0),
    Operator("relax.tile", _ranked, _tile, _ANY, ranks=(1, 4)),
    Operator("relax.repeat", _ranked, _repeat, _ANY, ranks=(1, 4)),
    Operator("relax.flip", _ranked, _flip, _ANY, ranks=(1, 4)),
    Operator("relax.reverse_sequence", ranked(2), _reverse, ranks=(2, 3), weight=0.5),
    Operator("relax.strided_slice", _is_static, _slice, _ANY, ranks=(1, 4), weight=2.0),
    Operator("relax.slice_scatter", _is_static, _slice_scatter, ranks=(1, 3)),
    Operator("relax.nn.pad", _ranked, _pad, ranks=(1, 4), weight=1.5),
    Operator("relax.nn.pixel_shuffle", ranked(3), _shuffle, ranks=(3, 4), weight=0.02),
    Operator("relax.collapse_sum_to", is_float, _collapse_to, ranks=(0, 3), weight=0.5),
    Operator("relax.collapse_sum_like", is_float, _collapse_like, ranks=(0, 3), weight=0.5),
    Operator("relax.meshgrid", ranked(2), _meshgrid, ranks=(2, 3), weight=0.5),
    Operator(
        "relax.layout_transform",
        all_of(ranked(2), is_filled, is_number),
        _layout_transform,
        Likely.NUMBER,
        (2, 4),
    ),
    Operator("relax.memory.ensure_zero_offset", anything, _same, _ANY, weight=0.3),
    *(
        Operator(f"relax.grad.{name}", is_float, _same, weight=0.2)
        for name in ("no_grad", "start_checkpoint", "end_checkpoint")
    ),
)
