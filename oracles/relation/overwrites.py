"""Checks for torch's writes: whether two values go to one place, where the last one to come is left open."""

import math
from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from corpus.values import Tensor, Value
from oracles.relation.open_checks import attribute, operand


def copies_twice(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether one place is copied to twice."""
    index = operand(operands, 1)
    return index is not None and len(np.unique(index)) < index.size


def adds_up(node: NodeProto) -> bool:
    """Whether what is written to one place is added."""
    return bool(attribute(node, "accumulate", 0))


def puts_twice(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether two values go to one place that indices name, of the flat tensor or one index a dim."""
    data, given = operand(operands, 0), [operand(operands, at) for at in range(1, len(operands) - 1)]
    indices = [each for each in given if each is not None]
    if data is None or adds_up(node) or not indices or any(each.dtype.kind == "b" for each in indices):
        return False
    dims = [dim for dim, each in zip(data.shape, given, strict=False) if each is not None]
    sizes = [data.size] if node.op_type == "put" else dims
    places = np.stack([each.reshape(-1) for each in np.broadcast_arrays(*indices)], 1) % np.array(sizes)
    return len(np.unique(places, axis=0)) < len(places)


def scatters_twice(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether two elements of a source go to one place; of one value it makes no difference."""
    data, index = operand(operands, 0), operand(operands, 1)
    if data is None or index is None or len(operands) < 3 or not index.ndim:
        return False
    return any(len(np.unique(line)) < len(line) for line in _lines(index, attribute(node, "dim", 0)))


def places_twice(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether two elements of one image go to one place."""
    index = operand(operands, 1)
    if index is None:
        return False
    images = index.reshape(-1, math.prod(index.shape[-2:]))
    return any(len(np.unique(image)) < len(image) for image in images)


def _lines(array: Tensor, axis: int) -> Tensor:
    moved = np.moveaxis(array, axis, -1)
    return moved.reshape(-1, moved.shape[-1])
