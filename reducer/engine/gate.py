"""The one gate that every candidate passes: cheap checks, cache, journal, predicate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from corpus.case import Case
from reducer.engine.journal import Answer, Journal, Witness
from reducer.engine.speculation import Question
from reducer.engine.steadiness import Steadiness
from reducer.engine.workers import Asked, Workers
from reducer.move import Proposal
from reducer.subject.graph import GraphSubject
from reducer.subject.onnx import Subject
from reducer.subject.opsets import lowered

Predicate = Callable[[Case], Answer]


class BudgetSpent(Exception):
    """The minutes or checks that the user allowed are used up."""


@dataclass
class Budget:
    """How much may be asked: until a moment of the monotonic clock, and in number of checks."""

    deadline: float = float("inf")
    max_checks: float = float("inf")

    def spend(self, checks: int) -> None:
        if checks >= self.max_checks or time.monotonic() >= self.deadline:
            raise BudgetSpent


@dataclass
class Gate:
    """Says of a proposal whether it still fails, asking the predicate as seldom as can be.

    `like` lends a candidate its target and settings, `is_valid` refuses models that the checker rejects at
    no cost. `steadiness` says how often a candidate is asked before it counts as not interesting: seldom at
    first, where `is_thorough` as often as it takes. `is_suspect`: some answer was not the same twice.
    Answers are committed in the order in which the search asks, whatever `ahead` ran early. `checks` counts
    committed evaluations of the predicate, those replayed from the journal included, and `cached` the
    questions that were answered from memory.
    """

    predicate: Predicate
    like: Case
    is_valid: Callable[[Subject], bool]
    journal: Journal
    budget: Budget = field(default_factory=Budget)
    jobs: int = 1
    steadiness: Steadiness = field(default_factory=Steadiness)
    is_thorough: bool = False
    is_suspect: bool = False
    most_repeats: int = 1
    on_check: Callable[[Gate, Subject, Answer], None] = lambda gate, subject, answer: None
    checks: int = 0
    cached: int = 0
    refused: int = 0
    last_accepted: int = 0
    witness: Witness = ()
    committed: dict[str, bool] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._refused: set[str] = set()
        self._counted: set[str] = set()
        self._workers = Workers(self.predicate, self.journal, self.jobs) if self.jobs > 1 else None

    def __call__(self, proposal: Proposal, ahead: Iterable[Question] = (), *, exact: bool = False) -> bool:
        """Whether the proposed candidate is interesting; `ahead` is what may be asked next.

        A candidate that equals one asked before but for its names, or for the versions of operator sets in
        which its operators mean the same, is not asked again, unless `exact`: then these are what is tried.
        """
        subject = proposal()
        if subject is None:
            return False
        case = subject.case(self.like)
        key = _key(subject, case, exact)
        if key in self.committed:
            self.cached += 1
            return self.committed[key]
        if not self._passes_cheap_checks(subject, key):
            return False
        answer = self._decide(case, key, ahead)
        self.committed[key] = answer.interesting
        self.is_suspect = self.is_suspect or answer.is_unsteady
        if answer.interesting:
            self.last_accepted = self.checks
            self.witness = answer.witness
        self.on_check(self, subject, answer)
        return answer.interesting

    @property
    def timeouts(self) -> int:
        """How many of the evaluations that counted ran out of time without being what is looked for."""
        answers = (self.journal.answers[key] for key in self.used)
        return sum(1 for each in answers if each.symptom.startswith("timeout") and not each.interesting)

    def begin(self, subject: Subject) -> None:
        """Ask early whether the original fails, where there are workers."""
        case = subject.case(self.like)
        if self._workers is not None and case.case_id not in self.journal.answers:
            self.budget.spend(self.checks)
            self._workers.begin(case.case_id, case)

    def known(self, proposal: Proposal, exact: bool) -> bool | None:
        """What is known of a proposal without asking; None where it would have to be asked."""
        subject = proposal()
        if subject is None:
            return False
        case = subject.case(self.like)
        key = _key(subject, case, exact)
        if key in self.committed:
            return self.committed[key]
        if key in self.journal.answers:
            return self.journal.answers[key].interesting
        return None if self._passes_cheap_checks(subject, key) else False

    def measure(self, subject: Subject, times: int) -> float:
        """The share of so many more evaluations in which the subject fails; each counts as a check.

        Of fewer where the budget ends in between.
        """
        case = subject.case(self.like)
        key = case.case_id
        shown = 0
        for number in range(1, times + 1):
            try:
                self.budget.spend(self.checks)
            except BudgetSpent:
                if number == 1:
                    raise
                return shown / (number - 1)
            ahead = [(_numbered(key, more), case) for more in range(number + 1, times + 1)]
            shown += self._answer(case, _numbered(key, number), ahead).interesting
        return shown / times

    def distrust(self, rate: float, runs: int) -> None:
        """From here on a candidate is dropped only when several evaluations show nothing."""
        self.steadiness, self.is_thorough = Steadiness(round(rate * runs), runs), False
        self._forget_refusals()

    def look_closer(self) -> bool:
        """Ask from here on as often as it takes; False where that is done already, or nothing is in doubt."""
        if self.is_thorough or self.steadiness.is_steady:
            return False
        self.is_thorough = True
        self._forget_refusals()
        return True

    def _forget_refusals(self) -> None:
        self.committed = {key: answer for key, answer in self.committed.items() if answer}

    def close(self) -> None:
        if self._workers is not None:
            self._workers.close()

    def _passes_cheap_checks(self, subject: Subject, key: str) -> bool:
        if key not in self._refused and not self.is_valid(subject):
            self._refused.add(key)
            self.refused += 1
        return key not in self._refused

    def _decide(self, case: Case, key: str, ahead: Iterable[Question]) -> Answer:
        """One evaluation, or for a flaky failure as many as it takes until one shows it."""
        answer, steadiness = Answer(False), self.steadiness
        most = steadiness.repeats if self.is_thorough else steadiness.repeats_at_first
        self.most_repeats = max(self.most_repeats, most)
        for number in range(most):
            self.budget.spend(self.checks)
            repeats = [(_numbered(key, more), case) for more in range(number + 1, most)]
            answer = self._answer(case, _numbered(key, number), repeats or self._cases(ahead))
            if answer.interesting:
                if most > 1:
                    self.steadiness = self.steadiness.after(1, number + 1)
                break
        return answer

    def _answer(self, case: Case, key: str, ahead: Iterable[Asked]) -> Answer:
        """One evaluation, which counts as a check the first time that the search asks for it."""
        answer = self._evaluated(case, key, ahead)
        if key not in self._counted:
            self._counted.add(key)
            self.used.append(key)
            self.checks += 1
        return answer

    def _evaluated(self, case: Case, key: str, ahead: Iterable[Asked]) -> Answer:
        known = self.journal.answers.get(key)
        if known is not None:
            return known
        if self._workers is not None:
            return self._workers.answer(key, case, ahead)
        answer = self.predicate(case)
        self.journal.add(key, answer)
        return answer

    def _cases(self, ahead: Iterable[Question]) -> Iterator[Asked]:
        """What may be asked next, as it will be asked."""
        for question in ahead:
            subject = question.proposal()
            if subject is not None:
                case = subject.case(self.like)
                yield _numbered(_key(subject, case, question.is_exact), question.run), case


def _numbered(key: str, run: int) -> str:
    """The key of a candidate's first evaluation, and of those after it."""
    return f"{key}#{run}" if run else key


def _key(subject: Subject, case: Case, exact: bool) -> str:
    """Names and the versions of operator sets count only where they are what is tried."""
    if exact:
        return case.case_id
    older = subject if isinstance(subject, GraphSubject) else lowered(subject)
    return (case if older is subject else older.case(case)).canonical_hash
