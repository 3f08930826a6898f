"""What reductions brought: a cause that nobody had, a smaller case of one, or nothing but the time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from triage.store.causes import explanation_of, root_of
from triage.store.database import Store
from triage.store.failures import REDUCED, Failure, list_failures
from triage.store.names import representative


class Worth(StrEnum):
    """The worth of one reduction."""

    NEW = "new"
    SMALLER = "smaller"
    SAMPLE = "sample"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class Yield:
    """Reductions by what they were worth; samples are those of failures that a bug explains already."""

    new: int = 0
    smaller: int = 0
    sample: int = 0
    known: int = 0

    def add(self, worth: Worth) -> Yield:
        """Add one reduction."""
        return replace(self, **{worth.value: getattr(self, worth.value) + 1})

    @property
    def total(self) -> int:
        """All reductions."""
        return self.new + self.smaller + self.sample + self.known

    def __str__(self) -> str:
        if not self.total:
            return "none was reduced"
        told = {
            f"{self.new} new cause{_s(self.new)}": self.new,
            f"{self.smaller} smaller case{_s(self.smaller)}": self.smaller,
            f"{self.known} known again": self.known,
            f"{self.sample} sample{_s(self.sample)} of what is explained": self.sample,
        }
        share = f", {self._of_unexplained:.0%} of what nothing explained" if self.total > self.sample else ""
        return f"{self.total} reduced: {', '.join(text for text, count in told.items() if count)}{share}"

    @property
    def _of_unexplained(self) -> float:
        """Of the reductions that nothing explained before, those that brought something."""
        return (self.new + self.smaller) / (self.total - self.sample)


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def worth_of(store: Store, reduced: Failure) -> Worth:
    """Judge the worth of a failure's reduction, right after it."""
    if explanation_of(store, reduced.id):
        return Worth.SAMPLE
    root = root_of(store, reduced.id)
    others = [
        each.id for each in list_failures(store, cluster=reduced.cluster, status=REDUCED) if each != reduced
    ]
    if not others or (root and others == [root["root"]] and root["root"] > reduced.id):
        return Worth.NEW
    return Worth.SMALLER if representative(store, reduced.cluster) == reduced.id else Worth.KNOWN
