"""The engine: rounds of moves on the best subject so far, until a whole round changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from corpus.case import Case
from reducer.engine.decider import Decider, Refusals
from reducer.engine.journal import Answer, RunEvidence
from reducer.engine.speculation import (
    Guess,
    MoveBenefit,
    Position,
    Question,
    Speculation,
    patience,
)
from reducer.move import Hints, Move, Proposal
from reducer.subject.base import Subject
from reducer.subject.order import size

FEW_LOOKS = 2
"""So many candidates are asked for in any case in a look at what seldom fails."""


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
    refusals: Refusals = field(default_factory=Refusals)

    def __post_init__(self) -> None:
        self._refused: set[str] = set()
        self._accepted: set[str] = set()
        self._held = frozenset[str]()  # what the last candidate that failed computes

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
            self._held = subject.computed
        elif subject.computed < self._held:
            self.refusals.add(subject)
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

    def accepts(self, subject: Subject) -> bool:
        """Whether a candidate passes all that costs no check."""
        return self._passes_cheap_checks(subject, _key(subject, subject.case(self.like), exact=False))

    def looks(self, subject: Subject) -> int:
        """How many candidates each look at what seldom fails may ask for.

        All that has been asked since the last failing one may be a third of the reduction. Where no refused
        candidate held all that is left, as if what fails needed no more than its parts, a few will do.
        """
        proof = self.decider.checks - self.last_accepted
        most = self.last_accepted // 2 - proof if self.refusals.contradict(subject) else FEW_LOOKS
        return max(most, FEW_LOOKS)

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
                yield _key(subject, case, question.is_exact), case


def _key(subject: Subject, case: Case, exact: bool) -> str:
    """Names and the versions of operator sets count only where they are what is tried."""
    if exact:
        return case.case_id
    older = subject.plainest()
    return (case if older is subject else older.case(case)).canonical_hash


@dataclass(frozen=True, slots=True)
class Step:
    """An accepted move: its name, the check at which it was accepted, and what was left after it."""

    move: str
    check: int
    nodes: int
    elements: int
    bytes: int


@dataclass
class Engine:
    """Runs moves through the gate and keeps the best subject.

    `learn` refreshes the recorded values after a move that changed what flows through the graph. After
    `run`, `is_minimal` says whether a whole round of every move found nothing more, and `cut_short` which of
    them were given up in that round before they had asked for everything. `asked` has for each move
    what it asked and found.
    """

    gate: Gate
    moves: Sequence[Move[Any]]
    hints: Hints
    learn: Callable[[Subject], Subject]
    on_best: Callable[[Subject, Move[Any]], None] = lambda subject, move: None
    steps: list[Step] = field(default_factory=list)
    is_minimal: bool = False
    move: str = ""
    asked: dict[str, MoveBenefit] = field(default_factory=dict)
    cut_short: set[str] = field(default_factory=set)
    _fruitless: set[str] = field(default_factory=set)

    def opening(self, subject: Subject) -> Iterator[Question]:
        """Yield the questions that open the reduction of `subject`."""
        return self._foresight(subject).opening(subject)

    def run(self, subject: Subject) -> Iterator[Subject]:
        """Yield each better subject as it is found; stops when a round has changed nothing.

        Where the failure is flaky, when a round has changed nothing in which each candidate got its due.
        """
        at = Position(0, subject, has_changed=True)
        while at.has_changed or self.gate.look_closer():
            at = replace(at, has_changed=False)
            for place, move in enumerate(self.moves):
                if move.late and at.has_changed:
                    break
                if move.once and not at.is_first:
                    continue
                self.move = move.name
                at = replace(at, place=place)
                while size(found := self._apply(move, at)) < size(at.subject):
                    found = self.learn(found) if move.reshapes else found
                    at = replace(at, subject=found, has_changed=True)
                    self._note(move, found)
                    yield found
                    if move.settles:
                        break
            at = replace(at, is_first=False)
        self.is_minimal = True

    def run_once(self, subject: Subject) -> Subject:
        """Run each move once and take what it finds, be it smaller or not."""
        for place, move in enumerate(self.moves):
            self.move = move.name
            found = self._apply(move, Position(place, subject, has_changed=False))
            if found is not subject:
                subject = self.learn(found) if move.reshapes else found
                self._note(move, subject)
        return subject

    def _note(self, move: Move[Any], subject: Subject) -> None:
        nodes, _, _, elements, *_, program_bytes = size(subject)
        self.steps.append(Step(move.name, self.gate.last_accepted, nodes, elements, program_bytes))
        self.on_best(subject, move)

    def _apply(self, move: Move[Any], at: Position) -> Subject:
        """Drive one move's search to its end; once its patience is spent what it asks counts as refused."""
        foresight = self._foresight(at.subject)
        search = move.search(at.subject, foresight.hints)
        left = None if self.hints.is_thorough else patience(move, move.name in self._fruitless)
        if left is not None and move.late:
            left = min(left, foresight.hints.looks)
        self.cut_short.discard(move.name)
        try:
            proposal = next(search)
            while True:
                if left is not None and _refusals(at.asked) >= left:
                    answer = False
                    self.cut_short.add(move.name)
                else:
                    at, answer = self._ask(move, at, proposal, foresight)
                proposal = search.send(answer)
        except StopIteration as end:
            found: Subject = end.value
            return found
        finally:
            if at.asked:
                (self._fruitless.discard if any(at.asked) else self._fruitless.add)(move.name)

    def _ask(
        self, move: Move[Any], at: Position, proposal: Proposal, foresight: Speculation
    ) -> tuple[Position, bool]:
        """One question of a search: where it stands then, and the answer."""
        checks = self.gate.decider.checks
        answer = self.gate(proposal, foresight.questions(at), exact=move.renames)
        was_asked = self.gate.decider.checks > checks
        if was_asked:
            known = self.asked.get(move.name, MoveBenefit(0, 0, 0))
            self.asked[move.name] = known.then(answer, _refusals(at.asked))
        return at.then(answer, was_asked=was_asked), answer

    def _foresight(self, subject: Subject) -> Speculation:
        gate = self.gate
        hints = replace(self.hints, witness=gate.witness, looks=gate.looks(subject), accepts=gate.accepts)
        return Speculation(self.moves, hints, gate.known)


def _refusals(asked: Sequence[bool]) -> int:
    """Count the refusals since the last candidate that failed."""
    count = 0
    for answer in reversed(asked):
        if answer:
            break
        count += 1
    return count
