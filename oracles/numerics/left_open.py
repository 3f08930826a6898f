"""Results that the texts of ONNX and torch leave open: two implementations may differ and both be right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from corpus.onnx.types import DTYPES
from corpus.values import Tensor, Value
from oracles.numerics.compare import is_float, widen

EXACT_INTEGERS = 1 << 53
"""Beyond this a float64 does not tell neighbouring integers apart."""

SCALED = frozenset(["DequantizeLinear", "QuantizeLinear"])

Check = Callable[[NodeProto, Sequence[Value]], bool]


def left_open(node: NodeProto, operands: Sequence[Value]) -> str:
    """Why the node's result on these operands is anybody's choice; empty where it is fixed."""
    for reason, check in _CHECKS.get(node.op_type, {}).items():
        if check(node, operands):
            return f"{node.op_type}: {reason}"
    return ""


def has_no_scale(node: NodeProto, values: Mapping[str, Value]) -> bool:
    """Whether a node quantises in steps of no width, or of one below 0; `values` by name.

    Nobody means that, and rewrites that move quantisation divide by it: everything after it is open.
    """
    if node.op_type not in SCALED or len(node.input) < 2:
        return False
    scale = values.get(node.input[1])
    return isinstance(scale, np.ndarray) and not is_scale(scale)


def is_scale(array: Tensor) -> bool:
    """Whether all of it is finite and above 0."""
    wide = widen(array).astype(np.float64)
    return bool((np.isfinite(wide) & (wide > 0)).all())


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    found = (helper.get_attribute_value(each) for each in node.attribute if each.name == name)
    return next(found, default)


def _array(operands: Sequence[Value], index: int) -> Tensor | None:
    value = operands[index] if index < len(operands) else None
    return value if isinstance(value, np.ndarray) else None


def _is_out_of_range(node: NodeProto, operands: Sequence[Value]) -> bool:
    """A float that the integers of the target type do not hold."""
    source, like = _array(operands, 0), _array(operands, 1)
    target = like.dtype if like is not None else DTYPES.get(_attribute(node, "to", TensorProto.FLOAT))
    return source is not None and target is not None and is_beyond(source, target)


def is_beyond(source: Tensor, target: np.dtype[Any]) -> bool:
    """Whether some of these floats do not fit into the integers of a type."""
    if target.kind not in "iu" or not is_float(source) or source.dtype.kind == "c":
        return False
    limits = np.iinfo(target)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(widen(source).astype(np.float64))
        return not bool(((whole >= limits.min) & (whole < float(limits.max) + 1)).all())


def _is_inexact(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Integers that go through a float on the way."""
    source = _array(operands, 0)
    if source is None or source.dtype.kind not in "iu" or source.dtype.itemsize < 8:
        return False
    return bool(((source >= EXACT_INTEGERS) | (source <= -EXACT_INTEGERS)).any())


def _shifts_too_far(node: NodeProto, operands: Sequence[Value]) -> bool:
    source, shift = _array(operands, 0), _array(operands, 1)
    return source is not None and shift is not None and bool((shift >= 8 * source.dtype.itemsize).any())


def _has_negative_exponent(node: NodeProto, operands: Sequence[Value]) -> bool:
    base, exponent = _array(operands, 0), _array(operands, 1)
    if base is None or exponent is None or base.dtype.kind not in "iu":
        return False
    return bool((widen(exponent).astype(np.float64) < 0).any())


def _writes_twice(node: NodeProto, operands: Sequence[Value]) -> bool:
    data, indices = _array(operands, 0), _array(operands, 1)
    if data is None or indices is None or _attribute(node, "reduction", b"none") != b"none":
        return False
    places = _element_places if node.op_type in ("Scatter", "ScatterElements") else _slice_places
    found = places(node, data, indices)
    return len(np.unique(found, axis=0)) < len(found)


def _element_places(node: NodeProto, data: Tensor, indices: Tensor) -> Tensor:
    axis = _attribute(node, "axis", 0) % data.ndim
    places = np.indices(indices.shape)
    places[axis] = indices % data.shape[axis]
    return places.reshape(data.ndim, -1).T


