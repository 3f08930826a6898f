"""The short script builds the model that it claims to build and asserts: red before a fix, green after."""

import base64
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import tensorcrux
from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.graphs.program import Graph, GraphProgram, Input
from corpus.target import Target
from oracles.numerics.compare import Tolerance
from oracles.verdict import Config, Outcome, Phase, Run, Status
from tests.helpers.commands import completed
from tests.helpers.failing import clip_exception
from triage.claim import Claim, Expectation
from triage.projects import project_of
from triage.repro.model_code import normal_form, parsed_code
from triage.repro.short import is_at_a_glance, short_scripts, shows
from triage.repro.source import Source, array_code
from triage.views.rendering import render


def made_by(code: str) -> onnx.ModelProto:
    """The model that the expression of a script makes."""
    found: onnx.ModelProto = eval(code, {"onnx": onnx})
    return found


def test_onnxs_text_makes_the_same_model_again():
    models = [parse(case.program) for case in tensorcrux.generate(60, ops=4, seed=11)]
    assert all(normal_form(made_by(parsed_code(each))) == normal_form(each) for each in models)


def test_names_and_strings_are_only_literals():
    model = parse(clip_exception().program)
    model.graph.node[0].attribute.append(helper.make_attribute("s", '\\"""); import os; os.abort() #'))
    assert made_by(parsed_code(model)).graph.node[0].attribute == model.graph.node[0].attribute


@pytest.mark.parametrize(
    "array",
    [
        np.array(1.5, np.float32),
        np.zeros((0, 3), np.float64),
        np.full((3, 50), 7, np.uint16),
        np.arange(90, dtype=np.int16).reshape(9, 10),
        np.array([np.nan, np.inf, -np.inf], np.float16),
        np.array(["a'b", "\n"]),
        np.array([1 + 2j], np.complex64),
    ],
)
def test_an_array_is_made_again_from_its_text(array):
    again = eval(array_code(array), {"np": np, "base64": base64})
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert np.array_equal(again, array, equal_nan=array.dtype.kind == "f")


RIGHT = Run(Config("numpy", backend="golden"), Status.OK, Phase.EXECUTE, {"y0": np.float32([1, 2])})
WAY = (("pipeline", "default"), ("opt-level", 0), ("executor", "bytecode"))
WRONG = Run(Config("default -O0", WAY), Status.OK, Phase.EXECUTE, {"y0": np.float32([0, 2])})


def claimed(failing: Run, passing: Run | None, backend: str, **facts: str) -> Claim:
    outcome = Outcome.MISMATCH if failing.is_ok else Outcome.EXCEPTION
    return Claim(
        Expectation(project_of(backend), outcome, failing, passing, **facts),
        "a title",
        Tolerance(1e-3, 1e-4),
        10.0,
        1 << 30,
    )


def test_values_that_a_reference_gives_are_held_and_asserted():
    claim = claimed(WRONG, RIGHT, "tvm", kind="value")
    program = GraphProgram("relax", Graph((Input("x", "float32", (2,)),), (), ("x",))).to_bytes()
    text = short_scripts(Case("relax", program, {}, Target("tvm")), claim, Source("# a module", "")).script
    assert text.splitlines()[0] == "# Needs apache-tvm, numpy"
    assert "expected = np.array([1.0, 2.0], np.float32)  # numpy, with floats in float64" in text
    assert "actual = run('default', 0, 'bytecode')[0]" in text
    assert "np.testing.assert_allclose(actual, expected, rtol=0.001, atol=0.0001)" in text
    assert shows(claim)(1, "AssertionError: \nNot equal to tolerance")
    assert not shows(claim)(0, "")
    assert not shows(claim)(1, "ModuleNotFoundError: No module named 'tvm'")


NONE, ALL = Config("none", (("level", "none"),)), Config("all", (("level", "all"),))


def of_clip() -> tuple[Case, Claim]:
    """A claim about values where there is none: so both levels agree, as they do after a fix."""
    outputs = {"y": np.array([0.0, 0.5, 2.0])}
    fine, failing = (Run(each, Status.OK, Phase.EXECUTE, outputs) for each in (NONE, ALL))
    return clip_exception(), claimed(failing, fine, "ort", kind="value")


def run(text: str, folder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    path = folder / "test_it.py"
    path.write_text(text)
    return completed([sys.executable, *before, path.name], cwd=folder)


def test_the_script_and_the_test_fail_before_a_fix_and_pass_after_it(tmp_path):
    case, claim = of_clip()
    found = short_scripts(case, claim, None)
    assert found.script.splitlines()[0] == "# Needs onnxruntime, numpy, onnx to build the model"
    assert is_at_a_glance(found.script)
    assert "class TestReluClipMismatch(unittest.TestCase):" in found.test
    done = run(found.script, tmp_path)
    if done.returncode == 0:
        pytest.skip("the installed onnxruntime does not show the bug")
    assert "Unexpected data type for Clip" in done.stderr
    assert run(found.test, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider").returncode == 1
    fixed = [text.replace("ORT_ENABLE_ALL", "ORT_DISABLE_ALL") for text in (found.script, found.test)]
    assert run(fixed[0], tmp_path).returncode == 0
    assert run(fixed[1], tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider").returncode == 0


def test_without_a_short_script_the_test_runs_the_long_one(tmp_path):
    text = render("test_repro.py.j2", name="test_div_timeout", title='[Div] "quoted" \\')
    for code in (0, 1):
        (tmp_path / "repro.py").write_text(f"raise SystemExit({code})")
        assert run(text, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider").returncode == code


def test_a_model_that_onnxs_text_cannot_say_stands_as_bytes_and_needs_no_onnx():
    case, claim = of_clip()
    made = parse(case.program)
    made.graph.name = "a\x07graph"
    found = short_scripts(replace(case, program=made.SerializeToString()), claim, None)
    assert found.script.splitlines()[0] == "# Needs onnxruntime, numpy"
    assert "import onnx\n" not in found.script
    assert "model = base64.b64decode(" in found.script


def test_of_an_exception_the_result_after_a_fix_is_asserted_too():
    case, claim = of_clip()
    failing = replace(
        claim.expectation.failing, status=Status.EXCEPTION, error="RuntimeException", outputs={}
    )
    script = short_scripts(case, claimed(failing, claim.expectation.passing, "ort"), None).script
    assert "actual = run(ort.GraphOptimizationLevel.ORT_ENABLE_ALL)[0]  # raises RuntimeException" in script
    assert "np.testing.assert_allclose(actual, expected, rtol=0.001, atol=0.0001)" in script
