"""Boxes: an interval for every element of a tensor, and what may be told of them without an operator.

A value is finite or it is no value, so bounds are finite numbers, never infinities. NaN marks an element for
which nothing is left; it spreads to whatever is computed with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST = 3.4e38
"""The end of what float32 holds."""

SLACK = 1e-6
"""By how much of a bound a float32 may be off by rounding."""

EXACT = 1e-12
"""The same of what is computed here."""


class Box(NamedTuple):
    """The least and the greatest value of each element."""

    low: Array
    high: Array

    @property
    def is_point(self) -> bool:
        """Whether every element has one value."""
        return bool((self.low == self.high).all())

    def fitted(self, shape: tuple[int, ...]) -> Box:
        """Return the box of an operand of this shape, which was broadcast: what all of its copies may be."""
        if self.low.shape == shape:
            return self
        extra = tuple(range(self.low.ndim - len(shape)))
        low, high = self.low.max(axis=extra), self.high.min(axis=extra)
        wide = tuple(at for at, dim in enumerate(shape) if dim == 1 and low.shape[at] != 1)
        return Box(low.max(axis=wide, keepdims=True), high.min(axis=wide, keepdims=True))


def point(value: Array) -> Box:
    """Return the box that holds these values alone."""
    return Box(value, value)


def anything(shape: tuple[int, ...]) -> Box:
    """Return the box that holds every finite value."""
    return Box(np.full(shape, -MOST), np.full(shape, MOST))


def bounded(low: Array, high: Array) -> Box:
    """Return a box of bounds that were computed, held within the type; empty if it lies beyond its end."""
    none = (low > MOST) | (high < -MOST)
    return Box(
        np.where(none, np.nan, np.clip(low, -MOST, MOST)), np.where(none, np.nan, np.clip(high, -MOST, MOST))
    )


def meet(one: Box, other: Box) -> Box:
    """Return what lies in both, element by element; NaN where nothing does."""
    low, high = np.maximum(one.low, other.low), np.minimum(one.high, other.high)
    with np.errstate(invalid="ignore"):
        crossed = low > high
        apart = low - high > EXACT * np.maximum(np.abs(low), np.abs(high))
    middle = (low + high) / 2
    low, high = np.where(crossed, middle, low), np.where(crossed, middle, high)
    return Box(np.where(apart, np.nan, low), np.where(apart, np.nan, high))


def widened(box: Box) -> Box:
    """Return the box with rounding included."""
    return bounded(box.low - SLACK * np.abs(box.low), box.high + SLACK * np.abs(box.high))


def where(condition: NDArray[np.bool_], one: Box, other: Box) -> Box:
    """Return one box where a condition holds, and another elsewhere."""
    return Box(np.where(condition, one.low, other.low), np.where(condition, one.high, other.high))


def is_empty(box: Box) -> bool:
    """Return whether nothing is left for some element."""
    return bool(np.isnan(box.low).any())
