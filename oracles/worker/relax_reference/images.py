"""Images: resizing, grids, pools over regions and their backward forms; boxes that are kept or decoded."""

from typing import Any

import numpy as np

from oracles.worker.relax_reference.reductions import softmax
from oracles.worker.relax_reference.rule import Args, Attrs, NotKnown, Rules
from oracles.worker.relax_reference.windows import PLAIN, avg_pool, padded, to_layout


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


def _affine_grid(args: Args, attrs: Attrs) -> Any:
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


def grid_sample(args: Args, attrs: Attrs) -> Any:
    """Sample the data at places from -1 to 1, bilinear or nearest; a grid's first row is x."""
    data, grid = args
    if attrs["layout"] != "NCHW" or data.ndim != 4 or attrs["method"] not in ("bilinear", "nearest"):
        raise NotKnown("a grid of that kind")
    sizes = data.shape[2:]
    y, x = (
        _within(_place(grid[:, row], size, attrs["align_corners"]), size, attrs)
        for row, size in zip((1, 0), sizes)  # noqa: B905 (Python 3.8)
    )
    if attrs["method"] == "nearest":
        return _pixels(data, np.rint(y).astype(int), np.rint(x).astype(int))
    top, left = np.floor(y).astype(int), np.floor(x).astype(int)
    down, right = (y - top)[:, None], (x - left)[:, None]
    above = _pixels(data, top, left) * (1 - right) + _pixels(data, top, left + 1) * right
    below = _pixels(data, top + 1, left) * (1 - right) + _pixels(data, top + 1, left + 1) * right
    return above * (1 - down) + below * down


def _place(at: Any, size: int, is_corner: bool) -> Any:
    return (at + 1) * (size - 1) / 2 if is_corner else (at + 1) * size / 2 - 0.5


def _within(at: Any, size: int, attrs: Attrs) -> Any:
    """The places that padding leaves: as they are, reflected, or clipped."""
    if attrs["padding_mode"] == "zeros":
        return at
    if attrs["padding_mode"] == "reflection":
        first, span = (0.0, size - 1.0) if attrs["align_corners"] else (-0.5, float(size))
        if not span:
            raise NotKnown("a reflection within one place")
        turns, rest = np.divmod(np.abs(at - first), span)
        at = first + np.where(turns % 2 == 0, rest, span - rest)
    return np.clip(at, 0, size - 1)


