"""What moves, repeats, makes or indexes elements and computes none, and quantisation."""

import math
import re
from typing import Any, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.relax_reference.rule import (
    Args,
    Attrs,
    LeftOpen,
    NotKnown,
    Rules,
    axes_of,
    axis_of,
    element,
    evaluated,
    places_in,
    plain,
)


def _take(args: Args, attrs: Attrs) -> Any:
    x, indices = args
    axis, mode = attrs["axis"], attrs["mode"]
    if not isinstance(indices, np.ndarray):
        indices = np.asarray(indices)
    size = x.size if axis is None else x.shape[axis]
    if mode == "nan":
        raise NotKnown("a take that gives NaN")
    if mode == "fast":
        places_in([size], [indices])
    return np.take(x, indices, axis, mode="raise" if mode == "fast" else mode)


def _gather_elements(args: Args, attrs: Attrs) -> Any:
    x, indices = args
    return x[along(x, indices, attrs["axis"])]


def along(x: Any, indices: Any, axis: Any) -> tuple[Any, ...]:
    """Indices along one axis, at their own places along the others."""
    axis = axis_of(axis, x.ndim)
    grid = list(np.indices(indices.shape))
    grid[axis] = places_in([x.shape[axis]], [indices])[0]
    return tuple(grid)


def _gather_nd(args: Args, attrs: Attrs) -> Any:
    x, indices = args
    batch = attrs["batch_dims"]
    places = np.moveaxis(indices, -1, 0)
    if not batch:
        return x[places_in(x.shape, list(places))]
    lead = np.indices(indices.shape[:-1])[:batch]
    return x[(*lead, *places)]


