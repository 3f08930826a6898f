"""The inner loop of a campaign: make a case, have it judged, hand the verdict on; it stores nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, takewhile
from queue import SimpleQueue

from corpus.case import Case
from generators import make_case
from oracles.verdict import Outcome, Verdict

Judgement = Callable[[Case, bool], Verdict]
"""Gives the verdict on a case; with True also at the lower levels of optimisation."""

THOROUGH_EVERY = 8
"""Every so many seeds, a case is judged at the lower levels too: some bugs hide behind a later pass."""


@dataclass(frozen=True, slots=True)
class Tested:
    """One case with its verdict."""

    seed: int
    case: Case
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tests there were; `valid` are those that the backend ran or should have run."""

    tests: int = 0
    valid: int = 0
    invalid: int = 0
    unsupported: int = 0
    failures: int = 0

    def add(self, verdict: Verdict) -> Tally:
        outcome = verdict.outcome
        return replace(
            self,
            tests=self.tests + 1,
            valid=self.valid + (outcome not in (Outcome.INVALID, Outcome.UNSUPPORTED)),
            invalid=self.invalid + (outcome is Outcome.INVALID),
            unsupported=self.unsupported + (outcome is Outcome.UNSUPPORTED),
            failures=self.failures + verdict.is_bug,
        )


def fuzz(
    judges: Sequence[Judgement],
    *,
    nodes: int = 10,
    seed: int = 0,
    tests: int | None = None,
    seconds: float | None = None,
    make: Callable[[int, int], Case] = make_case,
) -> Iterator[Tested]:
    """Test the cases of the seeds from `seed` on; yields every test in the order of the seeds.

    Each judge is used by one thread at a time, so N judges are N workers, and the results are the same for
    any N. Ends after `tests` tests or `seconds` seconds, whichever comes first; closing the iterator ends it
    after the tests that are under way. What a judge raises is raised here.
    """
    seeds = iter(count(seed) if tests is None else range(seed, seed + tests))
    deadline = None if seconds is None else time.monotonic() + seconds
    in_time = takewhile(lambda _: deadline is None or time.monotonic() < deadline, seeds)

    def test(judge: Judgement, number: int) -> Tested:
        case = make(number, nodes)
        return Tested(number, case, judge(case, number % THOROUGH_EVERY == 0))

    if len(judges) == 1:
        # In the caller's own thread: a judge's processes end with the thread that started them.
        yield from map(partial(test, judges[0]), in_time)
    else:
        yield from _in_order(test, judges, in_time)


def _in_order(
    test: Callable[[Judgement, int], Tested], judges: Sequence[Judgement], seeds: Iterator[int]
) -> Iterator[Tested]:
    """Keep every judge busy and yield the results in the order of the seeds."""
    free: SimpleQueue[Judgement] = SimpleQueue()
    for judge in judges:
        free.put(judge)

    def with_a_free_judge(number: int) -> Tested:
        judge = free.get()
        try:
            return test(judge, number)
        finally:
            free.put(judge)

    waiting: deque[Future[Tested]] = deque()
    with ThreadPoolExecutor(len(judges)) as pool:
        try:
            for number in seeds:
                waiting.append(pool.submit(with_a_free_judge, number))
                if len(waiting) >= 2 * len(judges):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
