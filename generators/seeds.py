"""The seeds of a campaign: in blocks, which are drawn alike, and in shards of blocks, for several jobs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

BLOCK = 16
"""Seeds whose programs are drawn alike: of one strategy and size."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Every `count`-th block of seeds, from the `index`-th on, counted from 1: one of several jobs' part.

    A shard learns nothing from its tests: so all together test what `1/1` tests, whatever the count.
    """

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def owns(self, seed: int) -> bool:
        """Whether a seed's block is one of the shard's."""
        return seed // BLOCK % self.count == self.index - 1

    def share_of(self, seed: int, tests: int) -> int:
        """How many of the seeds from `seed` on are the shard's."""
        return sum(map(self.owns, range(seed, seed + tests)))


def blocks_of(seed: int, tests: int | None, shard: Shard | None) -> Iterator[range]:
    """Split the seeds into blocks; a block of the mixture is never cut in two."""
    left = float("inf") if tests is None else tests
    for first in count(seed - seed % BLOCK, BLOCK):
        if left <= 0:
            return
        if shard is None or shard.owns(first):
            block = range(max(first, seed), first + BLOCK)
            yield block[: int(min(len(block), left))]
            left -= len(block)
