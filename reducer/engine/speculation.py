"""What a reduction will ask next: the rounds of moves played ahead on guesses, for workers that are idle.

A guess never decides anything. It names candidates whose answers may be needed soon; the engine asks for
them in its own order, so that any number of workers gives the same result.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from reducer.engine.estimates import SuccessRates
from reducer.move import Hints, Move, Proposal
from reducer.subject.base import Subject
from reducer.subject.order import size

Known = Callable[[Proposal, bool], bool | None]
"""Whether a proposal is interesting, where that is known; the flag says that its names are what is tried."""

FARTHEST = 64
"""How many moves are played ahead at most in the search for one question."""

UNLIKELY = 0.1
"""A question less likely to be asked than this is not worth a worker."""


@dataclass(frozen=True)
class Position:
    """A point in the rounds: which move, on which subject, and what its search was answered so far.

    `asked` are those of the answers that took a check. `is_first`: no round has ended before.
    """

    place: int
    subject: Subject
    answers: tuple[bool, ...] = ()
    asked: tuple[bool, ...] = ()
    has_changed: bool = False
    is_first: bool = True

    def then(self, answer: bool, *, was_asked: bool = True) -> Position:
        """After one more answer."""
        asked = (*self.asked, answer) if was_asked else self.asked
        return replace(self, answers=(*self.answers, answer), asked=asked)


@dataclass(frozen=True)
class Question:
    """A candidate whose answer is not known, and where it will be asked; `run` numbers its repeats."""

    proposal: Proposal
    is_exact: bool
    at: Position | None = None
    run: int = 0


@dataclass(frozen=True)
class Speculation:
    """Plays rounds ahead; recorded values are not refreshed on the way, so a guess may miss."""

    moves: Sequence[Move[Any]]
    hints: Hints
    known: Known
    odds: SuccessRates

    def opening(self, subject: Subject) -> Iterator[Question]:
        """Yield the questions that a reduction of `subject` asks first, once the failure has been shown."""
        first = self._next(Position(0, subject))
        yield first
        if first.at is not None:
            yield from self.questions(first.at)

    def questions(self, at: Position) -> Iterator[Question]:
        """Yield the questions that may follow the one at `at`, the likeliest first."""
        number = count()
        frontier = [(-share, next(number), after) for share, after in self._answered(at)]
        heapq.heapify(frontier)
        while frontier:
            share, _, here = heapq.heappop(frontier)
            if -share < UNLIKELY:
                return
            question = self._next(here)
            yield question
            if question.at is not None:
                for further, after in self._answered(question.at):
                    heapq.heappush(frontier, (share * further, next(number), after))

    def _answered(self, at: Position) -> Iterator[tuple[float, Position]]:
        yes = self.odds.of_yes(self.moves[at.place], at.asked)
        yield yes, at.then(True)
        yield 1 - yes, at.then(False)

    def _next(self, at: Position) -> Question:
        """The next question from here on whose answer is not known; at the end whether it fails again."""
        for _ in range(FARTHEST):
            found = self._play(at)
            if isinstance(found, Question):
                return found
            following = self._after(at, found)
            if following is None:
                break
            at = following
        return Question(at.subject.embedded, is_exact=True, run=1)

    def _play(self, at: Position) -> Question | Subject:
        """One move from its start: the question where it stops, or the subject that it ends with."""
        move = self.moves[at.place]
        search = move.search(at.subject, self.hints)
        answers = list(at.answers)
        try:
            proposal = next(search)
            for answer in at.answers:
                proposal = search.send(answer)
            while (answer_known := self.known(proposal, move.renames)) is not None:
                answers.append(answer_known)
                proposal = search.send(answer_known)
        except StopIteration as end:
            subject: Subject = end.value
            return subject
        return Question(proposal, move.renames, replace(at, answers=tuple(answers)))

    def _after(self, at: Position, found: Subject) -> Position | None:
        """The position of the rounds after a move has ended; None at the end of the search."""
        if size(found) < size(at.subject):
            return Position(at.place, found, has_changed=True, is_first=at.is_first)
        place = at.place + 1
        while not at.is_first and place < len(self.moves) and self.moves[place].once:
            place += 1
        if place < len(self.moves) and not (at.has_changed and self.moves[place].late):
            return replace(at, place=place, answers=(), asked=())
        return Position(0, at.subject, is_first=False) if at.has_changed else None
