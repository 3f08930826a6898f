"""Lowerings of operators that move, pick and shape elements."""

import math
from typing import Any

import torch
import torch.nn.functional as F

from oracles.worker.onnx import (
    Function,
    Lowering,
    Op,
    depth_to_space,
    padded,
    plain,
    slices,
    split_sizes,
    wanted_sizes,
)


def _one_hot(op: Op) -> Function:
    (depth,) = op.numbers(1) or [0]
    axis, rank = op.get("axis", -1), op.values[0].dim() + 1
    axis = axis % rank

    def run(indices: Any, size: Any, pair: Any) -> Any:
        places = torch.arange(int(depth)).reshape([-1 if i == axis else 1 for i in range(rank)])
        hit = torch.unsqueeze(wrapped(indices, int(depth)), axis) == places
        return torch.where(hit, pair[1], pair[0])

    return run


def _sequence_range(op: Op) -> Function:
    start, limit, delta = (value.item() for value in op.values)
    dtype, count = op.values[0].dtype, max(math.ceil((limit - start) / delta), 0)
    return lambda a, b, c: (a + torch.arange(count, dtype=dtype) * c).to(dtype)


def _scatter_nd(op: Op) -> Function:
    op.must(op.get("reduction", b"none") == b"none", "a reduction")

    def run(x: Any, indices: Any, new: Any) -> Any:
        rest = x.shape[indices.shape[-1] :]
        return torch.index_put(x, listed(indices), torch.reshape(new, (math.prod(indices.shape[:-1]), *rest)))

    return run


def _reshape(op: Op) -> Function:
    sizes = wanted_sizes(op)
    return lambda x, *rest: torch.reshape(x, sizes)


def _transpose(op: Op) -> Function:
    order = op.get("perm") or tuple(reversed(range(op.values[0].dim())))
    return lambda x: torch.permute(x, tuple(order))


def _squeeze(op: Op) -> Function:
    axes = op.numbers(1, "axes")
    return lambda x, *rest: torch.squeeze(x) if axes is None else torch.squeeze(x, tuple(axes))


def _unsqueeze(op: Op) -> Function:
    axes = op.numbers(1, "axes") or []
    rank = op.values[0].dim() + len(axes)
    places = sorted(axis % rank for axis in axes)

    def run(x: Any, *rest: Any) -> Any:
        for place in places:
            x = torch.unsqueeze(x, place)
        return x

    return run


def _flatten(op: Op) -> Function:
    x = op.values[0]
    axis = op.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    sizes = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return lambda x: torch.reshape(x, sizes)


def _split(op: Op) -> Function:
    axis = op.get("axis", 0)
    sizes = split_sizes(op, axis)
    return lambda x, *rest: torch.split(x, sizes, axis)


def cut(op: Op) -> Function:
    """Slice; steps backwards, which torch's own slices do not take, by index."""
    places = slices(op)

    def run(x: Any, *rest: Any) -> Any:
        for axis, (start, end, step) in places:
            if step > 0:
                x = x[(slice(None),) * axis + (slice(start, max(start, end), step),)]
            else:
                x = torch.index_select(x, axis, torch.arange(start, end, step) if end < start else NOWHERE)
        return x

    return run


NOWHERE = torch.zeros(0, dtype=torch.int64)