COMBINED = {"add": np.add.at, "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at}


def scattered(x: Any, index: Any, updates: Any, reduction: str) -> Any:
    """Write updates at an index, put or combined as the reduction says. Raises NotKnown for another one."""
    found = x.copy()
    if reduction == "update":
        found[index] = updates
    elif reduction in COMBINED:
        COMBINED[reduction](found, index, updates)
    else:
        raise NotKnown(f"a scatter that does {reduction}")
    return found


def _scatter_elements(args: Args, attrs: Attrs) -> Any:
    x, indices, updates = args
    return scattered(x, along(x, indices, attrs["axis"]), updates, attrs["reduction"])


def _scatter_nd(args: Args, attrs: Attrs) -> Any:
    x, indices, updates = args
    places = places_in(x.shape, list(np.moveaxis(indices, -1, 0)))
    return scattered(x, places, updates, attrs["reduction"])


def index_tensor(x: Any, indices: Any) -> Any:
    """Index by tensors, as numpy's advanced indexing does."""
    return x[places_in(x.shape, list(indices))]


def _index_put(args: Args, attrs: Attrs) -> Any:
    x, indices, values = args
    places = places_in(x.shape, list(indices))
    return scattered(x, places, values, "add" if attrs["accumulate"] else "update")


def _bucketize(args: Args, attrs: Attrs) -> Any:
    x, boundaries = args
    found = np.searchsorted(boundaries, x, side="right" if attrs["right"] else "left")
    return np.asarray(found).astype("int32" if attrs["out_int32"] else "int64")


def nonzero(x: Any) -> Any:
    """Give the places of what is not zero: int64 [rank, count]."""
    return np.array(np.nonzero(x), np.int64).reshape(max(x.ndim, 1), -1)


def unique(x: Any, is_sorted: Any, *others: Any) -> Any:
    """The different elements in order; NotKnown for another order, axes and further results."""
    if not is_sorted or any(others):
        raise NotKnown("a form of unique")
    return np.unique(x)


def _spread(value: Any, x: Any, axis: int) -> Any:
    if not np.ndim(value):
        return value
    shape = [1] * x.ndim
    shape[axis] = value.size
    return value.reshape(shape)


def _quantize(args: Args, attrs: Attrs) -> Any:
    x, scale, zero = args
    kind: Any = np.dtype(attrs["out_dtype"])
    limit = np.iinfo(kind)
    found = np.rint(x / _spread(scale, x, attrs["axis"])) + _spread(zero, x, attrs["axis"])
    return np.clip(found, limit.min, limit.max).astype(kind)


def _dequantize(args: Args, attrs: Attrs) -> Any:
    x, scale, zero = args
    shifted = x.astype(np.int64) - np.asarray(_spread(zero, x, attrs["axis"])).astype(np.int64)
    return (shifted * _spread(scale, x, attrs["axis"])).astype(element(attrs["out_dtype"]))


def _take_backward(args: Args, attrs: Attrs) -> Any:
    gradient, x, indices = args
    found = np.zeros_like(x)
    if attrs["axis"] is None:
        np.add.at(found.reshape(-1), indices, gradient)
        return found
    at = np.moveaxis(found, attrs["axis"], 0)
    axis = axis_of(attrs["axis"], x.ndim)
    moved = np.moveaxis(gradient, range(axis, axis + indices.ndim), range(indices.ndim))
    np.add.at(at, indices, moved)
    return found


def reshape(x: Any, shape: Any) -> Any:
    """A 0 copies the dim that stands there. Raises LeftOpen for another number of elements."""
    sizes = [x.shape[at] if size == 0 and x.size and at < x.ndim else size for at, size in enumerate(shape)]
    try:
        return x.reshape(sizes)
    except ValueError:
        raise LeftOpen("a shape of another number of elements") from None


def _permute(args: Args, attrs: Attrs) -> Any:
    (x,), axes = args, attrs["axes"]
    return np.transpose(x, None if axes is None else axes_of(axes, x.ndim))


def _squeeze(args: Args, attrs: Attrs) -> Any:
    return np.squeeze(args[0], None if attrs["axis"] is None else axes_of(attrs["axis"], args[0].ndim))


def _concat(args: Args, attrs: Attrs) -> Any:
    parts = list(args[0])
    if attrs["axis"] is None:
        return np.concatenate([each.reshape(-1) for each in parts])
    return np.concatenate(parts, attrs["axis"])


def _split(args: Args, attrs: Attrs) -> Any:
    told = attrs["indices_or_sections"]
    return tuple(
        np.split(args[0], told if isinstance(told, int) else [int(each) for each in told], attrs["axis"])
    )


def _reverse_sequence(args: Args, attrs: Attrs) -> Any:
    x, lengths = args
    seq, batch = axis_of(attrs["seq_axis"], x.ndim), axis_of(attrs["batch_axis"], x.ndim)
    found = np.moveaxis(x, (batch, seq), (0, 1)).copy()
    for row, length in enumerate(lengths):
        found[row, :length] = found[row, :length][::-1]
    return np.moveaxis(found, (0, 1), (batch, seq))


def _strided_slice(args: Args, attrs: Attrs) -> Any:
    x, axes, begin, end = args[:4]
    strides = args[4] if len(args) > 4 else (1,) * len(axes)
    cut = [slice(None)] * x.ndim
    for axis, first, last, step in zip(axes, begin, end, strides):  # noqa: B905 (Python 3.8)
        if step < 0:
            raise NotKnown("a slice backwards")
        cut[axis_of(int(axis), x.ndim)] = slice(int(first), int(last), int(step))
    return x[tuple(cut)]


def dynamic_strided_slice(x: Any, begin: Any, end: Any, strides: Any) -> Any:
    """Slice all axes by bounds that are tensors."""
    return _strided_slice((x, range(x.ndim), begin, end, strides), {})


def _slice_scatter(args: Args, attrs: Attrs) -> Any:
    x, source, start, end, step = args
    found = x.copy()
    cut = [slice(None)] * x.ndim
    cut[axis_of(attrs["axis"], x.ndim)] = slice(int(start), int(end), int(step))
    found[tuple(cut)] = source
    return found


def _pad(args: Args, attrs: Attrs) -> Any:
    widths = list(zip(attrs["pad_width"][::2], attrs["pad_width"][1::2]))  # noqa: B905 (Python 3.8)
    mode = attrs["pad_mode"]
    if mode == "constant":
        return np.pad(args[0], widths, constant_values=np.asarray(attrs["pad_value"]).astype(args[0].dtype))
    if mode not in ("reflect", "replicate", "circular"):
        raise NotKnown(f"padding of mode {mode}")
    names: Any = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return np.pad(args[0], widths, mode=names[mode])


def _pixel_shuffle(args: Args, attrs: Attrs) -> Any:
    (x,), factor = args, attrs["upscale_factor"]
    *lead, channels, height, width = x.shape
    split = x.reshape(*lead, channels // factor**2, factor, factor, height, width)
    count = len(lead)
    order = [*range(count), count, count + 3, count + 1, count + 4, count + 2]
    return split.transpose(order).reshape(*lead, channels // factor**2, height * factor, width * factor)


def collapse_sum(x: Any, shape: Sequence[int]) -> Any:
    """The sum that undoes a broadcast from the shape."""
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead)))
    ones = tuple(at for at, size in enumerate(shape) if size == 1 and x.shape[at] != 1)
    return x.sum(axis=ones, keepdims=True) if ones else x


