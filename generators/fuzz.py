"""The inner loop of a campaign: make cases, have them judged, hand the verdicts on; it stores nothing."""

from __future__ import annotations

import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from queue import SimpleQueue
from typing import Protocol

from corpus.case import Case
from generators.feedback import BLOCK, NOTHING, CoverageSnapshot, Shard, blocks_of, operators
from generators.legality import blamed
from generators.mixture import DrawnCase
from generators.pools import Trial, trial_of
from oracles.native.watching import Met
from oracles.verdict import Outcome, Verdict

Judgement = Callable[[Case, bool], Verdict]
"""Gives the verdict on a case; with True also at the lower levels of optimisation."""

THOROUGH_EVERY = 8
"""One seed in this many is judged at the lower levels too: some bugs hide behind a later pass."""


def is_thorough(seed: int) -> bool:
    """Whether the case of a seed is judged at the lower levels, too."""
    return seed % THOROUGH_EVERY == 0


@dataclass(frozen=True, slots=True)
class Tested:
    """One seed with the verdict on its case; if that is a bug, the case can be made again from the seed.

    `met` is what it met of the target's code, where that is watched; `arm` names the strategy and the mode.
    `fired` of the program's `patterns` made their pass fire, if that was asked.
    `trial` is what a test of a program that is bred taught its pool.
    `cpu` are the CPU seconds of making and judging it, the runs that the verdict rests on included: they say
    what an arm costs, and never what is made. `case` is that of a bug that was met in this process.
    """

    seed: int
    case_id: str
    verdict: Verdict
    covered: Mapping[str, int] = field(default_factory=dict)
    met: Met | None = None
    arm: str = ""
    forms: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    patterns: int = 0
    fired: int = 0
    trial: Trial | None = None
    cpu: float = field(default=0.0, compare=False)
    case: Case | None = field(default=None, compare=False)

    def without_case(self) -> Tested:
        """What crosses processes: a case never does, it is made again from its seed."""
        return replace(self, case=None)


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a first look at a program: its verdict, and the coverage of its passes."""

    verdict: Verdict
    covered: frozenset[str]


@dataclass(frozen=True, slots=True)
class Fired:
    """How many patterns a program holds, for how many the pass fires, and what fires together.

    An effect is a pattern's pass that fires, or such a pass and another one that fires with it.
    """

    patterns: int = 0
    fired: int = 0
    effects: frozenset[str] = frozenset()


NO_PATTERNS = Fired()

Looking = Callable[[Sequence[DrawnCase]], Sequence[Look | None]]
"""Looks at several programs together; None for one that needs a verdict of its own."""

Tester = Callable[[range, float, CoverageSnapshot | None], Iterable[Tested]]
"""Tests the cases of some seeds in order, drawn from a lesson, and stops early when the seconds are over."""


class CoverageFeedback(Protocol):
    """Who learns from the tests of a campaign and says what its blocks draw from."""

    def lesson(self, block: range) -> CoverageSnapshot | None:
        """The lesson that a block draws from; None until all blocks behind it have ended."""

    def learn(self, block: range, tests: Sequence[Tested]) -> None:
        """These tests of a block have come to their end, in the order of the blocks."""


class NoCoverageFeedback:
    """Nothing is learned."""

    def lesson(self, block: range) -> CoverageSnapshot | None:
        """The empty lesson: no block waits for another one."""
        return NOTHING

    def learn(self, block: range, tests: Sequence[Tested]) -> None:
        """Nothing is kept."""


def lesson_of(tests: Sequence[Tested]) -> CoverageSnapshot:
    """Sum up what some tests teach. A program that was avoided on purpose is no refusal."""
    covered, ran, refused = Counter[str](), Counter[str](), Counter[str]()
    tried, found, led = Counter[str](), Counter[str](), Counter[str]()
    for each in tests:
        covered.update(each.covered)
        tried[each.arm] += 1
        outcome, symptom = each.verdict.outcome, each.verdict.symptom
        names = operators(each.covered)
        if each.verdict.is_bug:
            found[f"{each.arm}\t{symptom}"] += 1
            key = f"{zlib.crc32(str(symptom).encode()):08x}"
            led.update(f"{name}\t{key}" for name in {*names, *each.passes})
        if outcome is Outcome.UNSUPPORTED:
            refused.update(names)
            refused.update(blamed(each.forms, each.verdict.title))
        elif outcome not in (Outcome.INVALID, Outcome.UNSUPPORTED):
            ran.update((*names, *set(each.passes), *each.forms))
    trials = tuple(each.trial for each in tests if each.trial is not None)
    return CoverageSnapshot(covered, ran, refused, tried, found, led, trials=trials)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of tests; `valid` ones ran on the backend, or should have run.

    A test is valid if it is not `unsupported`: the target has its operators and types. Of the programs
    `around` patterns those are `triggering` on which the pass of one of them fires at least.
    """

    tests: int = 0
    valid: int = 0
    invalid: int = 0
    unsupported: int = 0
    failures: int = 0
    patterns: int = 0
    fired: int = 0
    around: int = 0
    triggering: int = 0

    def add(self, tested: Tested) -> Tally:
        """The tally with one more test."""
        verdict, outcome = tested.verdict, tested.verdict.outcome
        return replace(
            self,
            tests=self.tests + 1,
            valid=self.valid + (outcome not in (Outcome.INVALID, Outcome.UNSUPPORTED)),
            invalid=self.invalid + (outcome is Outcome.INVALID),
            unsupported=self.unsupported + (outcome is Outcome.UNSUPPORTED),
            failures=self.failures + verdict.is_bug,
            patterns=self.patterns + tested.patterns,
            fired=self.fired + tested.fired,
            around=self.around + bool(tested.patterns),
            triggering=self.triggering + bool(tested.fired),
        )


