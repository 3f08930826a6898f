"""The library does what the commands do, for a model in memory as for a file."""

import doctest
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import tensorcrux
import tensorcrux.results
from corpus.case import Case
from corpus.load import open_case
from tensorcrux import calls, child, testing
from tensorcrux.case import write_inputs
from tensorcrux.child import CruxFailed
from tensorcrux.testing import assert_agrees
from tests.helpers.commands import completed, is_gone, waited_for
from tests.helpers.failing import clip_exception, healthy

ROOT = Path(__file__).parents[2]
pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def needs_clip() -> None:
    case = clip_exception()
    if not tensorcrux.check(case.program, case.inputs).is_bug:
        pytest.skip("the installed onnxruntime does not show the bug")


@pytest.mark.usefixtures("needs_clip")
@pytest.mark.parametrize("module", [calls, testing])
def test_the_examples_of_the_documentation_hold(module):
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried > 0
    assert failed == 0


def test_a_model_is_judged_in_every_form_that_it_can_be_handed_in(tmp_path):
    clip_exception().save(tmp_path / "case")
    case = tensorcrux.Case.load(tmp_path / "case")
    (tmp_path / "model.onnx").write_bytes(case.program)
    found = [
        tensorcrux.check(tmp_path / "model.onnx", case.inputs),
        tensorcrux.check(str(tmp_path / "case")),
        tensorcrux.check(case.program, case.inputs),
        tensorcrux.check(onnx.load_from_string(case.program), case.inputs),
        tensorcrux.check(case),
    ]
    assert len({verdict.symptom for verdict in found}) == 1
    assert found[0].symptom


def test_what_is_no_model_or_no_setting_is_refused_in_one_line():
    with pytest.raises(tensorcrux.UserError, match="a int is no model"):
        tensorcrux.check(3)
    with pytest.raises(tensorcrux.UserError):
        tensorcrux.check(b"not a model")
    with pytest.raises(TypeError, match="'rtoll' is no setting"):
        tensorcrux.check("model.onnx", rtoll=1)  # type: ignore[call-arg]


def test_the_public_names_exist_and_are_documented():
    for name in set(tensorcrux.__all__):
        assert getattr(tensorcrux, name).__doc__, name
    assert tensorcrux.testing.assert_agrees is assert_agrees


@pytest.mark.usefixtures("needs_clip")
def test_a_reduced_folder_is_reported(tmp_path):
    clip_exception().save(tmp_path / "case")
    tensorcrux.reduce(tmp_path / "case", out=tmp_path / "small")
    written = tensorcrux.report(tmp_path / "small", tmp_path / "bundle")
    assert (written.folder / "issue.md").is_file()
    assert written.archive.is_file()


def test_the_module_is_the_command_line():
    done = completed([sys.executable, "-m", "tensorcrux", "--version"], cwd=ROOT, check=True)
    assert done.stdout.startswith("crux ")


def test_the_import_is_light_and_brings_nothing_of_crux():
    code = "import sys, tensorcrux; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = completed([sys.executable, "-c", code], cwd=ROOT, check=True)
    brought = set(done.stdout.split())
    assert not brought & {"corpus", "oracles", "reducer", "generators", "triage"}
    assert not brought & {"dataclasses", "json", "numpy", "onnx", "pathlib", "subprocess"}


def test_a_case_keeps_the_values_of_every_type(tmp_path):
    """Values of ml_dtypes, texts, sequences and absent optionals cross as files; equal cases stay equal."""
    text = """<ir_version: 10, opset_import: ["": 21]>
        half (bfloat16[2] x, string[2] s, seq(float[1]) q, optional(float[1]) o) => (bfloat16[2] y)
        { y = Neg(x) }"""
    inputs = {
        "x": np.array([1, 2], ml_dtypes.bfloat16),
        "s": np.array(["a", "bc"], object),
        "q": [np.array([3], np.float32), np.array([4], np.float32)],
        "o": None,
    }
    Case("onnx", onnx.parser.parse_model(text).SerializeToString(), inputs).save(tmp_path / "own")
    case = tensorcrux.Case.load(tmp_path / "own")
    assert str(case.inputs) == str({**inputs, "s": np.array(["a", "bc"])})
    assert case.inputs["x"].dtype == ml_dtypes.bfloat16
    write_inputs(tmp_path / "inputs.npz", case.inputs)
    own = open_case(tmp_path / "own", inputs=tmp_path / "inputs.npz")
    assert own.case_id == case.case_id
    case.save(tmp_path / "again")
    assert tensorcrux.Case.load(tmp_path / "again") == case


