"""What a reduction will ask next: the rounds of moves played ahead on guesses, for workers that are idle.

A guess never decides anything. It names candidates whose answers may be needed soon; the engine asks for
them in its own order, so that any number of workers gives the same result.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import count, islice
from statistics import median
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

TRUST = 20.0
"""How many answers of one reduction weigh as much as what is usual."""

OWN_TRUST = 2.0
"""How many answers of one move weigh as much as those of all moves."""


@dataclass
class SuccessRates:
    """Counts of yes and of all answers, by context, for all moves together and for each."""

    _seen: dict[tuple[str, Context | None], tuple[int, int]] = field(default_factory=dict)

    def of_yes(self, move: Move[Any], asked: Sequence[bool]) -> float:
        """The chance that the next candidate of a search that was answered so is interesting."""
        context = _context(asked)
        general = move.chance if context is None else self._share("", context, USUAL[context], TRUST)
        return self._share(move.name, context, general, OWN_TRUST)

    def note(self, move: Move[Any], asked: Sequence[bool], answer: bool) -> None:
        """Learn from an answer that came after `asked`."""
        context = _context(asked)
        for name in ("", move.name):
            yes, count = self._seen.get((name, context), (0, 0))
            self._seen[name, context] = (yes + answer, count + 1)

    def _share(self, name: str, context: Context | None, before: float, trust: float) -> float:
        yes, count = self._seen.get((name, context), (0, 0))
        return (yes + trust * before) / (count + trust)


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


Guess: TypeAlias = tuple[str, Case]
"""A candidate and the key of its answer."""

RECENT = 15
"""How many of the last evaluations say how long one takes."""

SOME = 4
"""So many guesses must have been found before what they cost is judged."""


@dataclass(frozen=True)
class Running:
    """An evaluation under way, and when it began by the monotonic clock."""

    future: Future[Answer]
    since: float


@dataclass
class Pace:
    """The cost of recent work: seconds of the last evaluations, and CPU seconds of finding guesses."""

    evaluations: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    guesses: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def is_time_to_guess(self, elapsed: float) -> bool:
        """Whether to start a guess beside a question that has run so long.

        Beside one that is about to end it is better to wait: its answer may show the guess to be wrong. It
        must also cost less to find a guess than to wait.
        """
        if not self.evaluations:
            return True
        usual = median(self.evaluations)
        if len(self.guesses) >= SOME and median(self.guesses) > usual:
            return False
        return not usual / 2 < elapsed < 1.5 * usual

    def patience(self, elapsed: float) -> float | None:
        """The seconds to wait before the next attempt; None to wait without a limit."""
        usual = median(self.evaluations) if self.evaluations else float("inf")
        return 1.5 * usual - elapsed if usual / 2 < elapsed < 1.5 * usual else None


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
        self._running: dict[str, Running] = {}
        self._pace = Pace()

    def begin(self, key: str, case: Case) -> Future[Answer]:
        """Evaluate as soon as a worker is free; what runs already is not begun again."""
        if key not in self._running:
            future = self._pool.submit(self._run, key, case)
            self._running[key] = Running(future, time.monotonic())
        return self._running[key].future

    def answer(self, key: str, case: Case, ahead: Iterable[Guess]) -> Answer:
        """The answer of one candidate; while it is awaited, idle workers take what comes `ahead`."""
        self._forget_answered()
        future = self.begin(key, case)
        guesses = self._guesses(ahead)
        while not future.done():
            elapsed = time.monotonic() - self._running[key].since
            if self._count_busy() < self._jobs and self._pace.is_time_to_guess(elapsed):
                # Begin the next guess; False where there is none
                start = time.thread_time()
                found = next(guesses, None)
                self._pace.guesses.append(time.thread_time() - start)
                if found is not None:
                    self.begin(*found)
                if not (found is not None):
                    break
            else:
                busy = [each.future for each in self._running.values() if not each.future.done()]
                wait(busy, self._pace.patience(elapsed), FIRST_COMPLETED)
        return future.result()

    def close(self) -> None:
        """End the workers without waiting for what has not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _guesses(self, ahead: Iterable[Guess]) -> Iterator[Guess]:
        """Yield the guesses that are neither answered nor running."""
        for key, case in islice(ahead, 4 * self._jobs):
            if key not in self._running and key not in self._journal.answers:
                yield key, case

    def _count_busy(self) -> int:
        return sum(not each.future.done() for each in self._running.values())

    def _forget_answered(self) -> None:
        """Forget guesses that the journal answers; keep a failing one until the search asks for it."""
        for key in [key for key in self._running if key in self._journal.answers]:
            del self._running[key]

    def _run(self, key: str, case: Case) -> Answer:
        start = time.monotonic()
        answer = self._evaluate(case)
        self._pace.evaluations.append(time.monotonic() - start)
        self._journal.add(key, answer)
        return answer