def wrapped(indices: Any, size: int) -> Any:
    """Count negative indices from the end, as int64."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)


def _gather(op: Op) -> Function:
    axis = op.get("axis", 0) % op.values[0].dim()

    def run(x: Any, indices: Any) -> Any:
        found = torch.index_select(x, axis, wrapped(indices, x.shape[axis]).reshape(-1))
        return torch.reshape(found, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    return run


def _gather_elements(op: Op) -> Function:
    axis = op.get("axis", 0)
    return lambda x, indices: torch.gather(x, axis, wrapped(indices, x.shape[axis]))


def _gather_nd(op: Op) -> Function:
    op.must(op.get("batch_dims", 0) == 0, "batch_dims")

    def run(x: Any, indices: Any) -> Any:
        depth = indices.shape[-1]
        found = x[listed(indices)]
        return torch.reshape(found, (*indices.shape[:-1], *x.shape[depth:]))

    return run


def listed(indices: Any) -> tuple[Any, ...]:
    """Indices by axis, each of one dim: torch reads a scalar as a number that decides the program."""
    depth = indices.shape[-1]
    count = math.prod(indices.shape[:-1])
    return tuple(torch.unbind(torch.reshape(indices.to(torch.int64), (count, depth)), -1))


SCATTERED_BY = {b"add": "sum", b"mul": "prod", b"max": "amax", b"min": "amin"}


def _scatter_elements(op: Op) -> Function:
    axis, kind = op.get("axis", 0), SCATTERED_BY.get(op.get("reduction", b"none"))
    if kind is None:
        return lambda x, indices, new: torch.scatter(x, axis, wrapped(indices, x.shape[axis]), new)
    return lambda x, indices, new: torch.scatter_reduce(
        x, axis, wrapped(indices, x.shape[axis]), new, kind, include_self=True
    )


def _expand(op: Op) -> Function:
    sizes = torch.broadcast_shapes(op.values[0].shape, op.numbers(1) or ())
    return lambda x, *rest: x.expand(sizes)


def _pad(op: Op) -> Function:
    x = op.values[0]
    pads = op.numbers(1, "pads") or []
    axes = [axis % x.dim() for axis in op.numbers(3) or range(x.dim())]
    mode = op.get("mode", b"constant").decode()
    fill = op.values[2].item() if op.has(2) else op.get("value", 0)
    both = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    if mode == "constant":
        order = [size for axis in reversed(range(x.dim())) for size in both.get(axis, (0, 0))]
        return lambda x, *rest: F.pad(x, order, "constant", fill)
    op.must(min(pads, default=0) >= 0, f"negative pads in mode {mode}")
    places = {axis: padded(x.shape[axis], *both[axis], mode) for axis in both}

    def run(x: Any, *rest: Any) -> Any:
        for axis, indices in places.items():
            x = torch.index_select(x, axis, torch.tensor(indices, dtype=torch.int64))
        return x

    return run


def _shape(op: Op) -> Function:
    chosen = list(op.values[0].shape)[op.get("start", 0) : op.get("end")]
    return lambda x: torch.tensor(chosen, dtype=torch.int64)


def _filled(op: Op) -> Function:
    sizes, value = op.numbers(0) or [], op.get("value")
    dtype, number = (value.dtype, value.item()) if value is not None else (torch.float32, 0.0)
    return lambda *rest: torch.full(sizes, number, dtype=dtype)


def _triangle(op: Op) -> Function:
    (offset,) = op.numbers(1) or [0]
    function = torch.triu if op.get("upper", 1) else torch.tril
    return lambda x, *rest: function(x, offset)


def _constant(op: Op) -> Function:
    op.must(op.get("value") is not None, "this form of value")
    value = op.get("value")
    return lambda: value.clone()


LAYOUT: dict[str, Lowering] = {
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Flatten": _flatten,
    "Concat": lambda op: lambda *parts: torch.cat(parts, op.get("axis")),
    "Split": _split,
    "Slice": cut,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "Expand": _expand,
    "Tile": lambda op: lambda x, *rest: x.repeat(op.numbers(1) or []),
    "Pad": _pad,
    "Shape": _shape,
    "Size": plain(lambda x: torch.tensor(x.numel(), dtype=torch.int64)),
    "ConstantOfShape": _filled,
    "Trilu": _triangle,
    "Constant": _constant,
    "DepthToSpace": lambda op: depth_to_space(op, torch.reshape, torch.permute),
    "OneHot": _one_hot,
    "Range": _sequence_range,
    "ScatterND": _scatter_nd,
}
