"""Reports of what an oracle finds that was asked for: a script of plain runs shows it."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.graphs.program import Binding, Graph, GraphProgram, Input
from corpus.target import Target
from oracles.judge import Judge
from oracles.optimisers.tvm_pipelines import configs_of_relax
from oracles.optional import named
from oracles.run import Config
from triage.bugs.history import History
from triage.cases.judging import alone
from triage.projects import ClaimedRun, runner_of
from triage.reports.report import write_report
from triage.repro.source import Source
from triage.views.rendering import template_of

BASELINE, OPTIMISED = configs_of_relax(Target("tvm"))[:2]
SOURCE = Source("class Module:\n    @R.function\n    def main(x): ...", "np.zeros(2),")


def asked(oracle: str, **settings: object) -> Config:
    config = Config(OPTIMISED.label, (*OPTIMISED.settings, *settings.items()))  # type: ignore[arg-type]
    return named(oracle, config)


WAYS = {
    "well-formed": (asked("well-formed", **{"well-formed": True}), "relax.analysis.well_formed(module)"),
    "types": (asked("types", types=True), "contradiction(self.before.pop(), module)"),
    "round-trip": (
        asked("round-trip", via="script"),
        "tvm.script.from_source(module.script(show_meta=True))",
    ),
}


@pytest.mark.parametrize("oracle", WAYS)
def test_the_script_runs_the_program_as_the_oracle_did(oracle: str) -> None:
    config, does = WAYS[oracle]
    runner = runner_of("tvm", "relax")
    assert oracle in runner.tells
    shown = ClaimedRun(config, {"base": BASELINE, "failing": config})
    assert runner.short is not None
    for template in (runner.part, runner.short.program + runner.short.run):
        given = {"source": SOURCE, "seen": "exception", "expected": {}, **runner.settings(shown)}
        text = template_of(template).render(given)
        ast.parse(text)
        assert does in text


def returning(op: str, dtype: str) -> Case:
    """A closure around this loses the type of the tuple that it returns in TVM 0.27."""
    main = Graph(
        (Input("x", "float32", ()), Input("y", dtype, (1, 1))),
        (Binding("a", "alias", ({"ref": "x"},)), Binding("b", op, ({"ref": "y"}, {"prim": ["int64", 0]}))),
        ("a", "b"),
        {"pure": True},
    )
    inputs = {"x": np.zeros((), "float32"), "y": np.zeros((1, 1), dtype)}
    return Case(
        "relax", GraphProgram("relax", main).to_bytes(), inputs, Target.parse("tvm@oracles=metamorphic")
    )


@pytest.mark.slow
def test_what_fails_as_it_was_rewritten_is_reported_as_a_program_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("tvm", reason="TVM is not installed")
    case = returning("relax.tril", "int32")
    assert case.target is not None
    with Judge(case.target, format="relax") as judge:
        verdict = judge.verdict(case)
        if not verdict.is_bug:
            pytest.skip("the installed TVM does not show the failure")
        own, plain = alone(case, judge)
        assert own.program != case.program
        assert plain is not None
        assert not any(run.config.asked_by for run in plain.runs)
        report = write_report(case, judge, tmp_path / "report", History())
    assert report.ready, report.missing
    text = (tmp_path / "report" / "issue.md").read_text()
    assert "LambdaLift()" in text
