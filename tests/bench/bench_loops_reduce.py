"""Measurement: ten wrong passes of our own in functions of 200 statements and sequences of 20 passes."""

import time

import pytest

from corpus.target import Target
from corpus.tir.walk import statements
from oracles.judge import Judge
from reducer.api import reduce_case
from reducer.course import Options
from reducer.engine.predicates import SameSymptom
from tests.bench.planted_loops import MARKING, WRONG
from tests.bench.planted_loops_cases import planted_case

pytestmark = pytest.mark.bench


@pytest.fixture
def asked(monkeypatch):
    """The CPU seconds of each candidate's question; the first and last verdicts of a reduction are none."""
    spent = []
    plain = SameSymptom.__call__

    def timed(self, case):
        with self.judges.one() as judge:
            before = judge.executor.cpu_seconds() + time.process_time()
        answer = plain(self, case)
        spent.append(judge.executor.cpu_seconds() + time.process_time() - before)
        return answer

    monkeypatch.setattr(SameSymptom, "__call__", timed)
    return spent


@pytest.mark.timeout(0)
def test_planted_passes_over_loops(say, tmp_path, asked, plant):
    rows = []
    with Judge(Target(plant("planted_loops")), format="tir") as judge:
        judge.verdict(planted_case("OtherBase", rounds=2))  # the start of TVM counts for no reduction
        for name in WRONG:
            case = planted_case(name)
            asked.clear()
            before, near = judge.executor.cpu_seconds(), time.process_time()
            result = reduce_case(case, tmp_path / name, Options(target=case.target), judge=judge)
            cpu = judge.executor.cpu_seconds() - before + time.process_time() - near
            left = len([*statements(result.case.parsed.main.body)])
            wanted = {f"tirx.{name}"} | ({f"tirx.{MARKING}"} if name == "AfterAnother" else set())
            exact = set(result.case.passes) == wanted
            each = 1000 * sum(asked) / len(asked), 1000 * cpu / result.checks
            rows.append((name, case.measure.nodes, left, exact, result.checks, *each))
    say("\n| wrong pass | statements | left | only its passes | checks | ms a question | all told |")
    say("|---|---|---|---|---|---|---|")
    for row in rows:
        cells = (f"{each:.0f}" if isinstance(each, float) else str(each) for each in row)
        say(f"| {' | '.join(cells)} |")
