"""How often passes fire on programs of the strategies, and what documented tests give; never asserted."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus.case import Case
from corpus.target import Target
from generators.mixture import Plan, make_cases
from generators.mutations.modes import Mode
from oracles.judge import Judge
from oracles.probes.record import Firing
from oracles.verdict import Limits
from triage.cases.patterns import Extraction, Reader

TESTS = "CRUX_DOCUMENTED_TESTS"
"""A directory of a compiler's tests that is to be measured."""
PROGRAMS = 500
COMMON = 0.05
"""What fires on so many of the `random` programs is commonplace."""

pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]


def cases(strategy: str) -> Iterator[Case]:
    plan = Plan(strategy, Mode.STRICT, nodes=10, sequences=False)
    return make_cases(plan, range(7_000_000, 7_000_000 + PROGRAMS))


def test_which_passes_fire(capsys):
    """Of one target and the same seeds; each rewrite rule counts by itself."""
    fired: dict[str, list[tuple[str, ...]]] = {}
    with Firing(Target("ort")) as firing:
        for strategy in ("random", "mixed", "patterns"):
            fired[strategy] = [firing.passes(case.program) for case in cases(strategy)]
    often = Counter(name for names in fired["random"] for name in names)
    common = {name for name, number in often.items() if number >= COMMON * PROGRAMS}
    with capsys.disabled():
        print(f"\ncommonplace: {', '.join(sorted(common))}")
        for strategy, each in fired.items():
            beyond = sum(not common.issuperset(names) for names in each)
            distinct = {name for names in each for name in names}
            a_program = sum(map(len, each)) / PROGRAMS
            print(
                f"{strategy}: a pass beyond those fires on {beyond / PROGRAMS:.1%}, {len(distinct)} distinct "
                f"passes, {a_program:.2f} a program"
            )
        missing = {name for names in fired["mixed"] for name in names}
        missing -= {name for names in fired["patterns"] for name in names}
        print(f"fire in mixed and not in patterns: {', '.join(sorted(missing)) or 'none'}")


def test_how_many_programs_are_valid(capsys):
    """Whether the target's un-optimised configuration runs them, and every output is finite."""
    with Judge(Target("ort")) as judge:
        outcomes = Counter(str(judge.verdict(case).outcome) for case in cases("patterns"))
    with capsys.disabled():
        print(f"\npatterns, {PROGRAMS} programs of 10 nodes: {dict(outcomes)}")


@pytest.mark.skipif(TESTS not in os.environ, reason=f"{TESTS} names no directory")
def test_what_documented_tests_give(capsys, tmp_path):
    skipped: list[str] = []
    target, limits = Target(os.environ.get("CRUX_DOCUMENTED_TARGET", "ort")), Limits()
    reader = Reader(target, limits, 1 << 30, True, skipped.append)
    with Firing(target) as firing, Judge(target) as judge:
        extraction = Extraction(firing, judge, most=10)
        files = 0
        for _, documents in reader.documents(Path(os.environ[TESTS])):
            files += 1
            list(extraction.of(documents))
    with capsys.disabled():
        print(f"\n{files} files, {len(skipped)} skipped; {extraction.facts()}")
