"""What a reduction will ask next: the rounds of moves played ahead on guesses, for workers that are idle.

A guess never decides anything. It names candidates whose answers may be needed soon; the engine asks for
them in its own order, so that any number of workers gives the same result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from reducer.move import Hints, Move, Proposal
from reducer.order import size
from reducer.subject import Subject

Known = Callable[[Proposal, bool], bool | None]
"""Whether a proposal is interesting, where that is known; the flag says that its names are what is tried."""

FARTHEST = 64
"""How many moves are played ahead at most in the search for one question."""


@dataclass(frozen=True)
class Position:
    """A point in the rounds: which move, on which subject, and what its search was answered so far."""

    place: int
    subject: Subject
    answers: tuple[bool, ...] = ()
    has_changed: bool = False


@dataclass(frozen=True)
class Question:
    """A candidate whose answer is not known, and where it will be asked."""

    proposal: Proposal
    is_exact: bool
    at: Position


@dataclass(frozen=True)
class Foresight:
    """Plays rounds ahead; recorded values are not refreshed on the way, so a guess may miss."""

    moves: Sequence[Move]
    hints: Hints
    known: Known

    def questions(self, at: Position) -> Iterator[Question]:
        """What comes after the question that is asked at `at`, the likeliest soonest, without end."""
        frontier = deque([at])
        while frontier:
            here = frontier.popleft()
            for guess in _guesses(here):
                question = self._next(replace(here, answers=(*here.answers, guess)))
                if question is not None:
                    yield question
                    frontier.append(question.at)

    def _next(self, at: Position) -> Question | None:
        """The next question from here on whose answer is not known."""
        for _ in range(FARTHEST):
            found = self._play(at)
            if isinstance(found, Question):
                return found
            following = self._after(at, found)
            if following is None:
                return None
            at = following
        return None

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
        """Where the rounds go on when a move has ended; None where they are done."""
        if size(found) < size(at.subject):
            return Position(at.place, found, has_changed=True)
        if at.place + 1 < len(self.moves):
            return replace(at, place=at.place + 1, answers=())
        return Position(0, at.subject) if at.has_changed else None


def _guesses(at: Position) -> tuple[bool, bool]:
    """The likelier answer first: a move begins with what would take most away, and that mostly works."""
    return (True, False) if not at.answers else (False, True)
