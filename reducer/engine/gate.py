"""The one gate that every candidate passes: cheap checks, memory, then the decider."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from corpus.case import Case
from reducer.engine.decider import Decider, numbered
from reducer.engine.journal import Answer, RunEvidence
from reducer.engine.speculation import Guess, Question
from reducer.move import Proposal
from reducer.subject.base import Subject


@dataclass
class Gate:
    """Says of a proposal whether it still fails, asking the decider as seldom as can be.

    `like` lends a candidate its target and settings, `is_valid` refuses models that the checker rejects at
    no cost. `cached` counts the questions that were answered from memory, `refused` the candidates that were
    not valid. `last_accepted` is the check that found the last interesting candidate, `witness` its own.
    """

    decider: Decider
    like: Case
    is_valid: Callable[[Subject], bool]
    on_check: Callable[[Gate, Subject, Answer], None] = lambda gate, subject, answer: None
    cached: int = 0
    refused: int = 0
    last_accepted: int = 0
    witness: RunEvidence = ()
    committed: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._refused: set[str] = set()
        self._accepted: set[str] = set()

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
        answer = self.decider.decide(case, key, self._cases(ahead))
        self.committed[key] = answer.interesting
        if answer.interesting:
            self.last_accepted = self.decider.checks
            self.witness = answer.witness
        self.on_check(self, subject, answer)
        return answer.interesting

    def begin(self, subject: Subject) -> None:
        """Ask early whether the original fails, if there are workers."""
        self.decider.begin(subject.case(self.like))

    def known(self, proposal: Proposal, exact: bool) -> bool | None:
        """The answer to a proposal if it is known; None if the gate would have to ask."""
        subject = proposal()
        if subject is None:
            return False
        case = subject.case(self.like)
        key = _key(subject, case, exact)
        if key in self.committed:
            return self.committed[key]
        if key in self.decider.journal.answers:
            return self.decider.journal.answers[key].interesting
        return None if self._passes_cheap_checks(subject, key) else False

    def is_settled(self, proposal: Proposal) -> bool:
        """Whether a proposal is known not to fail, or not to be valid; asks nothing."""
        subject = proposal()
        if subject is None:
            return True
        key = _key(subject, subject.case(self.like), exact=False)
        return key in self._refused or self.committed.get(key) is False

    def measure(self, subject: Subject, times: int) -> float:
        """Evaluate the subject `times` more times; return the share of failures."""
        return self.decider.measure(subject.case(self.like), times)

    def distrust(self, rate: float, runs: int) -> None:
        """Drop a candidate from now on only if several runs do not show the failure; forget refusals."""
        self.decider.distrust(rate, runs)
        self._forget_refusals()

    def look_closer(self) -> bool:
        """Ask from here on as often as it takes; False if that is done already, or nothing is in doubt."""
        if self.decider.is_thorough or self.decider.steadiness.is_steady:
            return False
        self.decider.is_thorough = True
        self._forget_refusals()
        return True

    def _forget_refusals(self) -> None:
        self.committed = {key: answer for key, answer in self.committed.items() if answer}

    def _passes_cheap_checks(self, subject: Subject, key: str) -> bool:
        if key not in self._refused and key not in self._accepted:
            if self.is_valid(subject):
                self._accepted.add(key)
            else:
                self._refused.add(key)
                self.refused += 1
        return key not in self._refused

    def _cases(self, ahead: Iterable[Question]) -> Iterator[Guess]:
        """Yield the candidates that may be asked next, in the form in which they will be asked."""
        for question in ahead:
            subject = question.proposal()
            if subject is not None:
                case = subject.case(self.like)
                yield numbered(_key(subject, case, question.is_exact), question.run), case


def _key(subject: Subject, case: Case, exact: bool) -> str:
    """Names and the versions of operator sets count only where they are what is tried."""
    if exact:
        return case.case_id
    older = subject.plainest()
    return (case if older is subject else older.case(case)).canonical_hash
