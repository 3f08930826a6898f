"""The one source of randomness: the same draws from the same seed on any machine and Python."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


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