def _pixels(data: Any, rows: Any, columns: Any) -> Any:
    """The elements at these places of each batch, for every channel; zero outside."""
    height, width = data.shape[2:]
    is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    batch = np.arange(data.shape[0])[:, None, None]
    found = data[batch, :, np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
    return np.where(is_inside[:, None], np.moveaxis(found, -1, 1), 0.0)


def roi_align(args: Args, attrs: Attrs) -> Any:
    """Average, or take the largest of, bilinear samples in each part of a region."""
    data, rois = to_layout(args[0], attrs["layout"], "NCHW"), args[1]
    tall, broad = (int(each) for each in attrs["pooled_size"])
    found = np.zeros((len(rois), data.shape[1], tall, broad))
    for at, (batch, *corners) in enumerate(rois):
        x, y, right, bottom = (each * attrs["spatial_scale"] for each in corners)
        sides = [bottom - y, right - x]
        if not attrs["aligned"]:
            sides = [max(each, 1.0) for each in sides]
        steps = sides[0] / tall, sides[1] / broad
        counts = [
            attrs["sample_ratio"] if attrs["sample_ratio"] > 0 else int(np.ceil(each)) for each in steps
        ]
        for row, column in np.ndindex(tall, broad):
            rows = y + (row + (np.arange(counts[0]) + 0.5) / counts[0]) * steps[0]
            columns = x + (column + (np.arange(counts[1]) + 0.5) / counts[1]) * steps[1]
            samples = np.array([[_sample(data[int(batch)], r, c) for c in columns] for r in rows])
            pooled = samples.mean((0, 1)) if attrs["mode"] == "avg" else samples.max((0, 1))
            found[at, :, row, column] = pooled
    return to_layout(found, "NCHW", attrs["layout"])


def _sample(image: Any, row: float, column: float) -> Any:
    """The value of each channel between four elements; beyond the border its nearest."""
    height, width = image.shape[1:]
    if row < -1 or column < -1 or row > height or column > width:
        return np.zeros(len(image))
    row, column = min(max(row, 0.0), height - 1.0), min(max(column, 0.0), width - 1.0)
    top, left = int(row), int(column)
    lower, further = min(top + 1, height - 1), min(left + 1, width - 1)
    down, right = row - top, column - left
    above = image[:, top, left] * (1 - right) + image[:, top, further] * right
    below = image[:, lower, left] * (1 - right) + image[:, lower, further] * right
    return above * (1 - down) + below * down


def roi_pool(args: Args, attrs: Attrs) -> Any:
    """Take the largest element in each part of a region, whose corners are rounded; zero in an empty part."""
    data, rois = args
    if attrs["layout"] != "NCHW":
        raise NotKnown("a layout")
    tall, broad = (int(each) for each in attrs["pooled_size"])
    found = np.zeros((len(rois), data.shape[1], tall, broad))
    for at, (batch, *corners) in enumerate(rois):
        x, y, right, bottom = (int(np.floor(each * attrs["spatial_scale"] + 0.5)) for each in corners)
        rows = _parts(y, bottom, tall, data.shape[2])
        columns = _parts(x, right, broad, data.shape[3])
        for row, column in np.ndindex(tall, broad):
            part = data[int(batch), :, slice(*rows[row]), slice(*columns[column])]
            found[at, :, row, column] = part.max((1, 2)) if part.size else 0.0
    return found


def _parts(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    """Where each of `count` parts begins and ends."""
    length = max(last - first + 1, 1)
    edges = [(at * length // count, -(-(at + 1) * length // count)) for at in range(count)]
    return [tuple(min(max(each + first, 0), size) for each in pair) for pair in edges]  # type: ignore[misc]


def get_valid_counts(args: Args, attrs: Attrs) -> Any:
    """Count the boxes above the threshold, move them to the front, and say where they were."""
    (data,) = args
    is_kept = data[:, :, attrs["score_index"]] > attrs["score_threshold"]
    if attrs["id_index"] >= 0:
        is_kept &= data[:, :, attrs["id_index"]] >= 0
    boxes, places = np.full(data.shape, -1.0), np.full(data.shape[:2], -1, np.int32)
    for at, kept in enumerate(is_kept):
        (chosen,) = np.nonzero(kept)
        boxes[at, : len(chosen)], places[at, : len(chosen)] = data[at, chosen], chosen
    return is_kept.sum(1).astype(np.int32), boxes, places


def multibox_transform_loc(args: Args, attrs: Attrs) -> Any:
    """Decode boxes from their anchors; scores below the threshold are zero."""
    scores, located, anchors = args
    left, top, right, bottom = np.moveaxis(anchors[0], -1, 0)
    x, y, wide, tall = np.moveaxis(located.reshape(located.shape[0], -1, 4), -1, 0)
    by_x, by_y, by_width, by_height = attrs["variances"]
    height, width = bottom - top, right - left
    row, column = y * by_y * height + (top + bottom) / 2, x * by_x * width + (left + right) / 2
    down, across = np.exp(tall * by_height) * height / 2, np.exp(wide * by_width) * width / 2
    boxes = np.stack([row - down, column - across, row + down, column + across], -1)
    boxes = np.clip(boxes, 0.0, 1.0) if attrs["clip"] else boxes
    scores = softmax([scores], {"axis": 1}) if attrs["apply_softmax"] else scores
    scores = np.where(scores >= attrs["threshold"], scores, 0.0)
    if not attrs["keep_background"]:
        scores[:, 0] = 0.0
    return boxes, scores


def non_max_suppression(args: Args, attrs: Attrs) -> Any:
    """Keep the boxes of highest scores that overlap no kept one: their rows, or which and how many."""
    if attrs["soft_nms_sigma"]:
        raise NotKnown("a soft suppression")
    data, counts, names = args
    rows, found = np.full(data.shape, -1.0), np.full(data.shape[:2], -1, np.int32)
    kept = [_kept(boxes[: int(count)], attrs) for boxes, count in zip(data, counts)]  # noqa: B905 (Python 3.8)
    for at, (order, chosen) in enumerate(kept):
        places = range(len(chosen)) if attrs["invalid_to_bottom"] else [order.index(each) for each in chosen]
        rows[at, list(places)] = data[at, chosen]
        found[at, : len(chosen)] = names[at, chosen]
    if not attrs["return_indices"]:
        return rows
    return found, np.array([[len(chosen)] for _, chosen in kept], np.int32)


def suppression_by_class(args: Args, attrs: Attrs) -> Any:
    """Keep boxes of each class alone: their classes and places, class after class, scores, and count."""
    if attrs["output_format"] != "tensorflow":
        raise NotKnown("a list as long as there are boxes")
    boxes, scores, most, share, least = args
    batch, classes, count = scores.shape
    pairs, kept = np.zeros((batch, classes * count, 2), np.int64), np.zeros((batch, classes * count))
    told: Attrs = {
        **{"score_index": 0, "coord_start": 1, "id_index": -1, "top_k": -1, "force_suppress": True},
        **{"max_output_size": int(most), "iou_threshold": float(share)},
    }
    counts = np.zeros(batch, np.int64)
    for at, kind in np.ndindex(batch, classes):
        rows = np.concatenate([scores[at, kind][:, None] - float(least), boxes[at]], 1)
        for each in _kept(rows, told)[1]:
            pairs[at, counts[at]], kept[at, counts[at]] = (kind, each), scores[at, kind, each]
            counts[at] += 1
    return pairs, kept, counts


def _kept(boxes: Any, attrs: Attrs) -> tuple[list[int], list[int]]:
    """The boxes by falling scores, at most `top_k`, and those of them that are kept."""
    scores, kind = boxes[:, attrs["score_index"]], attrs["id_index"]
    order = [int(each) for each in np.argsort(-scores, kind="stable")]
    order = order[: attrs["top_k"]] if attrs["top_k"] > 0 else order
    most = attrs["max_output_size"] if attrs["max_output_size"] > 0 else len(order)
    corners = boxes[:, attrs["coord_start"] : attrs["coord_start"] + 4]
    chosen: list[int] = []
    for each in order:
        others = [
            other
            for other in chosen
            if attrs["force_suppress"] or kind < 0 or boxes[other, kind] == boxes[each, kind]
        ]
        is_free = all(overlap(corners[other], corners[each]) < attrs["iou_threshold"] for other in others)
        if scores[each] > 0 and len(chosen) < most and is_free:
            chosen.append(each)
    return order, chosen


def overlap(one: Any, other: Any) -> float:
    """The part that two boxes share of what both cover; zero where they cover nothing."""
    corners = [(np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])) for box in (one, other)]
    areas = [float(np.prod(high - low)) for low, high in corners]
    (low, high), (other_low, other_high) = corners
    shared = float(np.prod(np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), 0.0)))
    whole = sum(areas) - shared
    return shared / whole if whole > 0 else 0.0


RULES: Rules = {
    "relax.grad.avg_pool2d_backward": avg_pool_backward,
    "relax.grad.max_pool2d_backward": max_pool_backward,
    "relax.image.affine_grid": _affine_grid,
    "relax.image.grid_sample": grid_sample,
    "relax.image.resize2d": resize,
    "relax.image.resize3d": resize,
    "relax.vision.all_class_non_max_suppression": suppression_by_class,
    "relax.vision.get_valid_counts": get_valid_counts,
    "relax.vision.multibox_transform_loc": multibox_transform_loc,
    "relax.vision.non_max_suppression": non_max_suppression,
    "relax.vision.roi_align": roi_align,
    "relax.vision.roi_pool": roi_pool,
}
