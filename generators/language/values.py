"""What stands in inputs and initializers: plain values inside a range, or the hazards of the element type."""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpus.values import Tensor
from oracles.relation.edges import reach
from oracles.relation.program import MAX_RANK
from oracles.relation.types import (
    ANYTHING,
    BOOL,
    NUMPY,
    TEXT,
    TRUTH,
    DType,
    Range,
    Shape,
    broadcast,
    extent,
    is_float,
)

T = TypeVar("T")

_EXTENTS = {0: 0.5, 1: 2.0, 127: 0.15, 129: 0.15}
_EXTENTS |= dict.fromkeys((2, 3, 5, 7, 8, 9, 11, 13, 15, 16, 17), 1.0)
_EXTENTS |= dict.fromkeys((23, 31, 32, 33, 63, 64, 65), 0.5)


class RandomSource:
    """A seeded stream; rests only on `Random.random` and `getrandbits`, which Python promises to keep."""

    def __init__(self, seed: str) -> None:
        source = random.Random(seed)
        self.random = source.random
        self._bits = source.getrandbits

    def below(self, bound: int) -> int:
        """A whole number from 0 on, below the bound."""
        return int(self.random() * bound)

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self.random() * (high - low + 1))

    def extent(self) -> int:
        """A size of a symbolic dim: none, one, a prime, or one about the widths of vectors and tiles."""
        return self.weighted(tuple(_EXTENTS), tuple(_EXTENTS.values()))

    def binned(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, of bins between powers of two, all alike (NNSmith §3.3).

        Zero is a bin of its own, and so is one; bins below zero mirror those above.
        """
        bins = [(0, 0)] if low <= 0 <= high else []
        power = 1
        while power <= max(high, -low):
            for first, last in ((power, 2 * power - 1), (1 - 2 * power, -power)):
                if first <= high and last >= low:
                    bins.append((max(first, low), min(last, high)))
            power *= 2
        return self.between(*self.pick(bins))

    def amount(self, usual: Sequence[int], most: int, rate: float) -> int:
        """One of the usual numbers, or as often as `rate` says one of a bin up to `most`.

        Where usual ones lie below zero, so do bins. A rate of 0 draws what `pick` does.
        """
        if rate and self.chance(rate):
            low = min(usual)
            return self.binned(min(low, -most) if low < 0 else low, max(most, low))
        return self.pick(usual)

    def chance(self, probability: float) -> bool:
        """Whether something of that probability happens."""
        return self.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, each as likely."""
        return items[int(self.random() * len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """One of the items, by their weights."""
        totals = list(accumulate(weights))
        return items[min(bisect_right(totals, self.random() * totals[-1]), len(items) - 1)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items, in the order drawn."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]

    def words(self, count: int) -> NDArray[np.uint32]:
        """Uniform 32-bit words."""
        raw = self._bits(32 * count).to_bytes(4 * count, "little") if count else b""
        return np.frombuffer(raw, dtype="<u4")


# A plain float is drawn from one of these; steps make equal values and exact results likely.
_FLOAT_RANGES = (Range(-1, 1), Range(-4, 4), Range(0, 1), Range(0.5, 2), Range(-2, -0.25), Range(-10, 10))
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


def draw(
    draws: RandomSource, dtype: DType, shape: Shape, within: Range | None = None, near: Sequence[float] = ()
) -> Content:
    """An array of the type inside the range; where there are values to be `near`, an array of those."""
    if dtype is BOOL:
        return _draw_truth(draws, shape)
    if dtype is TEXT:
        return _draw_text(draws, shape, within)
    bounds = within or extent(dtype)
    if near:
        some = draws.sample(near, min(draws.between(1, _FEW_EDGES), len(near)))
        return _draw_among(draws, dtype, shape, some if is_float(dtype) and draws.chance(0.5) else list(near))
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


_WHOLE_FROM = 2.0**52
"""From here on there are no steps between floats."""
_FEW_EDGES = 3
"""Half of the arrays of floats at edges hold no more different values: narrow ranges let more follow."""
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
    limit = extent(dtype)
    if bounds.low <= limit.high and bounds.high >= limit.low:
        bounds = _meet(bounds, limit)
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
    if step and bounds.magnitude < _WHOLE_FROM:
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


def suits(shape: Shape, other: Shape, most: int) -> bool:
    """Whether two shapes broadcast to one of at most so many elements."""
    joined = broadcast(shape, other)
    if joined is None:
        return False
    return math.prod(joined) <= most


def is_in_budget(dtype: DType, shape: Shape, bounds: Range, is_wide: bool, most: int) -> bool:
    """Whether a result is small enough, empty dims taken for one, and finite with room to spare."""
    size = math.prod(shape) or math.prod(max(dim, 1) for dim in shape)
    if size > most or len(shape) > MAX_RANK + 1:
        return False
    limit = _limit(dtype, is_wide)
    return not is_float(dtype) or (limit.low <= bounds.low and bounds.high <= limit.high)


def bearable(values: Sequence[float], dtype: DType, is_wide: bool) -> tuple[float, ...]:
    """The values but huge ones, unless the program and the operator in hand may hold them."""
    limit = _limit(dtype, is_wide)
    return tuple(each for each in values if limit.low <= each <= limit.high)


def _limit(dtype: DType, is_wide: bool) -> Range:
    return reach(dtype) if is_wide else extent(dtype)
