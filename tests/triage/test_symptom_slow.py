"""`--symptom slow`: the ratio of two CPU times is the failure, and stays while the model shrinks."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpus.target import Target
from oracles.backends import backends
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.verdict import Config, Outcome, Phase, Run, Status
from tests.helpers import commands
from tests.helpers.models import model_of
from tests.reducer.driving import case_of
from triage.claims.claim import Claim, Expectation
from triage.projects import project_of
from triage.repro.script import write_script

Crux = Callable[..., tuple[int, dict[str, object]]]
CHAIN = " ".join(f"t{at + 1} = Tanh (t{at})" for at in range(6))
MODEL = f"g (float[4,64] x) => (float[4,64] y) {{ t0 = Neg (x) {CHAIN} s = Sinh (t6) y = Abs (s) }}"


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> str:
    module = importlib.import_module("tests.oracles.sandboxed.slowed_ort")
    monkeypatch.setitem(backends(), "slowed_ort", module.backend())
    return "slowed_ort"


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(MODEL).SerializeToString())
    return str(path)


@pytest.fixture
def crux(tmp_path: Path) -> Crux:
    def run(*words: str) -> tuple[int, dict[str, object]]:
        done = commands.crux(tmp_path, *words, "--json", "--offline", "--quiet")
        return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr}

    return run


def test_what_optimising_makes_slow_is_reported_and_shrinks_to_the_operator(crux, slowed, model, tmp_path):
    code, found = crux("check", model, "--target", slowed, "--symptom", "slow")
    assert (code, found["outcome"], found["symptom"]) == (1, "perf", "perf | execute | slower | optimised")
    code, found = crux("reduce", model, "-o", str(tmp_path / "out"), "--target", slowed, "--symptom", "slow")
    assert (code, found["ops"], found["symptom"]) == (0, ["Sinh"], "perf | execute | slower | optimised")


def test_so_is_one_that_another_release_runs_faster(crux, slowed, model):
    against = f"{slowed}@against={sys.executable}"
    code, found = crux("check", model, "--target", against, "--symptom", "slow=10")
    assert (code, found["symptom"]) == (1, "perf | execute | slower | another release | optimised")
    assert "slower than all of onnxruntime" in str(found["title"])


@pytest.mark.parametrize(("factor", "code"), [("1e-9", 1), ("1e9", 0)])
def test_its_script_asks_both_interpreters_for_their_times_and_compares_the_ratio(factor, code, tmp_path):
    timed = (("level", "all"), ("slower", factor))
    here, other = Config("all", timed), Config("all of onnxruntime X", (*timed, ("python", sys.executable)))
    passing, failing = (
        Run(each, Status.OK, Phase.EXECUTE, {"y": np.zeros((4, 64), np.float32)}, execute_seconds=seconds)
        for each, seconds in ((other, 1e-5), (here, 9e-5))
    )
    claimed = Expectation(project_of("ort"), Outcome.PERF, failing, passing)
    script = write_script(case_of(model_of(MODEL)), Claim(claimed, "slow", Tolerance(), 60.0, 1 << 32))
    (tmp_path / "repro.py").write_text(script)
    done = subprocess.run(
        [sys.executable, tmp_path / "repro.py"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "us: " in done.stdout) == (code, True), done.stderr
    assert claimed.slowness == "9.0 times the CPU time of onnxruntime X"


@pytest.mark.parametrize("words", [("slow=80",), ("slow",)])
def test_one_that_is_not_so_many_times_slower_passes_whatever_else_it_shows(crux, slowed, words, tmp_path):
    wrong = MODEL if words == ("slow=80",) else MODEL.replace("Sinh", "Cosh")
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(wrong).SerializeToString())
    assert crux("check", str(path), "--target", slowed, "--symptom", *words)[0] == 0


def test_the_same_release_is_not_slower_than_itself():
    with Judge(Target.parse(f"ort@against={sys.executable}@oracles=perf@slower=2.0")) as judge:
        assert judge.verdict(case_of(model_of(MODEL))).outcome is Outcome.PASS


@pytest.mark.parametrize("words", ["fast", "slow=1", "slow=x"])
def test_other_symptoms_are_a_mistake_of_the_user(crux, words, model):
    code, found = crux("check", model, "--symptom", words)
    assert (code, "only slow" in str(found["error"])) == (2, True)


def test_a_case_of_a_stranger_may_not_name_the_interpreter_to_compare_with():
    assert Target.of_data("ort@against=/tmp/python").complaint
    assert not Target.of_data("ort@oracles=perf@slower=2.0").complaint
