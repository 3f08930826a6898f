"""Checks for results that the specifications of ONNX and torch leave open, one function a reason.

Each gets a node and the values of its inputs, and says whether two implementations may differ on them and
both be right.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from corpus.onnx.types import DTYPES
from corpus.values import Tensor, Value, is_float, widen
from oracles.relation.arithmetic import Dims, OpenCheck

EXACT_INTEGERS = 1 << 53
"""Beyond this a float64 does not tell neighbouring integers apart."""


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """An attribute of a node, or the default."""
    found = (helper.get_attribute_value(each) for each in node.attribute if each.name == name)
    return next(found, default)


def operand(operands: Sequence[Value], index: int) -> Tensor | None:
    """A tensor among the operands; None for anything else."""
    value = operands[index] if index < len(operands) else None
    return value if isinstance(value, np.ndarray) else None


def is_out_of_range(node: NodeProto, operands: Sequence[Value]) -> bool:
    """A float that the integers of the target type do not hold."""
    source, like = operand(operands, 0), operand(operands, 1)
    named = attribute(node, "to", attribute(node, "dtype", TensorProto.FLOAT))
    target = like.dtype if like is not None else DTYPES.get(named)
    return source is not None and target is not None and is_beyond(source, target)


def is_beyond(source: Tensor, target: np.dtype[Any]) -> bool:
    """Whether some of these floats do not fit into the integers of a type."""
    if target.kind not in "iu" or not is_float(source) or source.dtype.kind == "c":
        return False
    limits = np.iinfo(target)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(widen(source).astype(np.float64))
        return not bool(((whole >= limits.min) & (whole < float(limits.max) + 1)).all())


def is_inexact(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Integers that go through a float on the way."""
    source = operand(operands, 0)
    if source is None or source.dtype.kind not in "iu" or source.dtype.itemsize < 8:
        return False
    return bool(((source >= EXACT_INTEGERS) | (source <= -EXACT_INTEGERS)).any())


def shifts_too_far(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether a shift is by as many bits as there are, or more."""
    source, shift = operand(operands, 0), operand(operands, 1)
    return source is not None and shift is not None and bool((shift >= 8 * source.dtype.itemsize).any())


def has_negative_exponent(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether an integer is raised to a negative power."""
    base, exponent = operand(operands, 0), operand(operands, 1)
    if base is None or exponent is None or base.dtype.kind not in "iu":
        return False
    return bool((widen(exponent).astype(np.float64) < 0).any())


def writes_twice(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether two updates go to one place."""
    data, indices = operand(operands, 0), operand(operands, 1)
    if data is None or indices is None or attribute(node, "reduction", b"none") != b"none":
        return False
    places = _element_places if node.op_type in ("Scatter", "ScatterElements") else _slice_places
    found = places(node, data, indices)
    return len(np.unique(found, axis=0)) < len(found)


def _element_places(node: NodeProto, data: Tensor, indices: Tensor) -> Tensor:
    axis = attribute(node, "axis", 0) % data.ndim
    places = np.indices(indices.shape)
    places[axis] = indices % data.shape[axis]
    return places.reshape(data.ndim, -1).T


def _slice_places(node: NodeProto, data: Tensor, indices: Tensor) -> Tensor:
    rows = indices.reshape(-1, indices.shape[-1])
    return np.asarray(rows % np.array(data.shape[: rows.shape[1]], dtype=np.int64))


def is_unsorted(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether the order of the results is left open."""
    return not attribute(node, "sorted", 1)


def ranks_nan(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether NaN is among what an operator ranks: nobody says whether it is less or more than a number."""
    data = operand(operands, 0)
    return data is not None and bool(np.isnan(widen(data)).any())


def takes_maximum(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Check for a maximum of weighted corners or of interpolated samples: the text leaves it open."""
    return bool(attribute(node, "mode", b"avg") == b"max")


def has_no_range(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The formula gives a scale of zero, infinity or NaN here, so the quotient is not defined."""
    source = operand(operands, 0)
    if source is None:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        span = source.max(initial=0) - source.min(initial=0)
    return not 0 < span < math.inf


def overflows(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The least integer has no positive counterpart, and a product may have no place."""
    pair = [each for each in (operand(operands, 0), operand(operands, 1)) if each is not None and each.size]
    if len(pair) < 2 or any(each.dtype.kind not in "iu" for each in pair):
        return False
    largest = [max(abs(int(each.min())), abs(int(each.max()))) for each in pair]
    return (math.prod(largest) if node.op_type == "lcm" else max(largest)) > np.iinfo(pair[0].dtype).max


def divides_least(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The least integer by -1: the quotient has no place in its type."""
    left, right = operand(operands, 0), operand(operands, 1)
    if left is None or right is None or left.dtype.kind != "i" or right.dtype.kind != "i":
        return False
    return bool((left == np.iinfo(left.dtype).min).any() and (right == -1).any())


def shifts_backwards(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether a shift is too far or by a negative number."""
    shift = operand(operands, 1)
    return shifts_too_far(node, operands) or (shift is not None and bool((shift < 0).any()))


def is_unordered(place: int) -> OpenCheck:
    """Whether what must be in order, the operand at this place, is not."""

    def check(node: NodeProto, operands: Sequence[Value]) -> bool:
        found = operand(operands, place)
        return found is not None and not bool((widen(found)[1:] >= widen(found)[:-1]).all())

    return check


def has_sequences(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether there are sequences side by side: nobody says which of them are quantised by one range."""
    data = operand(operands, 0)
    return data is not None and data.ndim > 1 and data.shape[1] > 1


def exceeds_input(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether a window is larger than the padded input: the formula gives no result, onnx's inference one."""
    data, kernel = operand(operands, 0), attribute(node, "kernel_shape", ())
    if data is None or data.ndim != len(kernel) + 2 or attribute(node, "auto_pad", b"NOTSET") != b"NOTSET":
        return False
    rank = len(kernel)
    pads, dilations = attribute(node, "pads", [0] * 2 * rank), attribute(node, "dilations", [1] * rank)
    return any(
        dilations[axis] * (kernel[axis] - 1) + 1 > data.shape[axis + 2] + pads[axis] + pads[axis + rank]
        for axis in range(rank)
    )


def selects_beyond(node: NodeProto, dims: Sequence[Dims | None]) -> bool:
    """Whether a condition is longer than what it selects from."""
    data, condition = dims
    if data is None or condition is None:
        return False
    axis = attribute(node, "axis", None)
    return math.prod(condition) > (math.prod(data) if axis is None else data[axis])


def widens(node: NodeProto, dims: Sequence[Dims | None]) -> bool:
    """Whether the second input does not broadcast to the first."""
    return _is_wider(dims[1], dims[0])


def scales_more(node: NodeProto, dims: Sequence[Dims | None]) -> bool:
    """Whether a scale does not broadcast to the dims that are normalised."""
    data = dims[0]
    return data is not None and _is_wider(dims[1], data[attribute(node, "axis", -1) :])


def _is_wider(small: Dims | None, large: Dims | None) -> bool:
    if small is None or large is None:
        return False
    pairs = zip(small[::-1], large[::-1], strict=False)
    return len(small) > len(large) or any(dim not in (1, whole) for dim, whole in pairs)


# torch's writes: the last one to come to a place is left open


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


WINDOW = {"a window larger than the padded input": exceeds_input}
TWICE = {"writes to one place twice": writes_twice}
INEXACT = {"integers that a float64 does not hold": is_inexact}
LEAST = {"the least integer by -1": divides_least}
