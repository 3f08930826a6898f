"""What stands in inputs and initializers: plain values inside a range, or the hazards of the element type."""

from __future__ import annotations

import math
from typing import NamedTuple

import ml_dtypes
import numpy as np

from corpus.values import Tensor
from generators.language.random_source import RandomSource
from oracles.relation.types import (
    ANYTHING,
    BOOL,
    NUMPY,
    TEXT,
    TRUTH,
    DType,
    Range,
    Shape,
    extent,
    is_float,
)

# A plain float is drawn from one of these; steps make equal values and exact results likely.
_FLOAT_RANGES = (
    Range(-1, 1),
    Range(-4, 4),
    Range(0, 1),
    Range(0.5, 2),
    Range(-2, -0.25),
    Range(-10, 10),
)
_FLOAT_STEPS = (0.0, 0.0, 0.25, 1.0)
_SIGNED_RANGES = (
    Range(-4, 4),
    Range(-10, 10),
    Range(1, 5),
    Range(1, 100),
    Range(-9, -1),
    Range(-1, 1),
    Range(-120, 120),
)
_UNSIGNED_RANGES = (Range(0, 4), Range(0, 10), Range(1, 5), Range(1, 100), Range(0, 250))
# Whole tensors of one round value come at one rate; a number on its own is mostly round, as in real models.
_SPLAT_RATE, _ROUND_RATE = 0.25, 0.6
_SPLATS = (0.0, 1.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, 6.0)
_WORDS = ("a", "ab", "Ab", "A b", "b,a", "12", "-3.5", "", "z", "zürich", "a,b,c", "x  y")


class Content(NamedTuple):
    """An array, and bounds that hold for it."""

    array: Tensor
    range: Range


def hazards(dtype: DType) -> tuple[float, ...]:
    """The values at which arithmetic of a type changes its character; finite ones only."""
    if dtype in (BOOL, TEXT):
        return ()
    if is_float(dtype):
        info = ml_dtypes.finfo(NUMPY[dtype])
        tiny = (float(info.smallest_subnormal), float(info.tiny), -float(info.tiny))
        return (-0.0, 0.0, *tiny, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, 1024.0, -1024.0)
    low, high, _ = extent(dtype)
    near = (low, low + 1, high - 1, high, 0, 1, 2)
    return (*near, -1, -2) if low < 0 else near


def draw(
    draws: RandomSource, dtype: DType, shape: Shape, within: Range | None = None, hazardous: bool = False
) -> Content:
    """An array of the type inside the range; drawn from the hazards that lie in it where `hazardous`."""
    if dtype is BOOL:
        return _draw_truth(draws, shape)
    if dtype is TEXT:
        return _draw_text(draws, shape, within)
    bounds = within or extent(dtype)
    if hazardous:
        fitting = [value for value in hazards(dtype) if Range(value, value, abs(value)).is_within(bounds)]
        if fitting:
            return _draw_among(draws, dtype, shape, fitting)
    if draws.chance(_SPLAT_RATE if math.prod(shape) > 1 else _ROUND_RATE):
        fitting = [value for value in _SPLATS if _fits(dtype, value, bounds)]
        if fitting:
            return _draw_among(draws, dtype, shape, [draws.pick(fitting)])
    plain = _plain_range(draws, dtype, bounds)
    return (
        _draw_floats(draws, dtype, shape, plain)
        if is_float(dtype)
        else _draw_ints(draws, dtype, shape, plain)
    )


_SMALL = 16
"""Elements that are faster looked at one by one."""


def fixed(array: Tensor) -> Content:
    """Content whose range is read from the array itself."""
    if array.size == 0:
        return Content(array, Range(0, 0))
    if array.dtype.kind in "UO":
        return Content(array, ANYTHING)
    if array.dtype.isbuiltin == 2:
        array, given = array.astype(np.float64), array
        return Content(given, fixed(array).range)
    if array.size <= _SMALL:
        items = array.reshape(-1).tolist()
        return Content(array, Range(min(items), max(items), float(min(map(abs, items)))))
    low, high = array.min().item(), array.max().item()
    return Content(array, Range(low, high, float(np.abs(array.astype(np.float64)).min())))


