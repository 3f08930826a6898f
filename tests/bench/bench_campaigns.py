"""What a campaign's memory is worth, and what watching the target's code costs.

The guide: HirFuzz's score over the programs of a campaign, as `crux fuzz` makes them: guided with what the
campaign has learned, guided anew in every block, unguided (`uniform`). And what it finds: the distinct
symptoms of onnxruntime in equal CPU time, guided by the campaign and not.
"""

import os
import time
from collections import Counter
from typing import Any

import pytest

from corpus.case import Case
from corpus.target import Target
from generators.feedback import CoverageSnapshot
from generators.fuzz import Tested as Outcome_of_a_test
from generators.fuzz import fuzz, judge_cases
from generators.mixture import PLAN, Plan, make_cases, make_tests
from generators.mutations.modes import Mode
from generators.strategies import coverage, fresh
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.native.watching import Watch, find_libraries
from oracles.relation.operator import Operator
from oracles.verdict import Outcome, Phase, Verdict
from tests.bench.bench_generate import HIRFUZZ
from tests.helpers.campaigns import Remembering
from triage.campaigns.testers import in_this_process, legality_of

pytestmark = pytest.mark.bench


def score(plan: Plan, tests: int, teacher: Remembering | None) -> tuple[int, float]:
    """Distinct pieces of coverage over a campaign, and its CPU seconds; nothing is run."""

    def passes(case: Case, thorough: bool) -> Verdict:
        return Verdict(Outcome.PASS, Phase.EXECUTE, "")

    def worker(seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> list[Outcome_of_a_test]:
        return list(judge_cases(make_tests(plan, seeds, lesson), passes, seconds))

    start, seen = time.process_time(), Counter[str]()
    for each in fuzz([worker], tests=tests, teacher=teacher):
        seen.update(each.covered)
    pieces = sum(":" in key or ">" in key for key in seen)
    return pieces, time.process_time() - start


def only_hirfuzz(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both strategies know the operators of HirFuzz's paper alone."""
    known = tuple(each for each in fresh.known_operators() if each.name in HIRFUZZ)
    some = coverage.operators_for

    def chosen(*words: Any) -> dict[Any, list[Operator]]:
        found = some(*words)
        return {key: [each for each in group if each.name in HIRFUZZ] for key, group in found.items()}

    monkeypatch.setattr(fresh, "known_operators", lambda: known)
    monkeypatch.setattr(coverage, "operators_for", chosen)


@pytest.mark.parametrize("pool", ["all", "hirfuzz"])
@pytest.mark.parametrize("tests", [208, 4000, 20000])
def test_the_guide_of_a_campaign(tests, pool, say, monkeypatch):
    if pool == "hirfuzz":
        only_hirfuzz(monkeypatch)
    guided = Plan("coverage", Mode.STRICT)
    found = {
        "learning": score(guided, tests, Remembering()),
        "forgetting": score(guided, tests, None),
        "unguided": score(Plan("uniform", Mode.STRICT), tests, None),
    }
    say(
        f"\n{tests} programs, operators: {pool}:",
        {name: (pieces, round(cpu, 1)) for name, (pieces, cpu) in found.items()},
    )
    say(f"  learning / unguided {found['learning'][0] / found['unguided'][0]:.2f},", end=" ")
    say(f"forgetting / unguided {found['forgetting'][0] / found['unguided'][0]:.2f}")


def symptoms(
    target: str, strategy: str, seed: int, seconds: float, teacher: Remembering | None
) -> tuple[set[str], int]:
    """The distinct symptoms that a strategy meets in so many CPU seconds of all processes, and its tests."""
    found, tests = set[str](), 0
    with Judge(Target(target)) as judge:
        plan = Plan(strategy, passes_of=target, legality=legality_of(judge, PLAN))
        test = in_this_process(judge, plan, ())
        start = time.process_time() + judge.cpu_seconds()
        for each in fuzz([test], seed=seed, teacher=teacher):
            tests += 1
            if each.verdict.is_bug:
                found.add(str(each.verdict.symptom))
            if time.process_time() + judge.cpu_seconds() - start > seconds:
                return found, tests
    raise AssertionError("seeds do not end")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", range(int(os.environ.get("CRUX_GUIDE_SEEDS", "6"))))
@pytest.mark.parametrize(("target", "strategy"), [("ort", "coverage"), ("tvm", "tir")])
def test_what_the_guide_finds(target, strategy, number, say):
    seed, seconds = 640_000_000 + 1_000_000 * number, float(os.environ.get("CRUX_GUIDE_SECONDS", "60"))
    for name, teacher in (("learning", Remembering(seed)), ("forgetting", None)):
        found, tests = symptoms(target, strategy, seed, seconds, teacher)
        say(f"\n{strategy} {seed} {name}: {len(found)} symptoms in {tests} tests")


@pytest.mark.parametrize(("name", "tests"), [("ort", 200)])
def test_watching_the_code(name, tests, say):
    backend = find_backend(name)
    watch, cases = Watch(find_libraries(backend.libraries)), list(make_cases(PLAN, range(tests)))
    said, cost, functions = [], [], []
    for each in (None, watch, None, watch):
        with Judge(Target(name), watch=each) as judge:
            assert judge.release
            before = judge.executor.cpu_seconds()
            said.append([f"{verdict.outcome} {verdict.symptom}" for verdict in map(judge.verdict, cases)])
            cost.append(1000 * (judge.executor.cpu_seconds() - before) / tests)
        if each:
            functions.append(len(each.take().functions))
    same = sum(one == two for one, two in zip(said[0], said[1], strict=True))
    say(f"\n{name}: {watch.total:,} blocks; {len(watch.ever()):,} met; same verdicts {same} of {tests}")
    say("  ms of CPU a test, plain, first watched, plain, watched again:", [round(one, 2) for one in cost])
