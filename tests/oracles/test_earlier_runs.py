"""One compiled program that runs with several sizes: what an earlier run leaves behind is found."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from corpus.target import Target
from generators.mixture import Plan, make_cases
from oracles.judge import Judge
from oracles.verdict import Config, Outcome, Phase, Run, Status
from reducer.api import reduce_case
from reducer.course import Options
from tests.helpers.commands import crux
from tests.helpers.models import case_of
from tests.helpers.planting import stale_environment
from tests.reducer.driving import drive, find_move, subject_of

GRAPH = "g (float[rows,width] x) => (y) { y = Exp(x) }"
X = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
CASE = case_of(GRAPH, x=X)
NEEDED = {"rows": 9, "width": 2}
AFTER_SOME = CASE.with_earlier([{"rows": 2}, NEEDED, {"width": 7}])
RESHAPED = case_of("g (float[rows] x) => (y) <int64[2] s = {3, 4}> { y = Reshape(x, s) }", x=X.reshape(12))


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    python = stale_environment(tmp_path_factory.mktemp("stale"))
    with Judge(Target.parse(f"ort@python={python}")) as found:
        yield found


def test_sizes_are_kept_in_the_case_and_give_the_shapes_of_its_inputs(tmp_path):
    AFTER_SOME.save(tmp_path / "case")
    found = Case.load(tmp_path / "case")
    assert found.case_id == AFTER_SOME.case_id != CASE.case_id
    assert dict(found.settings)["earlier"] == "rows=2; rows=9,width=2; width=7"
    assert found.earlier_shapes == ({"x": (2, 4)}, {"x": (9, 2)}, {"x": (3, 7)})
    assert AFTER_SOME.with_earlier([]).case_id == CASE.case_id


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows", "write sizes"),
        ("rows=-1", "write sizes"),
        ("depth=2", "'depth'"),
        ("rows=2000000000", "smaller sizes"),
    ],
)
def test_a_setting_that_is_none_is_refused_in_a_line(tmp_path, text, said):
    AFTER_SOME.save(tmp_path / "case")
    facts = json.loads((tmp_path / "case/case.json").read_text())
    facts["settings"]["earlier"] = text
    (tmp_path / "case/case.json").write_text(json.dumps(facts))
    for opening in (open_case, Case.load):
        with pytest.raises(UserError, match=said):
            opening(tmp_path / "case")
    done = crux(tmp_path, "check", "case")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_a_fault_that_an_earlier_run_brings_about_is_seen_in_every_way_but_the_first_run(stale):
    assert stale.verdict(CASE).outcome is Outcome.PASS
    verdict = stale.verdict(AFTER_SOME)
    assert verdict.outcome is Outcome.MISMATCH
    assert verdict.wrong.side == "optimised"


def test_the_needed_run_stays_and_the_others_go(stale, tmp_path):
    found = reduce_case(AFTER_SOME, tmp_path, Options(target=stale.target), judge=stale)
    assert found.case.earlier == ({"d0": 2},)
    assert Case.load(tmp_path).earlier == found.case.earlier
    assert (found.after.nodes, found.is_minimal) == (1, True)


def test_what_fails_with_the_sizes_of_an_earlier_run_runs_once_with_those(judge):
    subject = subject_of(judge, CASE)
    subject = replace(subject, earlier=({"rows": 2}, {"rows": 0}, {"width": 7}))
    move = find_move("fewer earlier runs")
    found = drive(move, subject, lambda model, inputs: inputs["x"].size == 0).subject
    assert (found.earlier, found.inputs["x"].shape) == ((), (0, 4))
    assert [dim.dim_value for dim in found.graph_inputs["x"].type.tensor_type.shape.dim] == [0, 4]


def test_sizes_that_the_program_refuses_are_no_failure(judge):
    verdict = judge.verdict(RESHAPED.with_earlier([{"rows": 5}, {"rows": 24}]))
    assert verdict.outcome is Outcome.PASS
    assert [sorted(run.refused) for run in verdict.runs[:2]] == [[0, 1], [0, 1]]


def test_sizes_that_only_one_way_refuses_are():
    failed = Run(Config("all"), Status.EXCEPTION, Phase.EXECUTE, error="Fail")
    run = Run(Config("all"), Status.OK, Phase.EXECUTE, refused={0: failed, 1: failed})
    plain = Run(Config("none"), Status.OK, Phase.EXECUTE, refused={0: failed})
    assert run.held_to(plain) == replace(failed, refused={1: failed})
    assert run.held_to(run) is run


def test_sizes_that_an_independent_implementation_refuses_as_well_are_left_out(judge):
    slices = " ".join(f"s{i} = Slice(x, {start}, e, a, t)" for i, start in enumerate(("p", "q", "r", "s")))
    case = case_of(
        "g (float[1,c,n,n] x) => (y) <int64[2] a = {2, 3}, int64[2] t = {2, 2}, int64[2] e = {99, 99},"
        " int64[2] p = {0, 0}, int64[2] q = {0, 1}, int64[2] r = {1, 0}, int64[2] s = {1, 1}>"
        f" {{ {slices} y = Concat <axis = 1> (s0, s2, s1, s3) }}",
        x=np.ones((1, 3, 2, 2), np.float32),
    )
    assert judge.verdict(case.with_earlier([{"n": 1}])).outcome is Outcome.PASS
    alone = replace(case, inputs={"x": np.ones((1, 3, 1, 1), np.float32)})
    assert judge.verdict(alone).outcome is Outcome.EXCEPTION, "un-optimised it is taken"


def test_sizes_that_another_frameworks_baseline_refuses_are_left_out(tvm_judge):
    verdict = tvm_judge.verdict(RESHAPED.with_earlier([{"rows": 5}, {"rows": 12}]))
    assert verdict.outcome is Outcome.PASS
    assert not any(run.refused for run in verdict.runs)


GIVEN = {"x": np.ones(40, np.float32)}
DRAWING = "g (float[n] x) => (y) <float r = {0.5}, bool t = {1}> { y = Dropout <seed = 7> (x, r, t) }"


@pytest.mark.parametrize(
    ("target", "case", "said"),
    [
        ("reference", AFTER_SOME, "reference runs such a program once"),
        ("ort", case_of(DRAWING, **GIVEN).with_earlier([{"n": 9}]), "random numbers"),
    ],
)
def test_what_has_no_earlier_runs_says_so(target, case, said):
    with Judge(Target(target)) as found:
        verdict = found.verdict(case)
    assert verdict.outcome is Outcome.UNSUPPORTED
    assert said in verdict.title


def test_programs_with_symbolic_dims_get_earlier_runs_where_the_target_makes_them():
    plan = Plan("random", nodes=4, passes_of="ort")
    cases = list(make_cases(plan, range(96)))
    found = [case for case in cases if case.earlier]
    assert found
    assert not any(case.earlier for case in make_cases(replace(plan, passes_of="openvino"), range(96)))
    for case in found:
        assert case.checked("it") is case
        outputs = [info.type.tensor_type.shape.dim for info in case.parsed.graph.output]
        assert not any(dim.HasField("dim_value") for dims in outputs for dim in dims)


@pytest.mark.slow
def test_the_script_makes_the_same_runs(stale, tmp_path):
    replace(AFTER_SOME, target=stale.target).save(tmp_path / "case")
    done = crux(tmp_path, "reduce", "case", "-o", "least", "--trust", "--quiet")
    assert done.returncode == 0, done.stderr
    crux(tmp_path, "report", "least", "-o", "report", "--trust", "--quiet", "--offline")
    (script,) = tmp_path.glob("report/**/repro.py")
    said = "in the second run of what is compiled once, after a run with `d0=2`"
    assert said in script.with_name("issue.md").read_text()
    for name in ("repro.py", "short.py"):
        ends = [
            subprocess.run([python, name], cwd=script.parent, capture_output=True).returncode
            for python in (stale.target.get("python"), sys.executable)
        ]
        assert ends == [1, 0]