def _fits(dtype: DType, value: float, bounds: Range) -> bool:
    if not Range(value, value, abs(value)).is_within(bounds):
        return False
    return is_float(dtype) or (value == int(value) and Range(value, value).is_within(extent(dtype)))


def _plain_range(draws: RandomSource, dtype: DType, bounds: Range) -> Range:
    """One of the usual ranges where it overlaps the bounds, else the bounds themselves, kept small."""
    if is_float(dtype):
        usual = draws.pick(_FLOAT_RANGES)
    else:
        usual = draws.pick(_SIGNED_RANGES if extent(dtype).low < 0 else _UNSIGNED_RANGES)
    bounds = _meet(bounds, extent(dtype))
    met = _meet(usual, bounds)
    if met.low > met.high or met.magnitude < bounds.away:
        low = max(bounds.low, min(-bounds.away - 4, bounds.high - 4))
        met = Range(low, min(bounds.high, max(low + 4, bounds.away + 4)))
    return Range(met.low, met.high, bounds.away)


def _meet(a: Range, b: Range) -> Range:
    return Range(max(a.low, b.low), min(a.high, b.high), max(a.away, b.away))


def _draw_truth(draws: RandomSource, shape: Shape) -> Content:
    words = draws.words(math.prod(shape))
    return Content((words & 1).astype(np.bool_).reshape(shape), TRUTH)


def _draw_text(draws: RandomSource, shape: Shape, within: Range | None) -> Content:
    """Words; where bounds are given, numerals within them."""
    if within is None or within == ANYTHING:
        words: tuple[str, ...] = _WORDS
        bounds = ANYTHING
    else:
        low, high = int(max(within.low, -99)), int(min(within.high, 99))
        words, bounds = tuple(map(str, range(low, high + 1))), Range(low, high)
    chosen = [draws.pick(words) for _ in range(math.prod(shape))]
    return Content(np.array(chosen, dtype=np.str_).reshape(shape), bounds)


def _draw_among(draws: RandomSource, dtype: DType, shape: Shape, values: list[float]) -> Content:
    table = np.array(values, dtype=NUMPY[dtype])
    array = table[draws.words(math.prod(shape)) % len(values)].reshape(shape)
    return Content(array, Range(min(values), max(values), min(abs(value) for value in values)))


def _draw_ints(draws: RandomSource, dtype: DType, shape: Shape, bounds: Range) -> Content:
    low, high = int(bounds.low), int(bounds.high)
    array = draws.words(math.prod(shape)) % (high - low + 1) + np.int64(low)
    if bounds.away and low < 0 < high:
        array[array == 0] = high
    elif bounds.away:
        array[array == 0] = low or high
    return Content(np.asarray(array, dtype=NUMPY[dtype]).reshape(shape), bounds)


def _draw_floats(draws: RandomSource, dtype: DType, shape: Shape, bounds: Range) -> Content:
    low, high, away = bounds
    step = draws.pick(_FLOAT_STEPS)
    array = low + (high - low) * (draws.words(math.prod(shape)) / 2.0**32)
    if step:
        array = np.clip(np.round(array / step) * step, low, high)
    if away:
        array[np.abs(array) < away] = high if high >= away else low
    return Content(np.asarray(array, dtype=NUMPY[dtype]).reshape(shape), bounds)


_NONFINITE = (np.nan, np.inf, -np.inf)
_MOST_NONFINITE = 3


def with_some_nonfinite(draws: RandomSource, array: Tensor) -> Tensor:
    """The array with one to three elements that are NaN or infinite."""
    changed = array.copy()
    for _ in range(1 + draws.below(_MOST_NONFINITE)):
        changed.reshape(-1)[draws.below(array.size)] = draws.pick(_NONFINITE)
    return changed
