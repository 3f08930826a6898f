"""ONNX's own backend tests: each passes, fails or is refused, and the standard's values are what counts."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from corpus.case import Case
from corpus.target import Target
from oracles.backends import backends
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.verdict import Config, Outcome, Phase, Run, Status, Verdict
from tests.helpers.commands import completed, crux
from tests.helpers.failing import on_ort
from tests.helpers.models import model_of
from tests.reducer.driving import case_of
from triage.cases.conformance import StandardTest, conform_one
from triage.cases.replaying import Side, alone
from triage.cases.sources import open_to_run
from triage.claim import Claim, Expectation
from triage.cli import run
from triage.console.options import CaseOptions
from triage.projects import project_of
from triage.repro.script import write_script

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


@pytest.mark.slow
def test_onnxruntime_fails_no_test_of_arithmetic(capsys):
    assert run(["conformance", "--only", "^test_(add|sub|mul|div)(_bcast)?$|^test_operator_", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) > 30
    assert {each["test"]: each["status"] for each in found}["test_add"] == "passes"
    assert [each for each in found if each["status"] == "fails"] == []


# One case on several targets: who stands alone


CASE = "corpus/regressions/relu-clip-not-float"


def side(name: str, value: float | None, outcome: Outcome = Outcome.PASS) -> Side:
    """A target that gives one number, or nothing."""
    outputs = None if value is None else {"y": np.array([value], np.float64)}
    return Side(Target(name), Verdict(outcome, Phase.COMPARE, ""), outputs)


@pytest.mark.parametrize(
    ("values", "lonely"),
    [
        ((1, 2, 1), "b"),
        ((None, 1, 1), "a"),
        ((1, 2, 3), None),  # nobody agrees with anybody
        ((1, 2), None),  # two have no majority
        ((1, 1.0001, 1), None),  # within the tolerance
        ((1, 1, 2, 2), None),
    ],
)
def test_one_stands_alone_if_all_others_agree(values, lonely):
    sides = [side(name, value) for name, value in zip("abcd", values, strict=False)]
    found = alone(sides, Tolerance())
    assert (found and found.target.backend) == lonely


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


def test_a_kept_case_is_never_changed(file):
    kept = Case("onnx", file.read_bytes(), {"x": np.zeros(4, np.float32)})
    kept.save(file.parent / "kept")
    assert open_to_run(str(file.parent / "kept"), CaseOptions()).case_id == kept.case_id


# What lies behind a failure that stops a model


def two_bugs() -> Case:
    """A Clip that stops the optimiser, beside a division that ends the process, and what follows both."""
    text = """g (double[3] x, int64[3] a, int64[3] b) => (double[3] y, int64[3] z) <double low = {-1}> {
        r = Relu (x) c = Clip (r, low) d = Div (a, b) z = Neg (d) y = Neg (c) }"""
    low = np.array([np.iinfo(np.int64).min, 2, 3])
    return on_ort(text, x=np.array([-1.0, 0.5, 2.0]), a=low, b=np.array([-1, 1, 1]))


def test_check_says_what_lies_behind(crash_judge, tmp_path):
    two_bugs().save(tmp_path / "case")
    done = crux(tmp_path, "check", "case", "--past", "--json")
    document = json.loads(done.stdout)
    known = {each["op"]: each["known"] for each in document["past"]}
    assert (done.returncode, known["Clip"]) == (1, "relu-clip-not-float")
    assert document["behind"]["outcome"] == "pass"


# Sizes of dims that are asked for

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch,seq] x) => (float[batch,seq] y) { y = Softmax(x) }"""


