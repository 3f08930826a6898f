"""How long a campaign of TIR programs on TVM takes to find a wrong rewrite in its pipeline, of twelve kinds.

Each is sought by itself, as `crux fuzz --strategy tir` does, for at most `CRUX_BENCH_SECONDS` (120) CPU
seconds of this process and its workers, from each of `CRUX_BENCH_SEEDS` (1) seeds. A failure counts where TVM
without the rewrite passes the same case; to ask that is not counted. `CRUX_BENCH_KINDS` names some kinds.
"""

import os
import statistics
import time

import pytest

from corpus.case import Case
from corpus.target import Target
from generators.fuzz import fuzz, judge_cases
from generators.mixture import Plan, make_tests
from oracles.judge import Judge
from oracles.verdict import Outcome, Verdict
from tests.helpers.campaigns import Remembering
from tests.helpers.wrong_loops import WRONG
from triage.campaigns.testers import judgement, looking

pytestmark = pytest.mark.bench
SEEDS = int(os.environ.get("CRUX_BENCH_SEEDS", "1"))
FIRST = int(os.environ.get("CRUX_BENCH_FIRST", "1"))
SECONDS = float(os.environ.get("CRUX_BENCH_SECONDS", "120"))
KINDS = tuple(filter(None, os.environ.get("CRUX_BENCH_KINDS", "").split(","))) or tuple(WRONG)


def is_shown(verdict: Verdict) -> bool:
    """Whether values or memory tell, and not a complaint about what the rewrite left."""
    return verdict.outcome in (Outcome.MISMATCH, Outcome.CRASH) or "memory: " in verdict.title


class Hunt:
    """One campaign against one wrong rewrite."""

    def __init__(self, judge: Judge, plain: Judge) -> None:
        self.judge, self.plain, self.aside, self.tests = judge, plain, 0.0, 0
        self.start = self._now()

    def _now(self) -> float:
        return time.process_time() + self.judge.executor.cpu_seconds()

    @property
    def seconds(self) -> float:
        return self._now() - self.start - self.aside

    def is_planted(self, case: Case, verdict: Verdict) -> bool:
        """Whether the failure comes from the rewrite: TVM as it is passes the case."""
        before = time.process_time()
        found = self.plain.verdict(case)
        self.aside += time.process_time() - before
        return is_shown(verdict) and not found.is_bug

    def run(self, seed: int) -> bool:
        """Whether it is found in time."""
        plan = Plan("tir", passes_of="tvm")

        def worker(seeds, seconds, lesson):
            looks = looking(self.judge, ("tir",))
            known = lesson.pool.seen if lesson is not None else frozenset()
            drawn = make_tests(plan, seeds, lesson)
            yield from judge_cases(drawn, judgement(self.judge), seconds, looking=looks, known=known)

        first = seed * 1_000_000
        for tested in fuzz([worker], seed=first, teacher=Remembering(first)):
            self.tests += 1
            if tested.case is not None and self.is_planted(tested.case, tested.verdict):
                return True
            if self.seconds > SECONDS:
                return False
        return False


@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_seconds_until_a_wrong_rewrite_is_found(kind, say, plant):
    target = Target(plant(kind))
    spent, tests = [], []
    with Judge(Target("tvm"), format="tir") as plain:
        for seed in range(FIRST, FIRST + SEEDS):
            with Judge(target, format="tir") as judge:
                hunt = Hunt(judge, plain)
                found = hunt.run(seed)
                spent += [hunt.seconds] if found else []
                tests.append(hunt.tests)
    middle = f"{statistics.median(spent):.0f}" if spent else "-"
    say(f"\n| {kind} | {len(spent)} of {SEEDS} | {middle} CPU s | {statistics.median(tests):.0f} tests |")
