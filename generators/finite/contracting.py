"""What the values of a program may be: boxes narrowed by every operator, forwards and backwards, to a rest.

Where nothing is left of an element, no inputs keep every value finite. Operators that are not known here
leave their operands as they are, and give anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from generators.finite import one_operand, two_operands
from generators.finite.boxes import (
    MOST,
    Box,
    anything,
    is_empty,
    meet,
    widened,
)

ROUNDS = 6
"""Sweeps there and back, at most."""

Boxes = dict[str, Box]
Shapes = Mapping[str, tuple[int, ...]]


def contract(
    nodes: Sequence[onnx.NodeProto], boxes: Boxes, shapes: Shapes, *, is_exact: bool, rounds: int = ROUNDS
) -> bool:
    """Narrow the boxes until they stay, or for some rounds; return whether something is left of each.

    `is_exact` takes products of matrices back by the inverse, as no proof may: rounding can take huge terms
    for each other.
    """
    with np.errstate(all="ignore"):
        for _ in range(rounds):
            before = _size(boxes)
            _sweep(nodes, boxes, shapes, is_exact)
            if any(map(is_empty, boxes.values())):
                _sweep(nodes, boxes, shapes, is_exact)  # so that it is known of all that are connected
                return False
            if _size(boxes) >= before * (1 - 1e-6):
                break
    return True


def _sweep(nodes: Sequence[onnx.NodeProto], boxes: Boxes, shapes: Shapes, is_exact: bool) -> None:
    for node in nodes:
        _forwards(node, boxes, shapes)
    for node in reversed(nodes):
        _backwards(node, boxes, is_exact)


def _size(boxes: Boxes) -> float:
    """Return a number that falls as boxes are narrowed."""
    return float(sum(np.log1p(np.maximum(box.high - box.low, 0)).sum() for box in boxes.values()))


def _forwards(node: onnx.NodeProto, boxes: Boxes, shapes: Shapes) -> None:
    """Narrow what a node gives by what its operands may be."""
    _keep_domain(node, boxes)
    made = _made(node, boxes)
    for name in filter(None, node.output):
        found = made
        if found is None:
            found = anything(shapes[name] if name in shapes else _shape(node, boxes))
        if name in boxes:
            boxes[name] = meet(boxes[name], found) if found.low.shape == boxes[name].low.shape else found
        else:
            boxes[name] = meet(anything(found.low.shape), found)


def _shape(node: onnx.NodeProto, boxes: Boxes) -> tuple[int, ...]:
    """Return the dims of a result as if elements were taken one by one."""
    return np.broadcast_shapes(*(boxes[name].low.shape for name in node.input if name in boxes))


def _keep_domain(node: onnx.NodeProto, boxes: Boxes) -> None:
    function = one_operand.MONOTONE.get(node.op_type)
    name = node.input[0] if node.input else ""
    if function is not None and name in boxes:
        least, most = function.domain
        boxes[name] = meet(boxes[name], Box(np.asarray(least), np.asarray(most)))


def _made(node: onnx.NodeProto, boxes: Boxes) -> Box | None:
    """Return what a node gives; None if that is not known."""
    operands = [boxes.get(name) for name in node.input]
    if node.domain or not operands or operands[0] is None or len(node.output) != 1:
        return None
    one, name = operands[0], node.op_type
    if name in one_operand.MONOTONE:
        found = one_operand.MONOTONE[name].result(one)
        return found if name in _UNROUNDED else widened(found)
    if name in _EXACT:
        return _EXACT[name](one)
    if name in _ROUNDING:
        return widened(_ROUNDING[name](one))
    if name == "Transpose":
        return Box(*(np.transpose(side, _order(node, one)) for side in one))
    other = operands[1] if len(operands) == 2 else None
    if other is None:
        return None
    if name in two_operands.FORWARD:
        of_one = two_operands.twice(name, one) if node.input[0] == node.input[1] else None
        return widened(of_one if of_one is not None else two_operands.FORWARD[name](one, other))
    if name == "MatMul" and _is_matrix(other):
        return widened(two_operands.product(one, other.low))
    return None


def _is_matrix(box: Box) -> bool:
    return box.low.ndim == 2 and box.is_point


_EXACT = {"Floor": one_operand.floor, "Relu": one_operand.relu, "Abs": one_operand.absolute}
_UNROUNDED = {*_EXACT, "Identity", "Neg", "Transpose"}
_ROUNDING = {
    "Reciprocal": one_operand.inverse,
    "Sin": one_operand.sine,
    "Cos": one_operand.cosine,
    "Tan": one_operand.tangent,
}
_BY_ELEMENT = {*one_operand.MONOTONE, *_EXACT, *_ROUNDING, *two_operands.FORWARD}
_BACK = {
    "Floor": one_operand.before_floor,
    "Relu": one_operand.before_relu,
    "Reciprocal": one_operand.inverse,
}


def _order(node: onnx.NodeProto, box: Box) -> tuple[int, ...]:
    given = [tuple(each.ints) for each in node.attribute if each.name == "perm"]
    return given[0] if given else tuple(reversed(range(box.low.ndim)))


def _backwards(node: onnx.NodeProto, boxes: Boxes, is_exact: bool) -> None:
    """Narrow the operands of a node by what its result may be."""
    if len(node.output) != 1 or node.output[0] not in boxes or not node.input or node.domain:
        return
    operands = [boxes.get(name) for name in node.input]
    if operands[0] is None:
        return
    result = boxes[node.output[0]]
    _lose(node, boxes, result)
    for name, found in zip(node.input, _before(node, operands, result, is_exact), strict=False):
        if found is not None:
            found = found.fitted(boxes[name].low.shape)
            found = found if node.op_type in _UNROUNDED else widened(found)
            boxes[name] = meet(boxes[name], found)


def _lose(node: onnx.NodeProto, boxes: Boxes, result: Box) -> None:
    """Leave nothing of the operands' elements from which nothing is left in the result."""
    lost = np.isnan(result.low)
    is_product = node.op_type == "MatMul"
    if not lost.any() or not (is_product or node.op_type in _BY_ELEMENT):
        return
    for name in filter(boxes.__contains__, node.input):
        shape = boxes[name].low.shape
        if is_product and (shape[:-1] != lost.shape[:-1] or boxes[name].is_point):
            continue
        mask = np.broadcast_to(lost.any(-1, keepdims=True), shape) if is_product else lost
        gone = Box(np.where(mask, np.nan, -MOST), np.where(mask, np.nan, MOST))
        boxes[name] = meet(boxes[name], gone.fitted(shape))


