"""One target's part of a hunt, and which target and job gets the next piece of its CPU time."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from oracles.judge import Judge
from triage.campaigns.fuzzing import Fuzzer
from triage.reductions.explained import Explainer
from triage.reductions.selection import Selection
from triage.store.causes import explanation_of, root_of
from triage.store.database import Store
from triage.store.failures import REDUCED, Failure, list_failures
from triage.store.names import representative


def cpu_of_the_ended() -> float:
    """CPU seconds of the child processes that have ended, such as those of the scripts of reports."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class TargetCampaign:
    """A campaign with what reduces its failures."""

    store: Store
    fuzzer: Fuzzer
    judge: Judge

    def __post_init__(self) -> None:
        self.target = str(self.fuzzer.target)
        self.label = str(self.fuzzer.target.without_setting("python"))
        self.explainer = Explainer(self.store, self.target, self.judge)
        self.selection = Selection(self.store, self.target, self.explainer.is_refuted)

    def waiting(self, *, urgent: bool) -> Failure | None:
        """The failure to reduce next; `urgent` ones are the first of their symptom, and end."""
        return self.selection.next(urgent=urgent)

    def cpu(self) -> float:
        """CPU seconds of this process and of the workers that reduce and report."""
        return time.process_time() + self.judge.cpu_seconds()


FUZZING = "fuzzing"
"""How the names of choices begin that look for something new."""
FLOOR = 0.2
"""Of an equal share, what each choice gets at least."""
FADING = 0.97
"""What is left of the weight of costs and gains with every further decision."""
PRIOR_SECONDS = 30.0
"""CPU seconds after which a choice's own yield weighs as much as the mean of all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of the scheduler, and its reason in words."""

    name: str
    why: str


@dataclass
class CpuShares:
    """The cost and gain of each choice; recent ones count most."""

    cpu: dict[str, float] = field(default_factory=dict)
    gained: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, cpu: float, gained: float) -> None:
        """Note the CPU seconds that a choice has cost, and the new bugs that it has gained."""
        for table in (self.cpu, self.gained):
            for each in table:
                table[each] *= FADING
        self.cpu[name] = self.cpu.get(name, 0.0) + cpu
        self.gained[name] = self.gained.get(name, 0.0) + gained
        self.whole[name] = self.whole.get(name, 0.0) + cpu

    def choose(self, names: Sequence[str]) -> Choice:
        """The next one of these, the first of equals: one below its floor, else that of the best yield."""
        if len(names) == 1:
            return Choice(names[0], "nothing else is to do")
        spent = {each: self.cpu.get(each, 0.0) for each in names}
        total = sum(spent.values())
        least = min(names, key=lambda each: spent[each])
        if spent[least] < FLOOR * total / len(names) or not total:
            return Choice(least, f"it had {spent[least]:.0f} of {total:.0f} CPU seconds, below its floor")
        mean = sum(self.gained.get(each, 0.0) for each in names) / total
        yields = {
            each: (self.gained.get(each, 0.0) + mean * PRIOR_SECONDS) / (spent[each] + PRIOR_SECONDS)
            for each in names
        }
        best = max(names, key=lambda each: (yields[each], -spent[each]))
        told = ", ".join(f"{each} {3600 * yields[each]:.1f}" for each in names)
        return Choice(best, f"new bugs a CPU hour: {told}")


class Worth(StrEnum):
    """The worth of one reduction."""

    NEW = "new"
    SMALLER = "smaller"
    SAMPLE = "sample"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class ReductionBenefit:
    """Reductions by what they were worth; samples are those of failures that a bug explains already."""

    new: int = 0
    smaller: int = 0
    sample: int = 0
    known: int = 0

    def add(self, worth: Worth) -> ReductionBenefit:
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
