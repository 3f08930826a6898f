"""Comparing two values: whether they differ beyond a tolerance, in what way and where.

A tensor differs first in its dtype, then in its shape, then in where its NaNs are, then in its values.
Integers, booleans and strings are compared exactly; small floats (bfloat16, float8, …) through float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus.values import Tensor, Value, is_float, widen

Mask = NDArray[np.bool_]
EXTENSION_EPSILON = {"bfloat16": 2.0**-7}
LEAST = 1e-35
"""Below this a float32 is nearly denormal, and some ways of a backend flush it to zero."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Values are equal within `atol + rtol * |expected|`.

    With `ulps` above 0 they also differ if more than this many units in the last place of the tensor's
    greatest value lie between them. Such a small difference is a wrong result only if float64 confirms it.
    """

    rtol: float = 1e-2
    atol: float = 1e-3
    ulps: float = 0.0

    @property
    def plain(self) -> Tolerance:
        """The same without the search for small differences."""
        return Tolerance(self.rtol, self.atol)


SMALL_ULPS = 128.0
"""What `--tolerance auto` looks at: kernels that sum in another order stay below it as a rule."""

AUTO = Tolerance(ulps=SMALL_ULPS)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between `actual` and `expected`.

    `kind` is `presence`, `dtype`, `shape`, `nan` or `value`; `where` the index of the greatest difference,
    `first` of the first one, `count` of `size` elements differ, `magnitude` is the greatest absolute one.
    `mask` marks the elements that differ, `unconfirmed` those that are wrong only if a true value says so.
    `is_small` says that all distances are like rounding, `untold` that no noisy run covered any of them.
    """

    kind: str
    output: str
    details: str
    first: tuple[int, ...] = ()
    where: tuple[int, ...] = ()
    count: int = 0
    size: int = 0
    magnitude: float = 0.0
    mask: Mask | None = field(default=None, repr=False, compare=False)
    unconfirmed: Mask | None = field(default=None, repr=False, compare=False)
    is_small: bool = False
    untold: bool = False

    def __str__(self) -> str:
        return f"{self.output}: {self.details}"


def compare_outputs(
    expected: Mapping[str, Value], actual: Mapping[str, Value], tolerance: Tolerance
) -> Difference | None:
    """The first output that differs, a difference of shape or dtype before one of values; else None.

    A run that only compiled has no outputs at all: there is nothing to compare.
    """
    if not actual:
        return None
    found: Difference | None = None
    for name, value in expected.items():
        difference = compare(name, value, actual.get(name), tolerance)
        if difference is not None and difference.kind not in ("nan", "value"):
            return difference
        found = found or difference
    return found