def filled(value: int) -> Any:
    """Make the rule of an operator that fills a shape with one value."""
    return lambda args, attrs: np.full(tuple(args[0]), value, element(attrs["dtype"]))


def element_or(x: Any, attrs: Attrs) -> Any:
    """The element type that is asked for, or that of a value."""
    return element(attrs["dtype"]) if attrs["dtype"] else x.dtype


def like(value: int) -> Any:
    """Make the rule of an operator that fills the shape of a tensor with one value."""
    return lambda args, attrs: np.full(args[0].shape, value, element_or(args[0], attrs))


def _eye(args: Args, attrs: Attrs) -> Any:
    return np.eye(int(args[0]), int(args[1]), int(args[2]), element(attrs["dtype"]))


def _eye_like(args: Args, attrs: Attrs) -> Any:
    rows, columns = args[0].shape
    return np.eye(rows, columns, int(args[1]), element_or(args[0], attrs))


def _hamming_window(args: Args, attrs: Attrs) -> Any:
    size, is_periodic, alpha, beta = args
    count = size if is_periodic else size - 1
    if count == 0:
        return np.ones(int(size))
    return alpha - beta * np.cos(2 * np.pi * np.arange(size) / count)


def _one_hot(args: Args, attrs: Attrs) -> Any:
    indices, on, off = args
    kind = np.float64 if isinstance(on, float) else np.int64
    is_hot = np.asarray(indices[..., None] == np.arange(attrs["depth"]))
    found = np.asarray(np.where(is_hot, on, off)).astype(kind)
    return np.moveaxis(found, -1, attrs["axis"])


def same(x: Any) -> Any:
    """The operand: a change of layout or device changes no value."""
    return x


def layout_transform(args: Args, attrs: Attrs) -> Any:
    """Move each element to the place that an index map gives; `pad_value` where none comes."""
    (x,) = args
    told = attrs["index_map"]
    axes = dict(zip(told["axes"], np.indices(x.shape)))  # noqa: B905 (Python 3.8)
    places = tuple(evaluated(each, axes) for each in told["results"])
    found = np.full([int(each.max()) + 1 for each in places], attrs["pad_value"] or 0, x.dtype)
    found[places] = x
    return found


def view(args: Args, attrs: Attrs) -> Any:
    """The elements of a tensor of the same dtype from a byte on."""
    x, shape, dtype, offset = args
    bits = re.sub(r"\D", "", dtype) if isinstance(dtype, str) and element(dtype) == x.dtype else ""
    if not bits:
        raise NotKnown("a view of unknown or of another dtype")
    first = int(offset) // (int(bits) // 8)
    return x.reshape(-1)[first : first + math.prod(shape)].reshape(tuple(shape))


_DTYPE_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's."""


def _bits(x: Any) -> Any:
    if x.dtype.kind not in "iu":
        raise NotKnown("how wide a float is that the reference holds in float64")
    return np.asarray(x.dtype.itemsize * 8, np.uint8)


