"""The inner loop of a campaign: make cases, have them judged, hand the verdicts on; it stores nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from queue import SimpleQueue

from corpus.case import Case
from generators.mixture import BLOCK
from oracles.verdict import Outcome, Verdict

Judgement = Callable[[Case, bool], Verdict]
"""Gives the verdict on a case; with True also at the lower levels of optimisation."""

THOROUGH_EVERY = 8
"""Every so many seeds, a case is judged at the lower levels too: some bugs hide behind a later pass."""


@dataclass(frozen=True, slots=True)
class Tested:
    """One seed with the verdict on its case; where that is a bug, whoever wants the case makes it again."""

    seed: int
    case_id: str
    verdict: Verdict


Tester = Callable[[range, float], Iterable[Tested]]
"""Tests the cases of some seeds in order, and stops early after so many seconds."""


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


def judge_cases(
    cases: Iterable[Case], seeds: range, judgement: Judgement, seconds: float
) -> Iterator[Tested]:
    """What a tester does, given the cases of its seeds: judge them until the time is over."""
    deadline = time.monotonic() + seconds
    for seed, case in zip(seeds, cases, strict=True):
        yield Tested(seed, case.case_id, judgement(case, seed % THOROUGH_EVERY == 0))
        if time.monotonic() >= deadline:
            return


def fuzz(
    testers: Sequence[Tester], *, seed: int = 0, tests: int | None = None, seconds: float | None = None
) -> Iterator[Tested]:
    """Test the cases of the seeds from `seed` on; yields every test in the order of the seeds.

    Each tester is used by one thread at a time, so N testers are N workers, and the results are the same for
    any N. Ends after `tests` tests or `seconds` seconds, whichever comes first; closing the iterator ends it
    after the blocks that are under way. What a tester raises is raised here.
    """
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    for block, found in _blocks_in_order(testers, _blocks(seed, tests), deadline):
        at = block.start
        for tested in found:
            yield tested
            at = tested.seed + 1
        if at < block.stop or time.monotonic() >= deadline:
            return


def _blocks(seed: int, tests: int | None) -> Iterator[range]:
    """The seeds in blocks that do not cut those of a mixture in two."""
    stop = None if tests is None else seed + tests
    for first in count(seed - seed % BLOCK, BLOCK):
        if stop is not None and first >= stop:
            return
        yield range(max(first, seed), first + BLOCK if stop is None else min(first + BLOCK, stop))


def _blocks_in_order(
    testers: Sequence[Tester], blocks: Iterator[range], deadline: float
) -> Iterator[tuple[range, Iterable[Tested]]]:
    """Every block with its tests; keeps all testers busy where there are several."""
    if len(testers) == 1:
        # In the caller's own thread, test by test: a judge's processes end with the thread that started them.
        yield from ((block, testers[0](block, deadline - time.monotonic())) for block in blocks)
        return
    free: SimpleQueue[Tester] = SimpleQueue()
    for tester in testers:
        free.put(tester)

    def with_a_free_tester(block: range) -> list[Tested]:
        tester = free.get()
        try:
            return list(tester(block, deadline - time.monotonic()))
        finally:
            free.put(tester)

    waiting: deque[tuple[range, Future[list[Tested]]]] = deque()
    with ThreadPoolExecutor(len(testers)) as pool:
        try:
            for block in blocks:
                waiting.append((block, pool.submit(with_a_free_tester, block)))
                if len(waiting) >= 2 * len(testers):
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
