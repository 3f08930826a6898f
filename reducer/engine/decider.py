"""How one candidate is decided: the predicate asked as often as it takes, every answer on disk before use."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from corpus.case import Case
from reducer.engine.journal import Answer, Journal
from reducer.engine.speculation import Guess, Workers
from reducer.subject.base import Subject

MISSED = 0.01
"""How often a candidate that still fails may be dropped because none of its evaluations showed it."""

MOST_RUNS = 40
"""No decision takes more evaluations than this."""

MISSED_AT_FIRST = 0.3
MOST_AT_FIRST = 12
"""The same while the search is under way: what it drops by mistake is tried again in the last rounds."""


@dataclass(frozen=True)
class Flakiness:
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

    def after(self, shown: int, runs: int) -> Flakiness:
        """The counts with more evaluations of a failing candidate."""
        return Flakiness(self.shown + shown, self.runs + runs)


@dataclass
class Refusals:
    """The refused candidates that lacked nodes of the best one, by the nodes of the original that each held.

    If a refused candidate held all nodes of the result and more, its failure may have stayed unseen.
    """

    _held: list[frozenset[str]] = field(default_factory=list)

    def add(self, subject: Subject) -> None:
        """Note a candidate that was refused."""
        self._held.append(subject.computed)

    def contradict(self, result: Subject) -> bool:
        """Whether a refused candidate held all that the result holds, and more."""
        needed = result.computed
        return any(needed < held for held in self._held)


Predicate = Callable[[Case], Answer]


class AllowanceSpent(Exception):
    """The minutes or checks that the user allowed are used up."""


@dataclass
class Allowance:
    """A bound on the search: a moment of a clock, and a number of checks."""

    deadline: float = float("inf")
    max_checks: float = float("inf")
    clock: Callable[[], float] = time.monotonic

    def spend(self, checks: int) -> None:
        """Raise `AllowanceSpent` if no check may follow this many."""
        if checks >= self.max_checks or self.clock() >= self.deadline:
            raise AllowanceSpent


@dataclass
class Decider:
    """Asks the predicate about candidates by key, and counts.

    `steadiness` says how often a candidate is asked before it counts as not interesting: seldom at first, as
    often as it takes if `is_thorough`. `is_suspect`: some answer was not the same twice. Answers are
    committed in the order in which the search asks, whatever workers ran early. `checks` counts committed
    evaluations of the predicate, those replayed from the journal included; `used` are their keys.
    """

    predicate: Predicate
    journal: Journal
    allowance: Allowance = field(default_factory=Allowance)
    jobs: int = 1
    steadiness: Flakiness = field(default_factory=Flakiness)
    is_thorough: bool = False
    is_suspect: bool = False
    most_repeats: int = 1
    checks: int = 0
    used: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counted: set[str] = set()
        self._workers = Workers(self.predicate, self.journal, self.jobs) if self.jobs > 1 else None

    def begin(self, case: Case) -> None:
        """Ask about a case early, if there are workers."""
        if self._workers is not None and case.case_id not in self.journal.answers:
            self.allowance.spend(self.checks)
            self._workers.begin(case.case_id, case)

    def decide(self, case: Case, key: str, ahead: Iterable[Guess]) -> Answer:
        """One evaluation, or for a flaky failure as many as it takes until one shows it.

        Raises `AllowanceSpent`.
        """
        answer, steadiness = Answer(False), self.steadiness
        most = steadiness.repeats if self.is_thorough else steadiness.repeats_at_first
        self.most_repeats = max(self.most_repeats, most)
        for number in range(most):
            self.allowance.spend(self.checks)
            repeats = [(numbered(key, more), case) for more in range(number + 1, most)]
            answer = self._answer(case, numbered(key, number), repeats or ahead)
            if answer.interesting:
                if most > 1:
                    self.steadiness = self.steadiness.after(1, number + 1)
                break
        self.is_suspect = self.is_suspect or answer.is_unsteady
        return answer

    def measure(self, case: Case, times: int) -> float:
        """The share of so many more evaluations in which the case fails; each counts as a check.

        Of fewer if the allowance ends in between.
        """
        key = case.case_id
        shown = 0
        for number in range(1, times + 1):
            try:
                self.allowance.spend(self.checks)
            except AllowanceSpent:
                if number == 1:
                    raise
                return shown / (number - 1)
            ahead = [(numbered(key, more), case) for more in range(number + 1, times + 1)]
            shown += self._answer(case, numbered(key, number), ahead).interesting
        return shown / times

    def distrust(self, rate: float, runs: int) -> None:
        """Drop a candidate from now on only if several evaluations do not show the failure."""
        self.steadiness, self.is_thorough = Flakiness(round(rate * runs), runs), False

    @property
    def timeouts(self) -> int:
        """Count the evaluations that ran out of time, if a hang is not what the search keeps."""
        answers = (self.journal.answers.get(key) for key in self.used)
        return sum(
            1 for each in answers if each and each.symptom.startswith("timeout") and not each.interesting
        )

    def close(self) -> None:
        """End the workers."""
        if self._workers is not None:
            self._workers.close()

    def _answer(self, case: Case, key: str, ahead: Iterable[Guess]) -> Answer:
        """One evaluation, which counts as a check the first time that the search asks for it."""
        answer = self._evaluated(case, key, ahead)
        if key not in self._counted:
            self._counted.add(key)
            self.used.append(key)
            self.checks += 1
        return answer

    def _evaluated(self, case: Case, key: str, ahead: Iterable[Guess]) -> Answer:
        known = self.journal.answers.get(key)
        if known is not None:
            return known
        if self._workers is not None:
            return self._workers.answer(key, case, ahead)
        answer = self.predicate(case)
        self.journal.add(key, answer)
        return answer


def numbered(key: str, run: int) -> str:
    """The key of a candidate's first evaluation, and of those after it."""
    return f"{key}#{run}" if run else key
