"""What a reduction will ask next: the rounds of moves played ahead on guesses, for workers that are idle.

A guess never decides anything. It names candidates whose answers may be needed soon; the engine asks for
them in its own order, so that any number of workers gives the same result.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, TypeAlias

from corpus.case import Case
from reducer.engine.journal import Answer, Journal
from reducer.move import Hints, Move, Proposal
from reducer.subject.base import Subject
from reducer.subject.order import size

Context: TypeAlias = tuple[bool, int]
"""The last answer in a search, and how often in a row it came; more than `LONGEST` count as that."""

LONGEST = 3

USUAL = {
    (True, 1): 0.45,
    (True, 2): 0.45,
    (True, 3): 0.8,
    (False, 1): 0.25,
    (False, 2): 0.25,
    (False, 3): 0.2,
}
"""The share of yes after each context, over some sixty reductions of planted, real and random failures."""


def _share_of_yes(move: Move[Any], asked: Sequence[bool]) -> float:
    """The chance that the next candidate of a search that was answered so is interesting."""
    context = _context(asked)
    return move.chance if context is None else USUAL[context]


def _context(asked: Sequence[bool]) -> Context | None:
    """Return None at the start of a search."""
    if not asked:
        return None
    run = 0
    for answer in reversed(asked):
        if answer is not asked[-1] or run == LONGEST:
            break
        run += 1
    return asked[-1], run


@dataclass(frozen=True, slots=True)
class MoveBenefit:
    """The success of a move: candidates asked, candidates that failed, and refusals before a failing one.

    The run of one reduction is the longest one; a measured one covers 98 in 100 of those that failed.
    """

    asked: int
    found: int
    run: int

    def then(self, answer: bool, refusals: int) -> MoveBenefit:
        """Add an answer, and the number of refusals in a row before it."""
        return MoveBenefit(self.asked + 1, self.found + answer, max(self.run, refusals if answer else 0))


MEASURED: Mapping[str, MoveBenefit] = {
    "drop attributes": MoveBenefit(39, 19, 3),
    "drop axes": MoveBenefit(49, 34, 1),
    "omit optional operands": MoveBenefit(50, 14, 3),
    "plainer element types": MoveBenefit(33, 12, 0),
    "plainer operators": MoveBenefit(55, 0, 1),
    "shrink dims": MoveBenefit(180, 94, 7),
    "simplify values": MoveBenefit(129, 21, 7),
    "size anew what sizes are computed from": MoveBenefit(42, 0, 5),
}
"""Of moves that leave the nodes as they are, or seldom change them; those that drop nodes ask for all."""

MARGIN = 2
"""A search may be refused this many times more often than ever paid."""

AGAIN = 4
"""Where the last search found nothing, the next one gets this part of the patience."""


def patience(move: Move[Any], was_fruitless: bool) -> int | None:
    """After how many refusals in a row a move's search is given up; None where it asks to its end."""
    known = MEASURED.get(move.name)
    if known is None:
        return None
    most = known.run + MARGIN
    return max(1, most // AGAIN) if was_fruitless else most


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
    """A candidate whose answer is not known, and where it will be asked."""

    proposal: Proposal
    is_exact: bool
    at: Position


@dataclass(frozen=True)
class Speculation:
    """Plays rounds ahead; recorded values are not refreshed on the way, so a guess may miss."""

    moves: Sequence[Move[Any]]
    hints: Hints
    known: Known

    def opening(self, subject: Subject) -> Iterator[Question]:
        """Yield the questions that a reduction of `subject` asks first, once the failure has been shown."""
        first = self._next(Position(0, subject))
        if first is not None:
            yield first
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
            if question is not None:
                yield question
                for further, after in self._answered(question.at):
                    heapq.heappush(frontier, (share * further, next(number), after))

    def _answered(self, at: Position) -> Iterator[tuple[float, Position]]:
        yes = _share_of_yes(self.moves[at.place], at.asked)
        yield yes, at.then(True)
        yield 1 - yes, at.then(False)

    def _next(self, at: Position) -> Question | None:
        """The next question from here on whose answer is not known; None where none is near."""
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
        """The position of the rounds after a move has ended; None at the end of the search."""
        if size(found) < size(at.subject):
            return Position(at.place, found, has_changed=True, is_first=at.is_first)
        place = at.place + 1
        while not at.is_first and place < len(self.moves) and self.moves[place].once:
            place += 1
        if place < len(self.moves) and not (at.has_changed and self.moves[place].late):
            return replace(at, place=place, answers=(), asked=())
        return Position(0, at.subject, is_first=False) if at.has_changed else None


Guess: TypeAlias = tuple[str, Case]
"""A candidate and the key of its answer."""


class Workers:
    """Evaluates in `jobs` threads and notes the answers in the journal.

    What is guessed changes no answer. A kill loses the at most `jobs` evaluations under way, which the next
    run begins again.
    """

    def __init__(self, evaluate: Callable[[Case], Answer], journal: Journal, jobs: int) -> None:
        self._evaluate = evaluate
        self._journal = journal
        self._jobs = jobs
        self._pool = ThreadPoolExecutor(jobs)
        self._running: dict[str, Future[Answer]] = {}

    def begin(self, key: str, case: Case) -> Future[Answer]:
        """Evaluate as soon as a worker is free; what runs already is not begun again."""
        if key not in self._running:
            self._running[key] = self._pool.submit(self._run, key, case)
        return self._running[key]

    def answer(self, key: str, case: Case, ahead: Iterable[Guess]) -> Answer:
        """The answer of one candidate; while it is awaited, idle workers take what comes `ahead`."""
        self._forget_answered()
        future = self.begin(key, case)
        guesses = self._guesses(ahead)
        while not future.done():
            busy = [each for each in self._running.values() if not each.done()]
            guess = next(guesses, None) if len(busy) < self._jobs else None
            if guess is not None:
                self.begin(*guess)
            else:
                wait(busy, return_when=FIRST_COMPLETED)
        return future.result()

    def close(self) -> None:
        """End the workers without waiting for what has not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _guesses(self, ahead: Iterable[Guess]) -> Iterator[Guess]:
        """Yield the guesses that are neither answered nor running."""
        for key, case in islice(ahead, 4 * self._jobs):
            if key not in self._running and key not in self._journal.answers:
                yield key, case

    def _forget_answered(self) -> None:
        """Forget guesses that the journal answers; keep a failing one until the search asks for it."""
        for key in [key for key in self._running if key in self._journal.answers]:
            del self._running[key]

    def _run(self, key: str, case: Case) -> Answer:
        answer = self._evaluate(case)
        self._journal.add(key, answer)
        return answer
