"""Lowerings to jax of operators that move, pick and shape elements."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

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
from oracles.worker.xla.traced import TracedOp


def _one_hot(op: TracedOp) -> Function:
    depth, rank = int(op.item(1)), op.values[0].ndim + 1
    axis = op.get("axis") % rank

    def run(indices: Any, size: Any, pair: Any) -> Any:
        places = jnp.arange(depth).reshape([-1 if i == axis else 1 for i in range(rank)])
        hit = jnp.expand_dims(wrapped(indices, depth), axis) == places
        return jnp.where(hit, pair[1], pair[0])

    return run


def _sequence_range(op: TracedOp) -> Function:
    start, limit, delta = (op.item(place) for place in range(3))
    count = max(math.ceil((limit - start) / delta), 0)
    return lambda a, b, c: jnp.reshape(a, ()) + jnp.arange(count, dtype=a.dtype) * jnp.reshape(c, ())


def _transpose(op: Op) -> Function:
    order = op.get("perm") or tuple(reversed(range(op.values[0].ndim)))
    return lambda x: jnp.transpose(x, tuple(order))


def _squeeze(op: Op) -> Function:
    axes = op.numbers(1, "axes")
    return lambda x, *rest: jnp.squeeze(x, None if axes is None else tuple(axes))


def _unsqueeze(op: Op) -> Function:
    axes = op.numbers(1, "axes") or []
    return lambda x, *rest: jnp.expand_dims(x, tuple(axes))


def _flatten(op: Op) -> Function:
    shape, axis = op.values[0].shape, op.get("axis")
    axis = axis + len(shape) if axis < 0 else axis
    return lambda x: jnp.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _reshape(op: Op) -> Function:
    sizes = wanted_sizes(op)
    left = math.prod(size for size in sizes if size != -1)
    count = math.prod(op.values[0].shape)
    sizes = [(count // left if left else 0) if size == -1 else size for size in sizes]
    return lambda x, *rest: jnp.reshape(x, sizes)


def _split(op: Op) -> Function:
    axis = op.get("axis")
    ends = np.cumsum(split_sizes(op, axis))
    return lambda x, *rest: tuple(jnp.split(x, ends[:-1], axis))


def _cut(op: Op) -> Function:
    places = slices(op)

    def run(x: Any, *rest: Any) -> Any:
        for axis, (start, end, step) in places:
            if step > 0:
                x = lax.slice_in_dim(x, start, max(start, end), step, axis)
            else:
                count = len(range(start, end, step))
                last = start + (count - 1) * step
                taken = (last, start + 1, -step) if count else (0, 0, 1)
                x = lax.rev(lax.slice_in_dim(x, *taken, axis), (axis,))
        return x

    return run


def wrapped(indices: Any, size: int) -> Any:
    """Count negative indices from the end, as int64."""
    indices = indices.astype(jnp.int64)
    return jnp.where(indices < 0, indices + size, indices)


def _gather(op: Op) -> Function:
    axis = op.get("axis")
    return lambda x, indices: jnp.take(x, wrapped(indices, x.shape[axis]), axis, mode="clip")


def _gather_elements(op: Op) -> Function:
    axis = op.get("axis") % op.values[0].ndim
    return lambda x, indices: x[points(x, indices, axis)]


def points(x: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """Indices along one axis, at their own places along the others."""
    own = [lax.broadcasted_iota(jnp.int64, indices.shape, i) for i in range(indices.ndim)]
    return tuple(wrapped(indices, x.shape[axis]) if i == axis else each for i, each in enumerate(own))


def _gather_nd(op: Op) -> Function:
    batch = op.get("batch_dims", 0)

    def run(x: Any, indices: Any) -> Any:
        rank = indices.ndim - 1
        own = [lax.broadcasted_iota(jnp.int64, indices.shape[:-1], i) for i in range(batch)]
        last = [wrapped(indices[..., i], x.shape[batch + i]) for i in range(indices.shape[-1])]
        assert rank >= batch
        return x[(*own, *last)]

    return run


UPDATES = {b"none": "set", b"add": "add", b"mul": "multiply", b"max": "max", b"min": "min"}


def _scatter_elements(op: Op) -> Function:
    axis, kind = op.get("axis") % op.values[0].ndim, UPDATES[op.get("reduction", b"none")]
    return lambda x, indices, new: getattr(jnp.asarray(x).at[points(x, indices, axis)], kind)(new)


def _scatter_nd(op: Op) -> Function:
    kind = UPDATES[op.get("reduction", b"none")]

    def run(x: Any, indices: Any, new: Any) -> Any:
        places = tuple(wrapped(indices[..., i], x.shape[i]) for i in range(indices.shape[-1]))
        return getattr(jnp.asarray(x).at[places], kind)(new)

    return run


def _expand(op: Op) -> Function:
    sizes = np.broadcast_shapes(op.values[0].shape, tuple(op.numbers(1) or ()))
    return lambda x, *rest: jnp.broadcast_to(x, sizes)


def _pad(op: TracedOp) -> Function:
    shape = op.values[0].shape
    pads = op.numbers(1, "pads") or []
    axes = [axis % len(shape) for axis in op.numbers(3) or range(len(shape))]
    mode = op.get("mode").decode()
    both = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    if mode == "constant":
        edges = [(*both.get(axis, (0, 0)), 0) for axis in range(len(shape))]

        def fill(x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
            number = op.get("value", 0) if value is None else jnp.reshape(value, ())
            return lax.pad(x, jnp.asarray(number, x.dtype), edges)

        return fill
    op.must(min(pads, default=0) >= 0, f"negative pads in mode {mode}")
    places = {axis: np.array(padded(shape[axis], *both[axis], mode), np.int64) for axis in both}

    def run(x: Any, *rest: Any) -> Any:
        for axis, indices in places.items():
            x = jnp.take(x, indices, axis)
        return x

    return run


def _shape(op: Op) -> Function:
    chosen = list(op.values[0].shape)[op.get("start", 0) : op.get("end")]
    return lambda x: np.array(chosen, np.int64)


def _filled(op: Op) -> Function:
    sizes, value = op.numbers(0) or [], op.get("value")
    value = np.zeros(1, np.float32) if value is None else value
    return lambda *rest: jnp.full(sizes, value.reshape(-1)[0], value.dtype)


def _triangle(op: TracedOp) -> Function:
    function, offset = jnp.triu if op.get("upper") else jnp.tril, int(op.item(1, 0))
    return lambda x, *rest: function(x, offset)


def _constant(op: Op) -> Function:
    forms = {"value": None, "value_float": "f4", "value_floats": "f4", "value_int": "i8", "value_ints": "i8"}
    name = next((name for name in forms if op.get(name) is not None), "")
    op.must(bool(name), "this form of value")
    value = op.get(name)
    op.must(not isinstance(value, np.ndarray) or value.dtype.kind not in "OUS", "strings")
    found = value if name == "value" else np.array(value, forms[name])
    return lambda: found


LAYOUT: dict[str, Lowering] = {
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Flatten": _flatten,
    "Concat": lambda op: lambda *parts: jnp.concatenate(parts, op.get("axis")),
    "Split": _split,
    "Slice": _cut,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Expand": _expand,
    "Tile": lambda op: lambda x, *rest: jnp.tile(x, op.numbers(1)),
    "Pad": _pad,
    "Shape": _shape,
    "Size": plain(lambda x: np.array(x.size, np.int64)),
    "ConstantOfShape": _filled,
    "Trilu": _triangle,
    "Constant": _constant,
    "DepthToSpace": lambda op: depth_to_space(op, jnp.reshape, jnp.transpose),
    "OneHot": _one_hot,
    "Range": _sequence_range,
}
