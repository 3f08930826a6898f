"""The library does what the commands do, for a model in memory as for a file."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import onnx
import pytest

import tensorcrux
from tensorcrux.testing import assert_agrees
from tests.helpers.failing import clip_exception, healthy
from triage.public import calls, testing

ROOT = Path(__file__).parents[2]
pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def needs_clip() -> None:
    if not tensorcrux.check(clip_exception()).is_bug:
        pytest.skip("the installed onnxruntime does not show the bug")


@pytest.mark.usefixtures("needs_clip")
@pytest.mark.parametrize("module", [calls, testing])
def test_the_examples_of_the_documentation_hold(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried > 0
    assert failed == 0


def test_a_model_is_judged_in_every_form_that_it_can_be_handed_in(tmp_path: Path) -> None:
    case = clip_exception()
    (tmp_path / "model.onnx").write_bytes(case.program)
    case.save(tmp_path / "case")
    found = [
        tensorcrux.check(tmp_path / "model.onnx", case.inputs),
        tensorcrux.check(str(tmp_path / "case")),
        tensorcrux.check(case.program, case.inputs),
        tensorcrux.check(onnx.load_from_string(case.program), case.inputs),
        tensorcrux.check(case),
    ]
    assert len({verdict.symptom for verdict in found}) == 1
    assert found[0].symptom is not None


def test_what_is_no_model_is_refused_in_one_line() -> None:
    with pytest.raises(tensorcrux.UserError, match="a int is no model"):
        tensorcrux.check(3)
    with pytest.raises(tensorcrux.UserError):
        tensorcrux.check(b"not a model")


def test_an_input_that_does_not_fit_is_refused() -> None:
    with pytest.raises(tensorcrux.UserError, match="x"):
        tensorcrux.check(healthy(), {"x": np.zeros(7, np.float32)})


def test_the_public_names_exist_and_are_documented() -> None:
    for name in set(tensorcrux.__all__) - {"Outcome"}:
        assert getattr(tensorcrux, name).__doc__, name
    assert tensorcrux.testing.assert_agrees is assert_agrees


def test_generated_cases_depend_on_the_seed_alone() -> None:
    first, second = (list(tensorcrux.generate(3, ops=5, seed=4)) for _ in range(2))
    assert [case.case_id for case in first] == [case.case_id for case in second]
    assert len({case.case_id for case in first}) == 3


@pytest.mark.usefixtures("needs_clip")
def test_a_reduced_folder_is_reported(tmp_path: Path) -> None:
    case = clip_exception()
    tensorcrux.reduce(case, out=tmp_path / "small")
    written = tensorcrux.report(tmp_path / "small", tmp_path / "bundle")
    assert (written.folder / "issue.md").is_file()
    assert written.archive.is_file()


def test_the_module_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tensorcrux", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("crux ")


def test_a_foreign_package_that_hides_one_of_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "__init__.py").touch()
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import tensorcrux"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert "the package `corpus` is found at" in done.stderr


def test_type_checkers_are_told_of_every_public_name() -> None:
    stubs = ROOT / "tensorcrux-stubs"
    told = set(re.findall(r"\bas (\w+)$", (stubs / "__init__.pyi").read_text(), re.MULTILINE))
    assert told == set(tensorcrux.__all__)
    told = set(re.findall(r"\bas (\w+)$", (stubs / "testing.pyi").read_text(), re.MULTILINE))
    assert told == {"Disagreement", "assert_agrees"}


USER_TEST = """
import onnx
from tensorcrux.testing import assert_agrees

def test_of_a_user():
    model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
        half (double[3] x) => (double[3] y) <double low = {-1.0}> {
            a = Abs(x)
            r = Relu(a)
            y = Clip(r, low)
        }''')
    assert_agrees(model)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("needs_clip")
def test_the_plugin_leaves_a_bundle_and_shows_no_frame_of_crux(pytester: pytest.Pytester) -> None:
    if not entry_points(group="pytest11", name="tensorcrux"):
        pytest.skip("this environment was installed before there was a plugin; bin/test refreshes it")
    pytester.makepyfile(USER_TEST)
    done = pytester.runpytest_subprocess("--crux-out", "found")
    assert done.ret == 1
    text = done.stdout.str()
    assert "smallest case: 2 of 3 nodes (Relu, Clip)" in text
    assert "triage/public" not in text
    (issue,) = pytester.path.glob("found/*/bundle/issue.md")
    assert "test_of_a_user" in str(issue)
