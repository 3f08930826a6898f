"""Reading and writing by indices; quantisation."""

from typing import Any, Mapping, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.relax_reference.rule import NotKnown, Rules, axis_of, element, plain

Args = Sequence[Any]
Attrs = Mapping[str, Any]


def _take(args: Args, attrs: Attrs) -> Any:
    x, indices = args
    axis, mode = attrs["axis"], attrs["mode"]
    if not isinstance(indices, np.ndarray):
        indices = np.asarray(indices)
    size = x.size if axis is None else x.shape[axis]
    if mode == "fast" and indices.size and (indices.min() < 0 or indices.max() >= size):
        raise NotKnown("a fast take out of bounds")
    if mode == "nan":
        raise NotKnown("a take that gives NaN")
    how: Any = "raise" if mode == "fast" else mode
    return np.take(x, indices, axis, mode=how)


def places_in(shape: Sequence[int], indices: Sequence[Any]) -> tuple[Any, ...]:
    """The indices of the first axes; NotKnown for masks, and for one that lies outside."""
    for size, index in zip(shape, indices):  # noqa: B905 (Python 3.8)
        is_mask = index.dtype.kind not in "iu"
        if is_mask or (index.size and (index.min() < 0 or index.max() >= size)):
            raise NotKnown("an index out of bounds, or a mask")
    return tuple(indices)


def _gather_elements(args: Args, attrs: Attrs) -> Any:
    x, indices = args
    axis = axis_of(attrs["axis"], x.ndim)
    grid = list(np.indices(indices.shape))
    grid[axis] = places_in([x.shape[axis]], [indices])[0]
    return x[tuple(grid)]


def _gather_nd(args: Args, attrs: Attrs) -> Any:
    x, indices = args
    batch = attrs["batch_dims"]
    places = np.moveaxis(indices, -1, 0)
    if not batch:
        return x[places_in(x.shape, list(places))]
    lead = np.indices(indices.shape[:-1])[:batch]
    return x[(*lead, *places)]


COMBINED = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


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
    axis = axis_of(attrs["axis"], x.ndim)
    grid = list(np.indices(indices.shape))
    grid[axis] = places_in([x.shape[axis]], [indices])[0]
    return scattered(x, tuple(grid), updates, attrs["reduction"])


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
}
