"""Interval arithmetic over `Range`: what an operator's results can be, given what its operands can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from oracles.relation.types import ANYTHING, BOOL, DType, Range, extent, is_float


def hull(ranges: Iterable[Range]) -> Range:
    """The least range around several."""
    parts = tuple(ranges)
    return Range(min(r.low for r in parts), max(r.high for r in parts), min(r.magnitude_floor for r in parts))


def within_type(dtype: DType, result: Range) -> Range:
    """Fit a range into an element type: integers wrap around, so they can take any value."""
    if is_float(dtype) or dtype is BOOL:
        return result
    bounds = extent(dtype)
    return result if bounds.low <= result.low and result.high <= bounds.high else bounds


def rounded(value: float) -> float:
    """Three significant digits: a bound may differ in its last bit from one C library to the next."""
    return float(f"{value:.3g}")


def symmetric(magnitude: float) -> Range:
    """The range from minus a magnitude to plus it."""
    return Range(-magnitude, magnitude)


def add(a: Range, b: Range) -> Range:
    """The range of sums."""
    return Range(a.low + b.low, a.high + b.high)


def sub(a: Range, b: Range) -> Range:
    """The range of differences."""
    return Range(a.low - b.high, a.high - b.low)


def mul(a: Range, b: Range) -> Range:
    """The range of products."""
    corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
    return Range(min(corners), max(corners), a.magnitude_floor * b.magnitude_floor)


def div(a: Range, b: Range) -> Range:
    """Anything, where the divisor is not known to be away from zero."""
    floor = b.magnitude_floor
    if not floor:
        return ANYTHING
    if b.low > 0 or b.high < 0:
        corners = (a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high)
        return Range(min(corners), max(corners))
    return symmetric(a.magnitude / floor)


def power(a: Range, b: Range) -> Range:
    """Needs a base above zero, or an exponent that is known."""
    if a.low <= 0:
        most = _power(a.magnitude, b.high)
        return Range(0 if b.low % 2 == 0 else -most, most)
    corners = [_power(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(corners), max(corners))


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def rising(function: Callable[[float], float]) -> Callable[[Range], Range]:
    """The bound of a function that never falls; an overflow is infinite."""

    def bound(a: Range) -> Range:
        return Range(_guarded(function, a.low), _guarded(function, a.high))

    return bound


def _guarded(function: Callable[[float], float], x: float) -> float:
    try:
        return function(x)
    except OverflowError:
        return math.inf


def magnitude(a: Range) -> Range:
    """The bound of the absolute value."""
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Range(low, a.magnitude, a.magnitude_floor)


def clamp(a: Range, low: float, high: float) -> Range:
    """The range within two limits."""
    return Range(min(max(a.low, low), high), max(min(a.high, high), low))
