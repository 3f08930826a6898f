"""In what way two results differ, in a word that tells bugs apart and not data."""

import math
from collections.abc import Collection, Mapping

import numpy as np
from onnx import NodeProto

from corpus.values import Tensor, Value, is_float, widen
from oracles.numerics.compare import Difference, Mask, Tolerance, compare, differing
from oracles.numerics.input_noise import EPSILON, element_of
from oracles.operators import arithmetic_of

SEVEN_BITS = 64
"""The greatest weight of which two products with any uint8 fit into 16 bits."""


def mismatch_kind(expected: Mapping[str, Value], actual: Mapping[str, Value], tolerance: Tolerance) -> str:
    """The kind of the first difference; `value` where no word fits, empty where nothing differs."""
    for name, value in expected.items():
        difference = compare(name, value, actual.get(name), tolerance)
        if difference is None:
            continue
        other = actual.get(name)
        is_values = difference.kind == "value"
        if is_values and isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
            return kind_of_values(value, other, differing(value, other, tolerance))
        return difference.kind
    return ""


def kind_of_values(expected: Tensor, actual: Tensor, where: Mask) -> str:
    """Name how the elements under the mask differ; a word fits only if all of them do."""
    if expected.dtype.kind not in "biufcV":
        return "value"
    left, right = widen(expected)[where], widen(actual)[where]
    if is_float(expected):
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            return "inf"
        if not right.any() or not left.any():
            return "zeros"
        if np.array_equal(left, -right):
            return "sign"
        return "value"
    return _integer_kind(expected, left.astype(np.float64), right.astype(np.float64))


def _integer_kind(expected: Tensor, left: Tensor, right: Tensor) -> str:
    if expected.dtype.kind == "b":
        return "value"
    if (np.abs(left - right) == 1).all():
        return "off by one"
    if np.array_equal(left, -right):
        return "sign"
    if expected.dtype.kind in "iu":
        limits = np.iinfo(expected.dtype)
        if np.isin(right, (limits.min, limits.max)).all() or np.isin(left, (limits.min, limits.max)).all():
            return "saturation"
    return "zeros" if not right.any() or not left.any() else "value"


def ulp_band(expected: Tensor, actual: Tensor, where: Mask) -> str:
    """The greatest distance of floats in ulps of the expected value, as a power of two."""
    element = element_of(expected.dtype)
    if element is None or not where.any():
        return "value"
    left, right = (widen(each).astype(np.float64)[where] for each in (expected, actual))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ulps = float((np.abs(left - right) / (np.abs(left) * EPSILON[element])).max())
    return f"2^{math.ceil(math.log2(ulps))} ulps" if 0 < ulps < math.inf else "value"


def finest_kind(difference: Difference, expected: Value, actual: Value) -> str:
    """The kind of one difference, of plain float values the band of its size."""
    mask = difference.mask
    if difference.kind != "value" or mask is None:
        return difference.kind
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return difference.kind
    kind = kind_of_values(expected, actual, mask)
    return ulp_band(expected, actual, mask) if kind == "value" and is_float(expected) else kind


def left_open(node: NodeProto, values: Mapping[str, Value]) -> str:
    """Say why the node's result is not defined on its operands, `values` by name; empty if it is defined."""
    operands = [values.get(name) for name in node.input]
    for reason, check in arithmetic_of(node).opens.items():
        if check(node, operands):
            return f"{node.op_type}: {reason}"
    return ""


def has_no_scale(node: NodeProto, values: Mapping[str, Value]) -> bool:
    """Whether a node quantises in steps of no width, or of one below 0; `values` by name.

    Nobody means that, and rewrites that move quantisation divide by it: everything after it is open.
    """
    names = list(node.input) if is_linear(node) else node.input[1:2] if arithmetic_of(node).has_scale else []
    scales = [value for value in map(values.get, names) if isinstance(value, np.ndarray)]
    return any(is_float(scale) and not is_scale(scale) for scale in scales)


def is_linear(node: NodeProto) -> bool:
    """Whether all floats that a node reads are scales."""
    return node.op_type.startswith("QLinear")


def exceeds(array: Tensor, dtype: str, *, is_position: bool = False) -> bool:
    """Whether the dtype cannot hold some integer of an array; extremes of a position mean the end."""
    own, limits = np.iinfo(array.dtype), np.iinfo(dtype)
    outside = (array < limits.min) | (array > limits.max)
    if is_position:
        outside &= (array != own.min) & (array != own.max)
    return bool(outside.any())


EXACT = {"Abs": np.abs, "Add": np.add, "Mul": np.multiply, "Neg": np.negative, "Sub": np.subtract}


def overflows(node: NodeProto, values: Mapping[str, Value], dtypes: Collection[str]) -> bool:
    """Whether the exact result of integer arithmetic leaves its type, one of these of at most 32 bits."""
    operands = [values.get(name) for name in node.input]
    arrays = [each for each in operands if isinstance(each, np.ndarray) and each.dtype.name in dtypes]
    if node.op_type not in EXACT or not arrays or len(arrays) < len(operands):
        return False
    exact = EXACT[node.op_type](*(each.astype(np.int64) for each in arrays))
    return exceeds(exact, arrays[0].dtype.name)


def may_flush(node: NodeProto, values: Mapping[str, Value], dtypes: Collection[str]) -> bool:
    """Whether a sum may have terms, products of floats of these types, that are below their least normal one.

    No tensor shows such a term: of tiny numbers the root of a sum of squares becomes 0 if the squares do.
    """
    operands = [values.get(name) for name in node.input] if arithmetic_of(node).is_sum else []
    floats = [each for each in operands if isinstance(each, np.ndarray) and each.dtype.name in dtypes]
    return any(_has_below(each, math.sqrt(_least_normal(each))) for each in floats)


def has_subnormal(array: Tensor) -> bool:
    """Whether an array of floats has a number but 0 below the least normal one of its type."""
    return _has_below(array, _least_normal(array))


def _least_normal(array: Tensor) -> float:
    return float(np.finfo(widen(array).dtype).tiny)


def _has_below(array: Tensor, least: float) -> bool:
    sizes = np.abs(widen(array))
    return bool(((sizes > 0) & (sizes < least)).any())


def may_saturate(weights: Value) -> bool:
    """Whether two products of int8 weights with uint8 may pass 16 bits; those of seven bits may not."""
    if not isinstance(weights, np.ndarray) or weights.dtype != np.int8 or weights.ndim < 2:
        return False
    return int(np.abs(weights.astype(np.int16)).max(initial=0)) > SEVEN_BITS


def is_scale(array: Tensor) -> bool:
    """Whether all of it is finite and above 0."""
    wide = widen(array).astype(np.float64)
    return bool((np.isfinite(wide) & (wide > 0)).all())