def in_parts(
    expected: Mapping[str, Value], actual: Mapping[str, Value]
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Both with sequences of one length taken apart, so that each tensor of them is weighed by itself."""
    lefts, rights = dict[str, Value](), dict[str, Value]()
    for name, left in expected.items():
        right = actual.get(name)
        if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            inner = in_parts(
                *({f"{name}#{i}": item for i, item in enumerate(each)} for each in (left, right))
            )
            lefts |= inner[0]
            rights |= inner[1]
        else:
            lefts[name], rights[name] = left, right
    return lefts, rights


def part_of(outputs: Mapping[str, Value], name: str) -> Value:
    """An output, or a tensor of a sequence by the name that `in_parts` gives it; None if there is none."""
    if name in outputs or "#" not in name:
        return outputs.get(name)
    whole, _, place = name.rpartition("#")
    items = part_of(outputs, whole)
    is_there = isinstance(items, list) and place.isdecimal() and int(place) < len(items)
    return items[int(place)] if isinstance(items, list) and is_there else None


def compare(name: str, expected: Value, actual: Value, tolerance: Tolerance) -> Difference | None:
    """The first difference of two values beyond the tolerance; None if there is none."""
    if expected is actual:
        return None
    if expected is None or actual is None:
        missing = "expected" if expected is None else "actual"
        return Difference("presence", name, f"the {missing} value is absent")
    if isinstance(expected, list) or isinstance(actual, list):
        if not (isinstance(expected, list) and isinstance(actual, list)):
            return Difference("dtype", name, "one value is a sequence, the other a tensor")
        if len(expected) != len(actual):
            return Difference("shape", name, f"a sequence of {len(actual)} against {len(expected)} expected")
        for i, (left, right) in enumerate(zip(expected, actual, strict=True)):
            difference = compare(f"{name}#{i}", left, right, tolerance)
            if difference is not None:
                return difference
        return None
    return compare_tensors(name, expected, actual, tolerance)


def compare_tensors(name: str, expected: Tensor, actual: Tensor, tolerance: Tolerance) -> Difference | None:
    """The difference of two tensors: of dtype, of shape, or of elements."""
    expected, actual = np.asarray(expected), np.asarray(actual)
    if _kind(expected) != _kind(actual):
        return Difference("dtype", name, f"dtype {actual.dtype} against {expected.dtype} expected")
    if expected.shape != actual.shape:
        return Difference("shape", name, f"shape {actual.shape} against {expected.shape} expected")
    if _is_bitwise_equal(expected, actual):
        return None
    mask = differing(expected, actual, tolerance)
    return describe(name, expected, actual, mask) if mask.any() else None


def _kind(tensor: Tensor) -> str:
    return "str" if tensor.dtype.kind in "USOT" else str(tensor.dtype)


def _is_bitwise_equal(left: Tensor, right: Tensor) -> bool:
    if left.dtype.kind in "USOT":
        return False
    return left.tobytes() == right.tobytes()


def nan_mask(tensor: Tensor) -> Mask:
    """Mark the NaN elements of a tensor."""
    return np.isnan(widen(tensor)) if is_float(tensor) else np.zeros(tensor.shape, bool)


def differing(expected: Tensor, actual: Tensor, tolerance: Tolerance) -> Mask:
    """Mark where two tensors of one dtype and shape differ. NaN equals NaN, an infinity only itself."""
    if not is_float(expected):
        return np.asarray(expected != actual)
    left, right = widen(expected), widen(actual)
    with np.errstate(all="ignore"):
        close = np.abs(left - right) <= tolerance.atol + tolerance.rtol * np.abs(left)
        # rtol * inf would swallow every finite value: a non-finite element equals only itself
        close &= np.isfinite(left) & np.isfinite(right)
        if tolerance.ulps:
            close &= np.abs(left - right) <= small(expected, tolerance)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.asarray(~(close | same))


def small(expected: Tensor, tolerance: Tolerance) -> float:
    """The distance up to which rounding may part two results: relative to the greatest finite value."""
    wide = np.abs(widen(expected))
    greatest = float(np.max(wide, where=np.isfinite(wide), initial=0.0))
    return greatest * min(tolerance.ulps * epsilon(expected.dtype), tolerance.rtol) + LEAST


def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number of a float or complex dtype; 1 for those of 8 bits and less."""
    if dtype.name in EXTENSION_EPSILON:
        return EXTENSION_EPSILON[dtype.name]
    is_numpys = dtype.isbuiltin == 1  # ml_dtypes has one of 8 bits that says it is a float, like numpy's
    return float(np.finfo(dtype).eps) if is_numpys and dtype.kind in "fc" else 1.0


def distance(expected: Tensor, actual: Tensor) -> NDArray[np.float64]:
    """The absolute difference of each element; infinite where just one is finite, 0 or 1 for strings.

    Integers that a float64 does not tell apart are subtracted as integers.
    """
    if expected.dtype.kind in "USOT":
        return np.asarray(expected != actual).astype(np.float64)
    if expected.dtype == actual.dtype and expected.dtype.kind in "iu":
        low, high = np.minimum(expected, actual), np.maximum(expected, actual)
        return np.asarray(np.subtract(high.astype(np.uint64), low.astype(np.uint64)), np.float64)
    left, right = widen(expected), widen(actual)
    with np.errstate(all="ignore"):
        if left.dtype.kind != "c":
            left, right = left.astype(np.float64), right.astype(np.float64)
        apart = np.abs(left - right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.asarray(np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart)))


def describe(name: str, expected: Tensor, actual: Tensor, mask: Mask) -> Difference:
    """The difference at the elements of a mask, told by the greatest."""
    apart = np.where(mask, distance(expected, actual), -1.0)
    where = _index(int(np.argmax(apart)), mask.shape)
    count, size = int(mask.sum()), int(mask.size)
    kind = "nan" if bool((nan_mask(expected) != nan_mask(actual))[mask].any()) else "value"
    pair = f"{shown(actual[where])} against {shown(expected[where])} expected"
    found = Difference(kind, name, f"{count} of {size} elements differ, most at {list(where)}: {pair}")
    first = _index(int(np.argmax(mask)), mask.shape)
    found = replace(found, first=first, where=where, magnitude=float(apart[where]))
    return replace(found, count=count, size=size, mask=mask)


def shown(element: object) -> str:
    """An element of a tensor for a person: a string in quotes, so that an empty one is seen."""
    return repr(str(element)) if isinstance(element, str) else str(element)


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
