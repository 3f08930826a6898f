"""A campaign of ours and one of NNSmith 0.1.0 for the same CPU time, judged by the same judge, in one run.

Making, running and judging count; reducing does not. Each one's failures go into a database of its own, for
`crux reduce --all` and `crux triage`: how many distinct bugs they are is counted there, and read by hand.

`CRUX_NNSMITH_PYTHON` is a Python that has NNSmith, `CRUX_BESIDE_SECONDS` the CPU seconds of each (40),
`CRUX_BESIDE_SEED` the first seed, `CRUX_BESIDE_FOLDER` where the databases are kept.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corpus.case import Case
from corpus.target import Target
from generators.feedback import BLOCK, CoverageSnapshot
from generators.fuzz import Judgement, fuzz, judge_cases
from generators.fuzz import Tested as OneTest
from generators.mixture import Plan, make_tests
from oracles.judge import Judge
from oracles.verdict import Verdict
from tests.bench.nnsmith import made, needs_nnsmith
from tests.helpers.campaigns import Remembering
from triage.bugs.failures import record_failure
from triage.campaigns.testers import judgement, legality_of
from triage.store.database import Store

pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]
SECONDS = float(os.environ.get("CRUX_BESIDE_SECONDS", "40"))
SEED = int(os.environ.get("CRUX_BESIDE_SEED", "938000000"))
ORT = Target("ort")


class Clock:
    """CPU seconds of this process, of its workers, and of `others`, since it was made."""

    def __init__(self, judge: Judge) -> None:
        self.others = 0.0
        self._judge = judge
        self._start = self._now()

    def _now(self) -> float:
        return time.process_time() + self._judge.executor.cpu_seconds()

    @property
    def seconds(self) -> float:
        return self._now() - self._start + self.others


def recording(judged: Judgement, store: Store, outcomes: Counter[str], release: str) -> Judgement:
    """A judgement that keeps every failure."""

    def verdict(case: Case, thorough: bool) -> Verdict:
        found = judged(case, thorough)
        outcomes[found.outcome.value] += 1
        if found.is_bug:
            record_failure(store, replace(case, target=ORT), found, release=release)
        return found

    return verdict


def ours(judge: Judge, judged: Judgement, clock: Clock) -> None:
    """Run the campaign that `crux fuzz` makes, which learns as it does."""
    plan = Plan("mixed", passes_of="ort")
    plan = Plan("mixed", passes_of="ort", legality=legality_of(judge, plan))

    def worker(seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> Iterator[OneTest]:
        return judge_cases(make_tests(plan, seeds, lesson), judged, seconds)

    for tests, _ in enumerate(fuzz([worker], seed=SEED, teacher=Remembering(SEED)), 1):
        if tests % BLOCK == 0 and clock.seconds >= SECONDS:
            return


def theirs(judge: Judge, judged: Judgement, clock: Clock) -> None:
    """Judge NNSmith's models; the CPU time of making them counts, that of its imports does not."""
    for number, (case, cost) in enumerate(cases(SEED, SECONDS / 8)):
        clock.others += cost
        judged(case, number % 8 == 0)
        if clock.seconds >= SECONDS:
            return


@pytest.mark.parametrize("campaign", [ours, pytest.param(theirs, marks=needs_nnsmith)])
def test_same_cpu_time(campaign, say, tmp_path):
    folder = Path(os.environ.get("CRUX_BESIDE_FOLDER", str(tmp_path)))
    name = "nnsmith" if campaign is theirs else "crux"
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: Counter[str] = Counter()
    with Store(folder / f"{name}.db") as store, Judge(ORT) as judge:
        judged, clock = recording(judgement(judge), store, outcomes, judge.release), Clock(judge)
        campaign(judge, judged, clock)
        symptoms = len(store.rows("select distinct symptom from failures"))
        line = f"{clock.seconds:.0f} CPU s ({clock.others:.0f} of them elsewhere), {symptoms} symptoms"
    say(f"\n{name}: {sum(outcomes.values())} tests, {line}, {dict(outcomes)}; {folder / name}.db")


APART = 1000
"""Between the first seeds of two batches."""


def cases(seed: int, seconds: float) -> Iterator[tuple[Case, float]]:
    """NNSmith's models as cases, with the CPU seconds that each took; batches are of so many seconds."""
    while True:
        with tempfile.TemporaryDirectory() as folder:
            programs, moments = made(Path(folder), models=APART, seconds=seconds, seed=seed)
            for program in programs:
                yield program.as_case(seed), moments[-1] / len(programs)
        seed += APART
