"""Where an operator changes its character: values at which one that is nearly right is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import ml_dtypes
import numpy as np

from oracles.relation.types import BOOL, NUMPY, TEXT, DType, Range, extent, is_float

Values = Callable[[DType], tuple[float, ...]]

_REACH = 0.75
"""The share of the largest float that a program at extremes may compute: rounding does not overflow."""


class Edges(NamedTuple):
    """The edges of one operator beside those of its element types.

    `values` are allowed as they are, even outside of its domain, which is for values that rounding may move.
    `is_wide`: while operands and result are finite, nothing overflows inside, however large or small they
    are, alone or fused with its neighbours.
    """

    values: Values = lambda dtype: ()
    is_wide: bool = False

    def at(self, dtype: DType, within: Range | None = None) -> tuple[float, ...]:
        """Its edges in an element type: its own, and those of the type that lie in the bounds."""
        if within is None:
            return tuple(dict.fromkeys((*self.values(dtype), *of_type(dtype))))
        ends = (each for each in (within.low, within.high) if math.isfinite(each))
        limit = extent(dtype)
        held = ends if is_float(dtype) else (int(each) for each in ends if limit.low <= each <= limit.high)
        found = dict.fromkeys((*held, *self.values(dtype), *of_type(dtype)))
        return tuple(each for each in found if Range(each, each, abs(each)).is_within(within))


@cache
def of_type(dtype: DType) -> tuple[float, ...]:
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


@cache
def reach(dtype: DType) -> Range:
    """The values that a program at extremes may compute, unlike `extent` nearly all that are finite."""
    if not is_float(dtype):
        return extent(dtype)
    most, usual = _REACH * float(ml_dtypes.finfo(NUMPY[dtype]).max), extent(dtype)
    return Range(min(-most, usual.low), max(most, usual.high))


def at(*points: float) -> Values:
    """These points, in any float type."""
    return lambda dtype: points if is_float(dtype) else ()


def near(*points: float) -> Values:
    """Points and their neighbours towards zero, in any float type."""

    def values(dtype: DType) -> tuple[float, ...]:
        found = points if is_float(dtype) else ()
        return tuple(each for point in found for each in (point, _beside(dtype, point, 0.0)))

    return values


@cache
def ties(dtype: DType) -> tuple[float, ...]:
    """Halves, where rounding goes to the even neighbour, and one ulp to both sides; of floats."""
    if not is_float(dtype):
        return ()
    halves = (0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 126.5, 127.5, -128.5)
    return tuple(
        each
        for half in halves
        for each in (half, _beside(dtype, half, math.inf), _beside(dtype, half, -math.inf))
    )


@cache
def powers(dtype: DType) -> tuple[float, ...]:
    """Powers of two with their neighbours, of both signs where there are two; of integers.

    The middle ones are such that a product of two needs one bit more than there are, or just none.
    """
    if is_float(dtype) or dtype in (BOOL, TEXT):
        return ()
    low, high, _ = extent(dtype)
    bits = int(high).bit_length()
    sizes = (2 ** (bits // 2), 2 ** ((bits + 1) // 2), 2 ** (bits - 1), 4, 8, 64)
    around = [sign * size + more for size in sizes for more in (-1, 0, 1) for sign in (1, -1)]
    return tuple(each for each in around if low <= each <= high)


@cache
def magnitudes(dtype: DType) -> tuple[float, ...]:
    """Huge and tiny magnitudes, tiny ones still normal; of floats that have room for them."""
    if not is_float(dtype):
        return ()
    most = math.frexp(reach(dtype).high)[1] - 4
    sizes = [1.5 * 2.0**exponent for exponent in (most, most // 2, -most // 2, 2 - most)]
    return tuple(sizes)


def scale(dtype: DType) -> tuple[float, ...]:
    """The magnitudes with both signs."""
    return tuple(sign * size for size in magnitudes(dtype) for sign in (1, -1))


def both(*rules: Values) -> Values:
    """All values of several rules."""
    return lambda dtype: tuple(each for rule in rules for each in rule(dtype))


def _beside(dtype: DType, value: float, towards: float) -> float:
    """The next value of the type in a direction."""
    kind = NUMPY[dtype]
    return float(np.nextafter(kind.type(value), kind.type(towards)))


TYPE = Edges()
"""No edges but those of the element types."""
WIDE = Edges(both(scale, powers), is_wide=True)
"""Of any magnitude that is finite, and around powers of two."""
TIES = Edges(ties)
SATURATES = Edges(at(-104.0, -20.0, -9.0, -3.0, 3.0, 9.0, 20.0, 104.0), is_wide=True)
"""Flat far from zero: where kernels clamp, or stop to compute an exponential."""
