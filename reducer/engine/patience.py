"""How long a candidate may take: a multiple of what the earlier ones took, so that a hang costs little."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import monotonic

FACTOR = 20
FLOOR = 5.0
"""No candidate gets fewer seconds: a machine may stall for that long."""

RECENT = 31
SOME = 3
"""So many evaluations must have ended before they say anything."""


@dataclass
class Patience:
    """The limit in wall seconds, from the running median of those that ended; `most` is the user's own.

    What ran out of time says nothing of how long the others take.
    """

    most: float
    taken: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def limit(self) -> float:
        """Seconds that the next candidate may take: a multiple of the median so far."""
        if len(self.taken) < SOME:
            return self.most
        return min(self.most, max(FLOOR, FACTOR * median(self.taken)))

    @contextmanager
    def timed(self) -> Iterator[float]:
        """The limit of one evaluation, which is noted where it keeps to it."""
        limit, start = self.limit, monotonic()
        yield limit
        taken = monotonic() - start
        if taken < limit:
            self.taken.append(taken)