RULES: Rules = {
    "relax.bucketize": _bucketize,
    "relax.dequantize": _dequantize,
    "relax.gather_elements": _gather_elements,
    "relax.gather_nd": _gather_nd,
    "relax.grad.take_backward": _take_backward,
    "relax.index_put": _index_put,
    "relax.index_tensor": plain(index_tensor),
    "relax.nonzero": plain(nonzero),
    "relax.unique": plain(unique),
    "relax.quantize": _quantize,
    "relax.scatter_elements": _scatter_elements,
    "relax.scatter_nd": _scatter_nd,
    "relax.take": _take,
    "relax.arange": lambda args, attrs: np.arange(*args[:3]).astype(element(attrs["dtype"])),
    "relax.broadcast_to": plain(lambda x, shape: np.broadcast_to(x, tuple(shape))),
    "relax.collapse_sum_like": plain(lambda x, target: collapse_sum(x, target.shape)),
    "relax.collapse_sum_to": plain(lambda x, shape: collapse_sum(x, tuple(shape))),
    "relax.concat": _concat,
    "relax.dynamic_strided_slice": plain(dynamic_strided_slice),
    "relax.expand_dims": lambda args, attrs: np.expand_dims(
        args[0], axes_of(attrs["axis"], args[0].ndim + len(attrs["axis"]))
    ),
    "relax.eye": _eye,
    "relax.eye_like": _eye_like,
    "relax.flatten": plain(lambda x: x.reshape(-1)),
    "relax.flip": lambda args, attrs: np.flip(args[0], attrs["axis"]),
    "relax.full": lambda args, attrs: np.full(tuple(args[0]), args[1], element_or(args[1], attrs)),
    "relax.full_like": lambda args, attrs: np.full(args[0].shape, args[1], element_or(args[0], attrs)),
    "relax.grad.end_checkpoint": plain(same),
    "relax.grad.no_grad": plain(same),
    "relax.grad.start_checkpoint": plain(same),
    "relax.hamming_window": _hamming_window,
    "relax.inspect.tensor_byte_offset": plain(lambda x: np.asarray(0, np.uint64)),
    "relax.inspect.tensor_dtype_bits": plain(_bits),
    "relax.inspect.tensor_dtype_code": plain(lambda x: np.asarray(_DTYPE_CODES[x.dtype.kind], np.uint8)),
    "relax.inspect.tensor_dtype_lanes": plain(lambda x: np.asarray(1, np.uint16)),
    "relax.inspect.tensor_elem_offset": plain(lambda x: np.asarray(0, np.uint64)),
    "relax.inspect.tensor_ndim": plain(lambda x: np.asarray(x.ndim, np.int32)),
    "relax.inspect.tensor_shape_i": plain(lambda x, axis: np.asarray(x.shape[int(axis)], np.int64)),
    "relax.inspect.tensor_stride_i": plain(
        lambda x, axis: np.asarray(math.prod(x.shape[int(axis) + 1 :]), np.int64)
    ),
    "relax.layout_transform": layout_transform,
    "relax.memory.view": view,
    "relax.memory.ensure_zero_offset": plain(same),
    "relax.builtin.stop_lift_params": plain(same),
    "relax.meshgrid": lambda args, attrs: tuple(np.meshgrid(*args[0], indexing=attrs["indexing"] or "ij")),
    "relax.nn.batch_flatten": plain(lambda x: x.reshape(x.shape[0], -1)),
    "relax.nn.pad": _pad,
    "relax.nn.pixel_shuffle": _pixel_shuffle,
    "relax.one_hot": _one_hot,
    "relax.ones": filled(1),
    "relax.ones_like": like(1),
    "relax.permute_dims": _permute,
    "relax.repeat": lambda args, attrs: np.repeat(args[0], attrs["repeats"], attrs["axis"]),
    "relax.reshape": plain(reshape),
    "relax.reverse_sequence": _reverse_sequence,
    "relax.shape_of": plain(lambda x: tuple(x.shape)),
    "relax.shape_to_tensor": plain(lambda shape: np.asarray(shape, np.int64)),
    "relax.size": plain(lambda x: np.asarray(x.size, np.int64)),
    "relax.slice_scatter": _slice_scatter,
    "relax.split": _split,
    "relax.squeeze": _squeeze,
    "relax.stack": lambda args, attrs: np.stack(list(args[0]), attrs["axis"] or 0),
    "relax.strided_slice": _strided_slice,
    "relax.tensor_to_shape": plain(lambda x: tuple(int(each) for each in x)),
    "relax.tile": lambda args, attrs: np.tile(args[0], attrs["repeats"]),
    "relax.tril": plain(lambda x, k: np.tril(x, int(k))),
    "relax.triu": plain(lambda x, k: np.triu(x, int(k))),
    "relax.zeros": filled(0),
    "relax.zeros_like": like(0),
}