@pytest.fixture
def folder(tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path


def test_sizes_of_dims_are_asked_for_by_name(folder):
    done = crux(folder, "show", "model.onnx", "--dims", "batch=2,seq=16")
    assert done.returncode == 0, done.stderr
    assert "[2, 16]" in done.stdout or "[2,16]" in done.stdout
    wrong = crux(folder, "check", "model.onnx", "--dims", "length=4")
    assert wrong.returncode == 2
    assert "symbolic dim 'length' (it has batch, seq)" in wrong.stderr
    assert crux(folder, "check", "model.onnx", "--dims", "seq").returncode == 2


# `--symptom slow`: the ratio of two CPU times is the failure, and stays while the model shrinks

Crux = Callable[..., tuple[int, dict[str, object]]]
CHAIN = " ".join(f"t{at + 1} = Tanh (t{at})" for at in range(6))
SLOW = f"g (float[4,64] x) => (float[4,64] y) {{ t0 = Neg (x) {CHAIN} s = Sinh (t6) y = Abs (s) }}"


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> str:
    module = importlib.import_module("tests.oracles.sandboxed.slowed_ort")
    monkeypatch.setitem(backends(), "slowed_ort", module.backend())
    return "slowed_ort"


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(SLOW).SerializeToString())
    return str(path)


@pytest.fixture
def asked(tmp_path: Path) -> Crux:
    def run(*words: str) -> tuple[int, dict[str, object]]:
        done = crux(tmp_path, *words, "--json", "--offline", "--quiet")
        return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr}

    return run


def test_what_optimising_makes_slow_is_reported_and_shrinks_to_the_operator(asked, slowed, model, tmp_path):
    code, found = asked("check", model, "--target", slowed, "--symptom", "slow")
    assert (code, found["outcome"], found["symptom"]) == (1, "perf", "perf | execute | slower | optimised")
    code, found = asked("reduce", model, "-o", str(tmp_path / "out"), "--target", slowed, "--symptom", "slow")
    assert (code, found["ops"], found["symptom"]) == (0, ["Sinh"], "perf | execute | slower | optimised")


@pytest.mark.parametrize(("factor", "code"), [("1e-9", 1), ("1e9", 0)])
def test_its_script_asks_both_interpreters_for_their_times_and_compares_the_ratio(factor, code, tmp_path):
    timed = (("level", "all"), ("slower", factor))
    here, other = Config("all", timed), Config("all of onnxruntime X", (*timed, ("python", sys.executable)))
    passing, failing = (
        Run(each, Status.OK, Phase.EXECUTE, {"y": np.zeros((4, 64), np.float32)}, execute_seconds=seconds)
        for each, seconds in ((other, 1e-5), (here, 9e-5))
    )
    claimed = Expectation(project_of("ort"), Outcome.PERF, failing, passing)
    script = write_script(case_of(model_of(SLOW)), Claim(claimed, "slow", Tolerance(), 60.0, 1 << 32))
    (tmp_path / "repro.py").write_text(script)
    done = completed([sys.executable, tmp_path / "repro.py"])
    assert (done.returncode, "us: " in done.stdout) == (code, True), done.stderr
    assert claimed.slowness == "9.0 times the CPU time of onnxruntime X"


@pytest.mark.parametrize("words", [("slow=80",), ("slow",)])
def test_one_that_is_not_so_many_times_slower_passes_whatever_else_it_shows(asked, slowed, words, tmp_path):
    wrong = SLOW if words == ("slow=80",) else SLOW.replace("Sinh", "Cosh")
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(wrong).SerializeToString())
    assert asked("check", str(path), "--target", slowed, "--symptom", *words)[0] == 0


def test_the_same_release_is_not_slower_than_itself():
    with Judge(Target.parse(f"ort@against={sys.executable}@oracles=perf@slower=2.0")) as judge:
        assert judge.verdict(case_of(model_of(SLOW))).outcome is Outcome.PASS


@pytest.mark.parametrize("words", ["fast", "slow=1", "slow=x"])
def test_other_symptoms_are_a_mistake_of_the_user(asked, words, model):
    code, found = asked("check", model, "--symptom", words)
    assert (code, "only slow" in str(found["error"])) == (2, True)


def test_a_case_of_a_stranger_may_not_name_the_interpreter_to_compare_with():
    assert Target.of_data("ort@against=/tmp/python").complaint
    assert not Target.of_data("ort@oracles=perf@slower=2.0").complaint
