"""How often a failure shows, and how many evaluations a decision therefore takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from reducer.subject.base import Subject

MISSED = 0.01
"""How often a candidate that still fails may be dropped because none of its evaluations showed it."""

MOST_RUNS = 40
"""No decision takes more evaluations than this."""

MISSED_AT_FIRST = 0.3
MOST_AT_FIRST = 12
"""The same while the search is under way: what it drops by mistake is tried again in the last rounds."""


@dataclass(frozen=True)
class Steadiness:
    """How often a failure shows: in `shown` of `runs` evaluations. A steady failure shows every time."""

    shown: int = 0
    runs: int = 0

    @property
    def is_steady(self) -> bool:
        """Whether every run showed the failure."""
        return self.shown == self.runs

    @property
    def repeats(self) -> int:
        """After how many evaluations that show nothing a candidate is dropped for good."""
        return min(MOST_RUNS, self._runs(MISSED))

    @property
    def repeats_at_first(self) -> int:
        """The same for a candidate that is tried again where it matters."""
        return min(MOST_AT_FIRST, self._runs(MISSED_AT_FIRST))

    @property
    def is_too_rare(self) -> bool:
        """Whether a candidate that still fails would be dropped all too often, however many runs it gets."""
        return not self.is_steady and (1 - self.shown / self.runs) ** MOST_RUNS > MISSED_AT_FIRST

    def _runs(self, missed: float) -> int:
        """The rate is taken for a standard error lower than it was measured, as it may be."""
        if self.is_steady:
            return 1
        rate = self.shown / self.runs
        low = max(rate - math.sqrt(rate * (1 - rate) / self.runs), 1 / (self.runs + 1))
        return math.ceil(math.log(missed) / math.log(1 - low))

    def after(self, shown: int, runs: int) -> Steadiness:
        """Return the counts with more evaluations of a failing candidate."""
        return Steadiness(self.shown + shown, self.runs + runs)


@dataclass
class Refusals:
    """The refused candidates, by the nodes of the original that each held.

    If a refused candidate held all nodes of the result and more, its failure may have stayed unseen.
    """

    _held: list[frozenset[str]] = field(default_factory=list)

    def add(self, subject: Subject) -> None:
        """Note a candidate that was refused."""
        self._held.append(subject.computed)

    def contradict(self, result: Subject) -> bool:
        """Return whether a refused candidate held all that the result holds, and more."""
        needed = result.computed
        return any(needed < held for held in self._held)
