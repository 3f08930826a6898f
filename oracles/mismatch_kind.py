"""In what way two results differ, in a word that tells bugs apart and not data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from corpus.values import Tensor, Value
from oracles.compare import Mask, Tolerance, compare, differing, is_float, widen


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
    """How the elements under the mask differ: all of them must, for a word to fit."""
    if expected.dtype.kind not in "biufcV":
        return "value"
    left, right = widen(expected)[where], widen(actual)[where]
    if is_float(expected):
        return _float_kind(left, right)
    return _integer_kind(expected, left.astype(np.float64), right.astype(np.float64))


def _float_kind(left: Tensor, right: Tensor) -> str:
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        return "inf"
    if not right.any() or not left.any():
        return "zeros"
    if np.array_equal(left, -right):
        return "sign"
    return "value"


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
