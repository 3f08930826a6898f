"""ONNX's own backend tests: each passes, fails or is refused, and the standard's values are what counts."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from corpus.case import Case
from corpus.target import Target
from generators.mixture import Plan
from oracles.numerics.compare import Tolerance
from oracles.verdict import Outcome, Phase, Verdict
from tests.helpers.commands import crux
from triage.cases.conformance import StandardTest, conform_one, save, standard_tests
from triage.cases.replaying import Side, alone
from triage.cases.sources import finite_source, open_one, open_to_run
from triage.cli import run
from triage.console.options import CaseOptions

ADD = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'
DRAWN = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = RandomUniformLike(x) }'
NEWER = '<ir_version: 99, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'


def standard(text: str, *expected: float) -> StandardTest:
    """A test of one operator on [1, 2]."""
    program = onnx.parser.parse_model(text).SerializeToString()
    case = Case("onnx", program, {"x": np.array([1, 2], np.float32)})
    return StandardTest("test_it", case, {"y": np.array(expected, np.float32)}, 1e-3, 1e-7)


@pytest.mark.parametrize(
    ("test", "status"),
    [
        (standard(ADD, 2, 4), "passes"),
        (standard(ADD, 2, 4.001), "passes"),  # within the test's own tolerance
        (standard(ADD, 2, 5), "fails"),
        (standard(ADD, 2, 4, 6), "fails"),
        (standard(DRAWN, 7, 7), "passes"),  # only its type is fixed
        (standard(DRAWN, 7, 7, 7), "fails"),
        (standard(NEWER, 2, 4), "refused"),
    ],
)
def test_a_target_is_held_to_what_the_standard_gives(test, status, judge):
    found = conform_one(test, judge)
    assert found["status"] == status, found
    assert bool(found["seen"]) == (status != "passes")


def test_a_test_is_kept_with_the_values_that_the_standard_gives(tmp_path):
    save(replace(standard(ADD, 2, 4), name="test_add"), tmp_path, Target("ort"))
    assert Case.load(tmp_path / "test_add").target == Target("ort")
    with np.load(tmp_path / "test_add/expected.npz") as kept:
        assert kept["y"].tolist() == [2, 4]


def test_a_bad_expression_is_bad_usage(capsys):
    assert run(["conformance", "--only", "("]) == 2
    assert "no regular expression" in capsys.readouterr().err


@pytest.mark.slow
def test_onnxruntime_fails_no_test_of_arithmetic(capsys):
    assert run(["conformance", "--only", "^test_(add|sub|mul|div)(_bcast)?$|^test_operator_", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) > 30
    assert {each["test"]: each["status"] for each in found}["test_add"] == "passes"
    assert [each for each in found if each["status"] == "fails"] == []


@pytest.mark.slow
def test_every_test_is_a_case_with_inputs_that_fit():
    found = list(standard_tests(re.compile("")))
    assert len(found) > 1500
    assert len({each.name for each in found}) == len(found)
    for each in found:
        types = {value.name for value in each.case.parsed.graph.input}
        assert set(each.case.inputs) <= types
        assert set(each.expected) <= {value.name for value in each.case.parsed.graph.output}


# One case on several targets: who stands alone


CASE = "corpus/regressions/relu-clip-not-float"


def side(name: str, value: float | None, outcome: Outcome = Outcome.PASS) -> Side:
    """A target that gives one number, or nothing."""
    outputs = None if value is None else {"y": np.array([value], np.float64)}
    return Side(Target(name), Verdict(outcome, Phase.COMPARE, ""), outputs)


@pytest.mark.parametrize(
    ("values", "lonely"),
    [
        ((1, 1, 1), None),
        ((1, 1, 2), "c"),
        ((1, 2, 1), "b"),
        ((None, 1, 1), "a"),
        ((None, None, 1), "c"),
        ((1, 2, 3), None),  # nobody agrees with anybody
        ((1, 2), None),  # two have no majority
        ((1, 1.0001, 1), None),  # within the tolerance
        ((1, 1, 2, 2), None),
        ((1, 1, 1, 2), "d"),
    ],
)
def test_one_stands_alone_if_all_others_agree(values, lonely):
    sides = [side(name, value) for name, value in zip("abcd", values, strict=False)]
    found = alone(sides, Tolerance())
    assert (found and found.target.backend) == lonely


def test_a_target_that_lacks_the_operator_says_nothing():
    assert not side("a", None, Outcome.UNSUPPORTED).says
    assert side("a", None, Outcome.CRASH).says


def test_the_target_with_the_bug_stands_alone(capsys):
    assert run(["check", CASE, "--targets", "torch,ort,reference", "--json"]) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["alone"] == "ort"
    assert [each["outcome"] for each in found["targets"]] == ["pass", "exception", "pass"]
    assert found["outcome"] == "exception"
    assert f"next: crux reduce {CASE} -o crux-small --target ort" in captured.err


@pytest.mark.parametrize("words", [["--targets", "ort"], ["--targets", "ort,tvm", "--target", "ort"]])
def test_targets_are_several_and_named_once(words, tmp_path, capsys):
    assert run(["check", CASE, *words]) == 2
    assert "--targets" in capsys.readouterr().err


def test_targets_that_agree_are_no_bug(capsys):
    assert run(["check", CASE, "--targets", "torch,reference", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["alone"] == ""


# Inputs from the seed, changed where a model's values are not finite: what the commands make of it


SQRT = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y)
    <float c = {3}> { a = Sub(x, c) y = Sqrt(a) }"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(SQRT).SerializeToString())
    return path


def test_a_verdict_says_what_was_changed_and_given_inputs_are_never_changed(file):
    np.savez(file.parent / "given.npz", x=np.zeros(4, np.float32))
    made = crux(file.parent, "check", "model.onnx", "--json")
    given = crux(file.parent, "check", "model.onnx", "--inputs", "given.npz", "--json")
    assert json.loads(given.stdout)["notes"] == []
    (note,) = json.loads(made.stdout)["notes"]
    assert note.startswith("inputs from the seed, changed so that every value is finite (Sqrt y: ")


def test_what_only_looks_at_a_case_runs_nothing(file):
    options = CaseOptions()
    assert open_one(str(file), options).notes == ()
    changed = open_to_run(str(file), options)
    assert np.all(changed.inputs["x"] >= 3)  # type: ignore[operator]
    assert open_to_run(str(file), options).case_id == changed.case_id


def test_a_kept_case_is_never_changed(file):
    kept = Case("onnx", file.read_bytes(), {"x": np.zeros(4, np.float32)})
    kept.save(file.parent / "kept")
    assert open_to_run(str(file.parent / "kept"), CaseOptions()).case_id == kept.case_id


def test_a_model_to_mutate_brings_changed_inputs_the_same_for_any_seed(file):
    plan = Plan(strategy="mutate", source=file)
    found = []
    for seed in (0, 5):
        with finite_source(plan, CaseOptions(seed=seed)) as settled:
            assert settled.source is not None
            found.append(Case.load(settled.source))
    assert found[0] == found[1]
    assert np.all(found[0].inputs["x"] >= 3)  # type: ignore[operator]
