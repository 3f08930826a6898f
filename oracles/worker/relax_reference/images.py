"""Images: resizing, grids, regions; the backward forms of pools."""

from typing import Any, Mapping, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.relax_reference.rule import NotKnown, Rules
from oracles.worker.relax_reference.windows import PLAIN, avg_pool, padded, to_layout

Args = Sequence[Any]
Attrs = Mapping[str, Any]


def _places(size: int, wanted: int, mode: str) -> Any:
    """Compute the place in the operand for each element of the result."""
    at = np.arange(wanted, dtype=np.float64)
    if mode == "half_pixel":
        return (at + 0.5) * size / wanted - 0.5
    if mode == "asymmetric":
        return at * size / wanted
    if mode == "align_corners":
        return at * (size - 1) / (wanted - 1) if wanted > 1 else np.zeros(wanted)
    raise NotKnown(f"coordinates of mode {mode}")


def resize(args: Args, attrs: Attrs) -> Any:
    """Nearest or linear, axis by axis."""
    x, wanted = args
    space = PLAIN[x.ndim - 2]
    found = to_layout(x, attrs["layout"], f"NC{space}")
    for axis, count in enumerate(wanted, 2):
        found = _resized(found, axis, int(count), attrs)
    return to_layout(found, f"NC{space}", attrs["layout"])


def _resized(x: Any, axis: int, count: int, attrs: Attrs) -> Any:
    size = x.shape[axis]
    places = _places(size, count, attrs["coordinate_transformation_mode"])
    if attrs["method"] == "nearest_neighbor":
        if attrs["rounding_method"] != "floor" and attrs["coordinate_transformation_mode"] != "asymmetric":
            raise NotKnown("a nearest neighbour that is rounded")
        return np.take(x, np.clip(np.floor(places + 1e-9), 0, size - 1).astype(int), axis)
    if attrs["method"] != "linear":
        raise NotKnown(f"resizing by {attrs['method']}")
    low = np.floor(places).astype(int)
    shape = [1] * x.ndim
    shape[axis] = count
    share = (places - low).reshape(shape)
    first, second = (np.take(x, np.clip(each, 0, size - 1), axis) for each in (low, low + 1))
    return first * (1 - share) + second * share


def affine_grid(args: Args, attrs: Attrs) -> Any:
    """Return Relax's `affine_grid` of these operands."""
    theta, size = args
    height, width = (int(each) for each in size)
    if not attrs["align_corners"] or min(height, width) < 2:
        raise NotKnown("a grid of pixels' middles, or of one line")
    x, y = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
    points = np.stack([x, y, np.ones_like(x)]).reshape(3, -1)
    return np.matmul(theta, points).reshape(theta.shape[0], 2, height, width)


def avg_pool_backward(args: Args, attrs: Attrs) -> Any:
    """The pool is linear: its transpose, column by column."""
    gradient, data = args
    if attrs["layout"] != "NCHW":
        raise NotKnown("a layout")
    height, width = data.shape[2:]
    unit = np.eye(height * width).reshape(height * width, 1, height, width)
    matrix = avg_pool([unit], attrs).reshape(height * width, -1)
    flat = gradient.reshape(*gradient.shape[:2], -1)
    return np.einsum("ncp,ip->nci", flat, matrix).reshape(data.shape)


def max_pool_backward(args: Args, attrs: Attrs) -> Any:
    """Send gradients to the first of the largest elements in each window."""
    gradient, data = args
    if attrs["layout"] != "NCHW" or any(gap != 1 for gap in attrs["dilation"]) or attrs["ceil_mode"]:
        raise NotKnown("a form of the backward pool")
    top, left = attrs["padding"][:2]
    wide = padded(data, attrs["padding"], -np.inf)
    found = np.zeros(wide.shape)
    (tall, broad), (down, right) = attrs["pool_size"], attrs["strides"]
    for batch, channel, row, column in np.ndindex(*gradient.shape):
        window = wide[batch, channel, row * down : row * down + tall, column * right : column * right + broad]
        at = np.unravel_index(int(np.argmax(window)), window.shape)
        place = batch, channel, row * down + at[0], column * right + at[1]
        found[place] += gradient[batch, channel, row, column]
    height, width = data.shape[2:]
    return found[:, :, top : top + height, left : left + width]


RULES: Rules = {
    "relax.grad.avg_pool2d_backward": avg_pool_backward,
    "relax.grad.max_pool2d_backward": max_pool_backward,
    "relax.image.affine_grid": affine_grid,
    "relax.image.resize2d": resize,
    "relax.image.resize3d": resize,
}