def _slice_places(node: NodeProto, data: Tensor, indices: Tensor) -> Tensor:
    rows = indices.reshape(-1, indices.shape[-1])
    return np.asarray(rows % np.array(data.shape[: rows.shape[1]], dtype=np.int64))


def _is_unsorted(node: NodeProto, operands: Sequence[Value]) -> bool:
    return not _attribute(node, "sorted", 1)


def _takes_maximum(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Of weighted corners, as the reference has it, or of interpolated samples: the text does not say."""
    return bool(_attribute(node, "mode", b"avg") == b"max")


def _is_all_zero(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The scale is then zero by the formula, and what is divided by it anything."""
    source = _array(operands, 0)
    return source is not None and not source.any()


def _overflows(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The least integer has no positive counterpart, and a product may have no place."""
    pair = [each for each in (_array(operands, 0), _array(operands, 1)) if each is not None and each.size]
    if len(pair) < 2 or any(each.dtype.kind not in "iu" for each in pair):
        return False
    largest = [max(abs(int(each.min())), abs(int(each.max()))) for each in pair]
    return (math.prod(largest) if node.op_type == "lcm" else max(largest)) > np.iinfo(pair[0].dtype).max


def _divides_least(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The least integer by -1: the quotient has no place in its type."""
    left, right = _array(operands, 0), _array(operands, 1)
    if left is None or right is None or left.dtype.kind != "i" or right.dtype.kind != "i":
        return False
    return bool((left == np.iinfo(left.dtype).min).any() and (right == -1).any())


def _shifts_backwards(node: NodeProto, operands: Sequence[Value]) -> bool:
    shift = _array(operands, 1)
    return _shifts_too_far(node, operands) or (shift is not None and bool((shift < 0).any()))


def _copies_twice(node: NodeProto, operands: Sequence[Value]) -> bool:
    index = _array(operands, 1)
    return index is not None and len(np.unique(index)) < index.size


def _is_unordered(place: int) -> Check:
    """Whether what must be in order, the operand at this place, is not."""

    def check(node: NodeProto, operands: Sequence[Value]) -> bool:
        found = _array(operands, place)
        return found is not None and not bool((widen(found)[1:] >= widen(found)[:-1]).all())

    return check


_TWICE: dict[str, Check] = {"writes to one place twice": _writes_twice}
_INEXACT: dict[str, Check] = {"integers that a float64 does not hold": _is_inexact}
_CHECKS: dict[str, dict[str, Check]] = {
    "BitShift": {"by as many bits as there are": _shifts_too_far},
    "Cast": {"out of the range of the integers": _is_out_of_range},
    "CastLike": {"out of the range of the integers": _is_out_of_range},
    "DynamicQuantizeLinear": {"of zeros": _is_all_zero},
    "Pow": {**_INEXACT, "an integer to a negative power": _has_negative_exponent},
    "ReduceL2": _INEXACT,
    "ReduceLogSum": _INEXACT,
    "ReduceLogSumExp": _INEXACT,
    "ReduceMean": _INEXACT,
    "RoiAlign": {"a maximum of corners or of samples": _takes_maximum},
    "Scatter": _TWICE,
    "ScatterElements": _TWICE,
    "ScatterND": _TWICE,
    "Shrink": _INEXACT,
    "TopK": {"in no order": _is_unsorted},
    "bitwise_left_shift": {"by as many bits as there are": _shifts_backwards},
    "bitwise_right_shift": {"by as many bits as there are": _shifts_backwards},
    "bucketize": {"boundaries in no order": _is_unordered(1)},
    "div": {"the least integer by -1": _divides_least},
    "floor_divide": {"the least integer by -1": _divides_least},
    "fmod": {"the least integer by -1": _divides_least},
    "gcd": {"beyond the type": _overflows},
    "index_copy": {"writes to one place twice": _copies_twice},
    "lcm": {"beyond the type": _overflows},
    "remainder": {"the least integer by -1": _divides_least},
    "searchsorted": {"boundaries in no order": _is_unordered(0)},
}
OPEN = frozenset(_CHECKS)
"""The operators of which the text leaves something open."""
