"""When campaigns first meet each known bug of onnxruntime: survival curves, guided, unguided and `mixed`.

A failure is a known bug where the checks of `crux hunt` say that a case of the regression corpus explains it;
nothing is reduced. The clock is the CPU time of making, running and judging; that of the checks is left out.

`CRUX_SURVIVAL_SECONDS` are the CPU seconds of each campaign (40), `CRUX_SURVIVAL_SEEDS` how many (5),
`CRUX_SURVIVAL_STRATEGIES` which, `CRUX_SURVIVAL_PLOT` a file for the picture (SVG), `CRUX_SURVIVAL_FIRST` the
first seed.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.regression import load_regressions
from corpus.target import Target
from generators.feedback import CoverageSnapshot
from generators.fuzz import Judgement, fuzz, judge_cases
from generators.fuzz import Tested as OneTest
from generators.mixture import BLOCK, Plan, make_tests
from oracles.judge import Judge
from oracles.verdict import Verdict
from reducer.pass_sets import core_of
from tests.bench.curves import picture
from tests.helpers.campaigns import Remembering
from triage.bugs.known import SHIPPED, read_known
from triage.campaigns.testers import judgement, legality_of
from triage.causes.cores import Sites
from triage.causes.explaining import Bug, explain

pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]
ORT = Target("ort")
SECONDS = float(os.environ.get("CRUX_SURVIVAL_SECONDS", "40"))
SEEDS = int(os.environ.get("CRUX_SURVIVAL_SEEDS", "5"))
STRATEGIES = os.environ.get("CRUX_SURVIVAL_STRATEGIES", "random,coverage,mixed").split(",")
FIRST = int(os.environ.get("CRUX_SURVIVAL_FIRST", "941000000"))
APART = 1 << 20
POINTS = 80


@dataclass
class Labels:
    """Says which known bug a failure is; `cpu` are the seconds that this took."""

    judge: Judge
    bugs: list[Bug]
    sites: Sites = field(init=False)
    cpu: float = 0.0

    def __post_init__(self) -> None:
        self.sites = Sites(self.judge)

    def of(self, case: Case, verdict: Verdict) -> str:
        start = time.process_time()
        found = explain(case, verdict, self.bugs, self.judge, self.sites).bug
        self.cpu += time.process_time() - start
        return found.name if found else ""


def known_bugs(judge: Judge) -> list[Bug]:
    """The cases of the corpus that fail on this release, with what the list of known issues says of them."""
    passes = {each.id: each.match.get("passes", "") for each in read_known(SHIPPED)}
    found = []
    for number, each in enumerate(load_regressions()):
        verdict = judge.verdict(each.case) if each.package == "onnxruntime" else None
        if verdict is not None and verdict.is_bug:
            blamed = tuple(passes.get(each.name, "").split())
            shown = frozenset({(str(verdict.symptom), judge.release)})
            core = core_of(each.case, verdict, blamed, judge)
            found.append(Bug(number, each.name, each.case, verdict.outcome.value, blamed, shown, core))
    return found


@dataclass
class Campaign:
    """What one campaign met, and after how many CPU seconds."""

    tests: int = 0
    failures: int = 0
    symptoms: int = 0
    first: dict[str, float] = field(default_factory=dict)


def campaign(strategy: str, seed: int, labels: Labels) -> Campaign:
    """Run one campaign of a strategy, which learns as campaigns do."""
    met, symptoms = Campaign(), set[str]()
    with Judge(ORT) as judge:
        plan = Plan(strategy, passes_of="ort")
        plan = Plan(strategy, passes_of="ort", legality=legality_of(judge, plan))
        start = time.process_time() + judge.executor.cpu_seconds()
        before = labels.cpu

        def cpu() -> float:
            return time.process_time() + judge.executor.cpu_seconds() - start - (labels.cpu - before)

        def worker(seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> Iterator[OneTest]:
            noted = noting(judgement(judge), met, symptoms, cpu, labels)
            return judge_cases(make_tests(plan, seeds, lesson), noted, seconds)

        for _ in fuzz([worker], seed=seed, teacher=Remembering(seed)):
            met.tests += 1
            if met.tests % BLOCK == 0 and cpu() >= SECONDS:
                break
    met.symptoms = len(symptoms)
    return met


def noting(
    judged: Judgement, met: Campaign, symptoms: set[str], cpu: Callable[[], float], labels: Labels
) -> Judgement:
    """A judgement that notes which known bug a failure is, and when it came."""

    def verdict(case: Case, thorough: bool) -> Verdict:
        found = judged(case, thorough)
        if found.is_bug:
            now = cpu()
            met.failures += 1
            symptoms.add(str(found.symptom))
            name = labels.of(case, found)
            if name:
                met.first.setdefault(name, now)
        return found

    return verdict


def test_first_sight_of_each_known_bug(capsys):
    marks = np.linspace(0, SECONDS, POINTS)
    bands, every = {}, {}
    with Judge(ORT) as judge, capsys.disabled():
        labels = Labels(judge, known_bugs(judge))
        names = [bug.name for bug in labels.bugs]
        print(f"\n{len(names)} known bugs on {judge.release}")
        for strategy in STRATEGIES:
            found = [campaign(strategy, FIRST + APART * n, labels) for n in range(SEEDS)]
            unseen = [
                [sum(each.first.get(name, np.inf) > mark for name in names) for mark in marks]
                for each in found
            ]
            bands[strategy], every[strategy] = np.array(unseen, float), found
            print(f"{strategy:9} tests {[each.tests for each in found]}", end=" ")
            print(
                f"failures {[each.failures for each in found]} symptoms {[each.symptoms for each in found]}"
            )
            print(f"          bugs met {[len(each.first) for each in found]}", end=" ")
            print(f"within half the time {[_by(each, SECONDS / 2) for each in found]}", flush=True)
        print(f"median CPU seconds to first sight of {SEEDS} (-: in fewer than half)")
        for name in names:
            print(f"  {name:34}", *(f"{strategy} {_median(every[strategy], name):>5}" for strategy in every))
    place = os.environ.get("CRUX_SURVIVAL_PLOT", "")
    if place:
        title = f"Known bugs of onnxruntime that were not met yet, of {len(names)}"
        Path(place).write_text(picture(marks, bands, title, 0.0, float(len(names))))


def _by(each: Campaign, seconds: float) -> int:
    return sum(first <= seconds for first in each.first.values())


def _median(found: list[Campaign], name: str) -> str:
    middle = float(np.median([each.first.get(name, np.inf) for each in found]))
    return f"{middle:.1f}" if np.isfinite(middle) else "-"