def _before(
    node: onnx.NodeProto, operands: Sequence[Box | None], result: Box, is_exact: bool
) -> tuple[Box | None, ...]:
    """Return the boxes of the operands that give these results; None for those of which nothing is told."""
    one, name = operands[0], node.op_type
    assert one is not None
    if name in one_operand.MONOTONE:
        return (one_operand.MONOTONE[name].operand(result),)
    part = one_operand.PRINCIPAL.get(name)
    if part is not None:
        least, most = part.domain
        is_there = bool((one.low >= least).all() and (one.high <= most).all())
        return (part.operand(result),) if is_there else ()
    if name in _BACK:
        return (_BACK[name](result),)
    if name == "Abs":
        return (one_operand.before_absolute(one, result),)
    if name == "Transpose":
        back = np.argsort(_order(node, one))
        return (Box(*(np.transpose(side, back) for side in result)),)
    other = operands[1] if len(operands) == 2 else None
    if other is None:
        return ()
    if name == "MatMul" and _is_matrix(other):
        return (two_operands.before_product(one, other.low, result, is_exact),)
    if name not in two_operands.FORWARD:
        return ()
    if node.input[0] == node.input[1]:
        return (two_operands.before_twice(name, result),)
    return two_operands.before(name, one, other, result)


def start(weights: Mapping[str, np.ndarray], inputs: Shapes) -> Boxes:
    """Return the boxes before anything is known: weights are points, inputs anything."""
    boxes = {name: anything(shape) for name, shape in inputs.items()}
    for name, value in weights.items():
        wide = np.clip(np.asarray(value, np.float64), -MOST, MOST)
        boxes[name] = Box(wide, wide)
    return boxes
