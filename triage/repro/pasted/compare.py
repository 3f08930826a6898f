"""Comparing two runs' outputs with numpy alone, as the judge does; this text goes into a `repro.py`."""

from __future__ import annotations

from typing import Any

import numpy as np


def difference(expected: Any, actual: Any, rtol: float, atol: float) -> Any:
    """Return the first difference of two lists of (name, element type, array): (kind, text), or None."""
    for place, (name, element, left) in enumerate(expected):
        _, other, right = actual[place]
        if element != other:
            return "dtype", f"{name}: {element} against {other}"
        if left.shape != right.shape:
            return "shape", f"{name}: shape {left.shape} against {right.shape}"
    for place, (name, element, left) in enumerate(expected):
        found = difference_of_values(widen(element, left), widen(element, actual[place][2]), rtol, atol)
        if found:
            return found[0], f"{name}: {found[1]}"
    return None


def difference_of_values(left: Any, right: Any, rtol: float, atol: float) -> Any:
    if left.dtype.kind not in "fc":
        wrong = left != right
    else:
        nan_left, nan_right = np.isnan(left), np.isnan(right)
        if (nan_left != nan_right).any():
            return "nan", f"NaN at {nan_left.sum()} against {nan_right.sum()} of {left.size} elements"
        wrong = ~np.isclose(right, left, rtol, atol, equal_nan=True)
    if not wrong.any():
        return None
    place = tuple(int(each) for each in np.argwhere(wrong)[0])
    where = (
        f"at {place}: {left[place]} against {right[place]}" if place else f"{left[()]} against {right[()]}"
    )
    return "value", f"{wrong.sum()} of {left.size} elements differ, the first {where}"


def widen(element: str, data: Any) -> Any:
    """Bit patterns as numbers that numpy can compare; everything else as it is."""
    if element == "bfloat16":
        return (data.astype("uint32") << 16).view("float32").astype("float64")
    if element in VALUES_OF_BITS:
        return np.array(VALUES_OF_BITS[element])[data]
    return data.astype("float64") if element in ("float16", "float32") else data


VALUES_OF_BITS: Any = {}
