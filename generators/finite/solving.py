"""Inputs under which every value is finite, solved by boxes: narrow, choose some elements, narrow again.

An attempt chooses the elements of the inputs a column at a time. Elements whose choice leaves nothing of what
they are connected to (NaN spreads to that alone) are chosen anew in another way. Products of matrices are led
first: the operand goes to a point whose products lie in the box of the result, by projections (Kaczmarz).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray

from generators.finite.boxes import MOST, SLACK, Array, Box, meet
from generators.finite.contracting import Boxes, Shapes, contract
from generators.finite.one_operand import PRINCIPAL
from generators.finite.two_operands import product

Mask = NDArray[np.bool_]

ATTEMPTS = 12
TRIES = 4
MOST_COLUMNS = 32
MOST_ELEMENTS = 1 << 14
SWEEPS = 60
"""Projections onto every constraint of a product."""

WITHIN = 0.2
"""The share of a box at each end that choices keep away from, so that rounding does not matter."""

END = 100.0
"""Where a choice lies that goes to an end that there is none of."""

UNBOUNDED = 1e30
"""A box that goes so far on both sides asks for nothing."""

FAR = 8.0
"""Where choices lie if the box has no ends."""


def solve(
    nodes: Sequence[onnx.NodeProto], boxes: Boxes, shapes: Shapes, inputs: Sequence[str]
) -> Mapping[str, Array] | None:
    """Return values for the inputs; None where no attempt found any. `boxes` are those of the start."""
    known = dict(boxes)
    if not contract(nodes, known, shapes, is_exact=True):
        known = dict(boxes)
        if not contract(nodes, known, shapes, is_exact=False):
            return None
    if sum(known[name].low.size for name in inputs) > MOST_ELEMENTS:
        return None
    solved = {name: np.full(known[name].low.shape, np.nan) for name in inputs}
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng(attempt)
        found = _attempt(_Search(nodes, shapes, rng), dict(known), inputs, attempt)
        for name in inputs:  # elements that fail leave those that are not connected to them alone
            solved[name] = np.where(np.isnan(solved[name]), found[name].low, solved[name])
        if not any(np.isnan(value).any() for value in solved.values()):
            tried = {**boxes, **{name: Box(value, value) for name, value in solved.items()}}
            if contract(nodes, tried, shapes, is_exact=False):
                return solved
            solved = {name: np.where(np.isnan(tried[name].low), np.nan, solved[name]) for name in inputs}
    return None


class _Search:
    """One attempt: the program and its random numbers."""

    def __init__(self, nodes: Sequence[onnx.NodeProto], shapes: Shapes, rng: np.random.Generator) -> None:
        self.nodes = nodes
        self.shapes = shapes
        self.rng = rng

    def chosen(self, boxes: Boxes, name: str, points: Array, where: Mask, width: float = 0.0) -> Boxes:
        """Return the boxes after some elements of a value went to points."""
        tried, box = dict(boxes), boxes[name]
        low, high = (
            points - width * np.maximum(np.abs(points), 0.1),
            points + width * np.maximum(np.abs(points), 0.1),
        )
        around = Box(np.where(where, low, box.low), np.where(where, high, box.high))
        tried[name] = meet(box, around)
        contract(self.nodes, tried, self.shapes, is_exact=False)
        return tried

    def point(self, box: Box, way: int) -> Array:
        """Choose a point in every box: near one, in reach, far away, at an end."""
        low, high = box
        if way % TRIES == TRIES - 1:
            end: Array = np.clip(np.where(self.rng.random(low.shape) < 0.5, low, high), -END, END)
            return end
        keep = WITHIN * np.minimum(high - low, 1.0 + np.minimum(abs(low), abs(high)))
        low, high = low + keep / 2, high - keep / 2
        share = self.rng.random(low.shape)
        if way % TRIES == 2:
            return _between_logarithms(low, high, share)
        far = FAR if way % TRIES else 2.0
        near_low = np.maximum(low, np.minimum(-far if way % TRIES else 0.25, high - far))
        near_high = np.minimum(high, np.maximum(far, near_low + far))
        found: Array = near_low + share * (np.maximum(near_high, near_low) - near_low)
        return found


def _between_logarithms(low: Array, high: Array, share: Array) -> Array:
    """Return a point of any size between two bounds."""
    ends = np.arcsinh(low * 1e3), np.arcsinh(high * 1e3)
    found: Array = np.clip(np.sinh(ends[0] + share * (ends[1] - ends[0])) / 1e3, low, high)
    return found


def _attempt(search: _Search, boxes: Boxes, inputs: Sequence[str], attempt: int) -> Boxes:
    """Lead the products, then choose every element of the inputs."""
    with np.errstate(all="ignore"):
        boxes = _with_parts(search, boxes) if attempt % 4 < 3 else boxes
        boxes = _with_powers(search, _with_sides(search, boxes, attempt), attempt)
        for node in search.nodes if attempt % 3 else ():
            boxes = _led(search, boxes, node, attempt)
        order = list(inputs) if attempt % 2 else list(reversed(inputs))
        for name in order:
            for column in _columns(boxes[name]):
                boxes = _choose(search, boxes, name, column, attempt)
    return boxes


def _with_powers(search: _Search, boxes: Boxes, attempt: int) -> Boxes:
    """Make the operands of powers such that the result is finite: a base above 0, or an exponent of 1."""
    for node in search.nodes:
        if node.op_type != "Pow" or node.input[0] not in boxes or node.input[1] not in boxes:
            continue
        name = node.input[1] if attempt % 4 == 1 and not boxes[node.input[1]].is_point else node.input[0]
        box, tried = boxes[name], dict(boxes)
        ones = np.ones(box.low.shape)
        tried[name] = meet(box, Box(ones, ones) if name == node.input[1] else Box(1e-3 * ones, MOST * ones))
        contract(search.nodes, tried, search.shapes, is_exact=True)
        boxes = _without(boxes, tried)
    return boxes


def _with_parts(search: _Search, boxes: Boxes) -> Boxes:
    """Keep the operands of a sine or a tangent where it has one inverse."""
    for node in search.nodes:
        part = PRINCIPAL.get(node.op_type)
        if part is None or node.input[0] not in boxes:
            continue
        tried, (least, most) = dict(boxes), part.domain
        tried[node.input[0]] = meet(boxes[node.input[0]], Box(np.asarray(least), np.asarray(most)))
        contract(search.nodes, tried, search.shapes, is_exact=True)
        boxes = _without(boxes, tried)
    return boxes


def _with_sides(search: _Search, boxes: Boxes, attempt: int) -> Boxes:
    """Keep what is divided by on one side of zero."""
    for place, node in enumerate(search.nodes):
        name = node.input[-1] if node.op_type in ("Reciprocal", "Div") else ""
        is_own = node.op_type == "Div" and node.input[0] == node.input[-1]
        if name not in boxes or is_own:
            continue
        box, tried, is_below = boxes[name], dict(boxes), (attempt >> place % 3) & 1
        crosses = (box.low < 0) & (box.high > 0)
        high, low = (0.0, -MOST) if is_below else (MOST, 0.0)
        tried[name] = meet(box, Box(np.where(crosses, low, -MOST), np.where(crosses, high, MOST)))
        contract(search.nodes, tried, search.shapes, is_exact=True)
        boxes = _without(boxes, tried)
    return boxes


def _led(search: _Search, boxes: Boxes, node: onnx.NodeProto, attempt: int) -> Boxes:
    """Take the operand of a product with a matrix to where the product is within its box."""
    one = boxes.get(node.input[0]) if node.op_type == "MatMul" else None
    weights = _matrix(node, boxes)
    if one is None or weights is None:
        return boxes
    weights, result = _through(search.nodes, node, boxes, weights)
    if _is_kept(product(one, weights), result):
        return boxes
    points = _projected(search.point(one, attempt), one, weights, result)
    where = ~np.isnan(points) & (one.low < one.high)
    tried = search.chosen(boxes, node.input[0], points, where, 0.03 if attempt % 2 else 1e-3)
    return _without(boxes, tried)


def _matrix(node: onnx.NodeProto, boxes: Boxes) -> Array | None:
    """Return the matrix that a node multiplies with; None if there is none, or it is not known."""
    other = boxes.get(node.input[1]) if node.op_type == "MatMul" else None
    return other.low if other is not None and other.is_point and other.low.ndim == 2 else None


def _through(
    nodes: Sequence[onnx.NodeProto], node: onnx.NodeProto, boxes: Boxes, weights: Array
) -> tuple[Array, Box]:
    """Return a matrix and the box of its results, those of further products with matrices beside them."""
    parts, results = [weights], [boxes[node.output[0]]]
    name = node.output[0]
    for after in nodes:
        found = _matrix(after, boxes) if after.input and after.input[0] == name else None
        if found is not None:
            parts.append(parts[-1] @ found)
            results.append(boxes[after.output[0]])
            name = after.output[0]
    sides = (np.concatenate([getattr(box, side) for box in results], -1) for side in ("low", "high"))
    return np.concatenate(parts, -1), Box(*sides)


def _is_kept(made: Box, wanted: Box) -> bool:
    """Return whether a product lies in the box of its result whatever the operand is, or that has no ends."""
    low = (made.low >= wanted.low - SLACK * abs(wanted.low)) | (wanted.low < -UNBOUNDED)
    high = (made.high <= wanted.high + SLACK * abs(wanted.high)) | (wanted.high > UNBOUNDED)
    return bool((low & high).all())


def _without(boxes: Boxes, tried: Boxes) -> Boxes:
    """Return the boxes that were tried, with those before where nothing is left."""
    return {
        name: Box(*(np.where(np.isnan(new), old, new) for old, new in zip(boxes[name], box, strict=True)))
        if name in boxes
        else box
        for name, box in tried.items()
    }


def _projected(points: Array, box: Box, weights: Array, result: Box) -> Array:
    """Return points of the box near the given ones, whose products with a matrix lie in a box (Kaczmarz)."""
    span = result.high - result.low
    keep = WITHIN * np.minimum(span, 1.0 + np.minimum(abs(result.low), abs(result.high)))
    low, high = result.low + keep, result.high - keep
    sizes = (weights**2).sum(0)
    for _ in range(SWEEPS):
        for column in np.flatnonzero(sizes):
            now = points @ weights[:, column]
            short = np.maximum(low[..., column] - now, 0) - np.maximum(now - high[..., column], 0)
            points = points + (short / sizes[column])[..., None] * weights[:, column]
        points = np.clip(points, box.low, box.high)
    return points


def _columns(box: Box) -> Iterator[Mask]:
    """Yield masks of the elements to choose together: a column each, or all of a large tensor."""
    shape = box.low.shape
    if not shape or shape[-1] > MOST_COLUMNS:
        yield np.ones(shape, bool)
        return
    for column in range(shape[-1]):
        mask = np.zeros(shape, bool)
        mask[..., column] = True
        yield mask


def _choose(search: _Search, boxes: Boxes, name: str, column: Mask, attempt: int) -> Boxes:
    """Choose some elements of an input; those after which something is empty anew, in another way."""
    wanted, tried = column.copy(), boxes
    for way in range(TRIES):
        points = search.point(boxes[name], attempt + way)
        points = np.where(column & ~wanted, tried[name].low, points).astype(np.float32).astype(np.float64)
        tried = search.chosen(boxes, name, points, column)
        wanted = column & np.isnan(tried[name].low)
        if not wanted.any():
            break
    return tried
