"""Workers that evaluate the predicate for the gate, and early what it may ask next when they are idle."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import TypeAlias

from corpus.case import Case
from reducer.engine.journal import Answer, Journal

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