USER_TEST = """
import onnx
from tensorcrux.case import write_inputs
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
def test_the_plugin_leaves_a_bundle_and_shows_no_frame_of_crux(pytester):
    if not entry_points(group="pytest11", name="tensorcrux"):
        pytest.skip("this environment was installed before there was a plugin; bin/test refreshes it")
    pytester.makepyfile(USER_TEST)
    done = pytester.runpytest_subprocess("--crux-out", "found")
    assert done.ret == 1
    text = done.stdout.str()
    assert "smallest case: 2 of 3 nodes (Relu, Clip)" in text
    assert "tensorcrux/testing.py" not in text
    (issue,) = pytester.path.glob("found/*/bundle/issue.md")
    assert "test_of_a_user" in str(issue)


def test_a_notebook_shows_results_as_tables_and_runs_nothing_of_theirs(tmp_path):
    clip_exception().save(tmp_path / "case")
    found = tensorcrux.check(tmp_path / "case")
    assert f"<td>{found.outcome}</td>" in found._repr_html_()
    hostile = replace(found, title="<script>alert(1)</script>")
    assert "<script>" not in hostile._repr_html_()
    case = tensorcrux.Case.load(tmp_path / "case")
    done = tensorcrux.Reduction(case, hostile, True, (9, 2), ("A",), "s", 5)
    assert "<td>9 → 2, minimal</td>" in done._repr_html_()
    check = tensorcrux.results.Check(False, "no issue is known")
    report = tensorcrux.Report(tmp_path, tmp_path, "t", False, (check,), "s")
    assert "✗ no issue is known" in report._repr_html_()


# The library's process: one for many calls, gone with its parent, whatever either is at

AT_WORK = """
import sys, tensorcrux
from tensorcrux import child
next(tensorcrux.generate(1, ops=1))
print(child._child._process.pid, flush=True)
tensorcrux.reduce(sys.argv[1], command="sleep 60; true")
"""


def child_pid() -> int:
    return child._child._process.pid


def test_calls_share_a_process_until_a_variable_changes(monkeypatch):
    list(tensorcrux.generate(2, ops=1))
    first = child_pid()
    list(tensorcrux.generate(1, ops=1))
    assert child_pid() == first
    monkeypatch.setenv("CRUX_ANYTHING", "1")
    list(tensorcrux.generate(1, ops=1))
    assert child_pid() != first
    assert is_gone(first)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_the_process_ends_with_its_parent_amid_a_call(number, tmp_path):
    healthy().save(tmp_path / "case")
    command = [sys.executable, "-c", AT_WORK, str(tmp_path / "case")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(number)
    assert waited_for(lambda: is_gone(pid))


def test_a_process_that_dies_is_said_and_the_next_call_has_another():
    list(tensorcrux.generate(1, ops=1))
    os.kill(child_pid(), signal.SIGKILL)
    with pytest.raises(CruxFailed, match="ended with -9"):
        list(tensorcrux.generate(1, ops=1))
    assert len(list(tensorcrux.generate(1, ops=1))) == 1


def test_a_failure_of_its_own_has_its_traceback():
    with pytest.raises(CruxFailed, match="TypeError"):
        child.ask("generate", out=3)


def _case_id(number: int) -> str:
    return next(tensorcrux.generate(1, ops=2, seed=number)).case_id


def test_threads_and_forks_do_not_mix_up_answers():
    wanted = [_case_id(number) for number in range(6)]
    seen: dict[int, str] = {}
    threads = [
        threading.Thread(target=lambda number=number: seen.update({number: _case_id(number)}))
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [seen[number] for number in range(6)] == wanted
    before = child_pid()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(_case_id, range(2)) == wanted[:2]
    assert _case_id(3) == wanted[3]
    assert child_pid() == before