def judge_cases(
    drawn: Iterable[DrawnCase],
    judgement: Judgement,
    seconds: float,
    met: Callable[[], Met | None] = lambda: None,
    fired: Callable[[Case], Fired] = lambda case: NO_PATTERNS,
    looking: Looking | None = None,
    known: frozenset[str] = frozenset(),
) -> Iterator[Tested]:
    """Judge the cases of a tester's seeds until the time is over.

    `fired` says of bred programs, and of some others, which of their patterns' passes fire. With a `looking`
    function the tester looks at each block as a whole first; `known` is the coverage of its pool.
    """
    deadline = time.monotonic() + seconds
    before = time.process_time()
    for block in _in_blocks(drawn, BLOCK if looking else 1):
        looks = looking(block) if looking else [None]
        shared = (time.process_time() - before) / len(block)
        for each, look in zip(block, looks, strict=True):
            before = time.process_time()
            verdict = look.verdict if look else judgement(each.case, is_thorough(each.seed))
            news = met()
            runs = verdict.outcome not in (Outcome.INVALID, Outcome.UNSUPPORTED)
            is_asked = each.bred is not None or is_thorough(each.seed)
            seen = fired(each.case) if runs and is_asked else NO_PATTERNS
            cpu = shared + time.process_time() - before + sum(run.cpu_seconds for run in verdict.runs)
            own = (each.covered, news, each.arm, each.forms, each.case.passes)
            trial = _trial(each, look.covered if look else seen.effects, known, verdict)
            shown = (*own, seen.patterns, seen.fired, trial)
            tested = Tested(each.seed, each.case.case_id, verdict, *shown, cpu=cpu)
            yield replace(tested, case=each.case) if verdict.is_bug else tested
            before = time.process_time()
            if time.monotonic() >= deadline:
                return


def _in_blocks(drawn: Iterable[DrawnCase], size: int) -> Iterator[list[DrawnCase]]:
    rest = iter(drawn)
    while block := list(islice(rest, size)):
        yield block


def _trial(each: DrawnCase, covered: frozenset[str], known: frozenset[str], verdict: Verdict) -> Trial | None:
    """What a test of a bred program teaches; None for every other test."""
    if each.bred is None:
        return None
    if verdict.outcome is not Outcome.PASS:
        return Trial(str(each.seed), each.bred, failed=True)
    case = each.case
    program = each.bred.made_of or case.program.decode()
    return trial_of(str(each.seed), each.bred, covered, known, program, case.passes)


def fuzz(
    testers: Sequence[Tester],
    *,
    seed: int = 0,
    tests: int | None = None,
    seconds: float | None = None,
    teacher: CoverageFeedback | None = None,
    shard: Shard | None = None,
) -> Generator[Tested, None, None]:
    """Test the cases of the seeds from `seed` on, or of a shard of them; yields each in the seeds' order.

    Each tester is used by one thread at a time, so N testers are N workers, and the results are the same for
    any N. Ends after `tests` tests or `seconds` seconds, whichever comes first; closing the iterator ends it
    after the blocks that are under way. What a tester raises is raised here.
    """
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    learned = teacher or NoCoverageFeedback()
    for block, found in _blocks_in_order(testers, blocks_of(seed, tests, shard), deadline, learned):
        ended: list[Tested] = []
        try:
            for tested in found:
                ended.append(tested)
                yield tested
        finally:
            learned.learn(block, ended)
        if len(ended) < len(block) or time.monotonic() >= deadline:
            return


def _blocks_in_order(
    testers: Sequence[Tester], blocks: Iterator[range], deadline: float, teacher: CoverageFeedback
) -> Iterator[tuple[range, Iterable[Tested]]]:
    """Every block with its tests; keeps all testers busy where there are several and blocks may begin."""
    if len(testers) == 1:
        # In the caller's own thread, test by test: a judge's processes end with the thread that started them.
        for block in blocks:
            yield block, testers[0](block, deadline - time.monotonic(), teacher.lesson(block))
        return
    free: SimpleQueue[Tester] = SimpleQueue()
    for tester in testers:
        free.put(tester)

    def with_a_free_tester(block: range, lesson: CoverageSnapshot) -> list[Tested]:
        tester = free.get()
        try:
            return list(tester(block, deadline - time.monotonic(), lesson))
        finally:
            free.put(tester)

    waiting: deque[tuple[range, Future[list[Tested]]]] = deque()
    with ThreadPoolExecutor(len(testers)) as pool:
        try:
            upcoming = next(blocks, None)
            while waiting or upcoming is not None:
                lesson = teacher.lesson(upcoming) if upcoming is not None else None
                if upcoming is not None and lesson is not None and len(waiting) < 2 * len(testers):
                    waiting.append((upcoming, pool.submit(with_a_free_tester, upcoming, lesson)))
                    upcoming = next(blocks, None)
                    continue
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
