"""Reports of torch and Relax programs: as whole as those of ONNX models."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.graphs.program import Binding
from corpus.target import Target
from corpus.tir.program import to_bytes
from corpus.tir.tree import Function, Module, Store
from corpus.tir.values import Buffer, Const, Load
from oracles.judge import Judge
from tests.helpers.commands import needs
from tests.helpers.models import graph_case, model_of, ref
from triage.bugs.failures import History
from triage.cases.sources import Judges, alone
from triage.console.options import CaseOptions
from triage.projects import runner_of
from triage.reports.by_name import report_word
from triage.reports.program_evidence import exhibit
from triage.reports.report import Report, write_report
from triage.repro.source import source_of, surprise
from triage.views.rendering import private_words_in

SHARED = {"ORIGIN.md", "SHA256SUMS", "env.json", "graph.svg", "inputs.npz", "issue.md", "reduction.json"}
SHARED |= {"case.json", "program.py", "repro.py", "short.py", "signature.json", "trace.txt"}
HOSTILE = 'x"""\nimport os; os.abort()\n"""'


def binary(format: str, op: str, dtype: str, name: str = "d") -> Case:
    """One operator on two vectors; what it gives has that name."""
    inputs = {each: np.ones(2, dtype) for each in "ab"}
    return graph_case(format, inputs, Binding(name, op, (ref("a"), ref("b"))))


def equal_of_booleans(name: str = "d") -> Case:
    inputs = {"a": np.array([True, False]), "b": np.array([True, True])}
    target = Target.parse("tvm@pipeline=default@opt-level=0@executor=bytecode")
    case = binary("relax", "relax.equal", "bool", name)
    return replace(case, inputs=inputs, target=target, origin=f"{Path.home()}/secret.py")


def floor_division() -> Case:
    inputs = {"a": np.float32([1, 6]), "b": np.float32([0.1, 0.2])}
    return replace(binary("torch", "operator.floordiv", "float32"), inputs=inputs, target=Target("inductor"))


def reported(case: Case, folder: Path) -> Report:
    assert case.target is not None
    with Judge(case.target, format=case.format) as judge:
        if not judge.verdict(case).is_bug:
            pytest.skip("the installed release does not show the bug")
        return write_report(case, judge, folder, History())


@pytest.fixture(scope="module")
def relax_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of a module whose result has a name that would end a string and begin another statement."""
    return reported(equal_of_booleans(HOSTILE), tmp_path_factory.mktemp("reports") / "it")


@needs("tvm")
@pytest.mark.slow
def test_a_relax_module_is_reported_as_tvmscript_that_shows_the_bug(relax_report):
    assert relax_report.ready, relax_report.missing
    assert {path.name for path in relax_report.folder.iterdir()} == SHARED | {"program.relax.json"}
    text = (relax_report.folder / "issue.md").read_text()
    assert "= R.equal(x0, x1)" in text
    assert text.startswith("# [relax.equal] InternalError")
    assert "- [x] TVM (`relax.analysis.well_formed`) accepts the module" in text
    assert "frontend:onnx" not in text
    assert 'n0["equal"]' in text


@pytest.mark.slow
@needs("tvm")
def test_names_of_a_relax_module_stay_names(relax_report):
    for name in ("repro.py", "program.py"):
        assert "import os; os.abort" not in (relax_report.folder / name).read_text()
    done = subprocess.run([sys.executable, "program.py"], cwd=relax_report.folder, check=False)
    assert done.returncode == 0
    for path in relax_report.folder.iterdir():
        assert not private_words_in(path.read_bytes())
        assert b"secret.py" not in path.read_bytes()


@needs("tvm")
@pytest.mark.slow
def test_the_program_of_a_tir_report_runs_by_itself(tir_judge, tmp_path):
    """Its inputs have a NaN and an infinity, which numpy prints as bare names."""
    body = (Store("A", (Const(0),), Load("A", (Const(1),), "float32")),)
    loops = Module({"main": Function((Buffer("A", (Const(2),), "float32"),), body)})
    case = Case("tir", to_bytes(loops), {"A": np.float32([np.nan, np.inf])}, Target("tvm"))
    files = exhibit(case, tir_judge, source_of(case, tir_judge)).files
    (tmp_path / "program.py").write_bytes(files["program.py"] + b"\nassert len(inputs) == 1 and Module\n")
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@needs("torch")
@pytest.mark.slow
def test_a_torch_module_is_reported_with_its_ablation_and_float64(tmp_path):
    report = reported(floor_division(), tmp_path / "it")
    assert report.ready, report.checks
    names = {path.name for path in report.folder.iterdir()}
    assert names == SHARED | {"program.torch.json", "collect_env.txt"}
    text = (report.folder / "issue.md").read_text()
    assert "y0 = x0 // x1" in text
    for way in ("eager", "aot_eager", "inductor", "eager, in float64"):
        assert f"| `{way}` |" in text
    assert "inductor is off float64 by up to 1" in text
    assert "oncall: pt2" in text
    assert "topic: fuzzer" not in text  # nobody fuzzed: the module is the reporter's


@pytest.mark.parametrize(
    ("code", "format", "told"),
    [
        ("class Repro(torch.nn.Module):\n  def forward(self, x0):\n    return (x0 // x0,)", "torch", ""),
        ("y = __import__('math').floor(1.5)", "torch", ""),
        ("y = __import__('os').system('true')", "torch", "it imports"),
        ("from os import system\nsystem('true')", "relax", "it imports os"),
        ("import os", "relax", "it imports"),
        ("y = eval('1')", "torch", "it uses eval"),
        ("y = torch.nn.__builtins__", "torch", "it uses __builtins__"),
        ("from typing import TypeVar\nn = TypeVar('n')\nModule = relax.transform.X(n)", "relax", ""),
        ("y = (", "torch", "it is no Python ('(' was never closed)"),
    ],
)
def test_code_that_does_more_than_describe_a_program_is_told(code, format, told):
    backend = {"relax": "tvm"}.get(format, format)
    printed = runner_of(backend, format).printed
    assert printed is not None
    assert surprise(code, printed) == told


@needs("tvm")
@pytest.mark.slow
def test_what_all_of_the_ways_of_tvm_get_wrong_alike_is_reported_beside_numpy(tmp_path):
    case = Case.load(Path(__file__).parents[2] / "corpus" / "regressions" / "relax-group-norm-scale")
    report = reported(replace(case, target=Target("tvm")), tmp_path / "it")
    assert report.ready, report.checks
    text = (report.folder / "issue.md").read_text()
    assert "- [x] numpy, with floats in float64, gives the expected result" in text
    assert "What numpy, with floats in float64 gives" in (report.folder / "repro.py").read_text()


# Reports of what an oracle finds that was asked for: a script of plain runs shows it


def returning(op: str, dtype: str) -> Case:
    """A closure around this loses the type of the tuple that it returns in TVM 0.27."""
    inputs = {"x": np.zeros((), "float32"), "y": np.zeros((1, 1), dtype)}
    bindings = Binding("a", "alias", (ref("x"),)), Binding("b", op, (ref("y"), {"prim": ["int64", 0]}))
    target = Target.parse("tvm@oracles=metamorphic")
    return graph_case("relax", inputs, *bindings, outputs=("a", "b"), target=target)


@pytest.mark.slow
def test_what_fails_as_it_was_rewritten_is_reported_as_a_program_of_its_own(tmp_path):
    pytest.importorskip("tvm", reason="TVM is not installed")
    case = returning("relax.tril", "int32")
    assert case.target is not None
    with Judge(case.target, format="relax") as judge:
        verdict = judge.verdict(case)
        if not verdict.is_bug:
            pytest.skip("the installed TVM does not show the failure")
        own, plain = alone(case, judge)
        assert own.program != case.program
        assert not any(run.config.asked_by for run in plain.runs)
        report = write_report(case, judge, tmp_path / "report", History())
    assert report.ready, report.checks
    text = (tmp_path / "report" / "issue.md").read_text()
    assert "LambdaLift()" in text


# Of an invalid model a report says which node breaks which rule, by the path that the user gave


def test_an_invalid_model_gets_a_page_for_its_owner(tmp_path):
    text = 'g (float[2,3] x) => (float[2,4] y) { ["proj"] y = MatMul (x, w) }'
    model = model_of(text, w=np.zeros((5, 4), np.float32))
    path = tmp_path / "mine.onnx"
    path.write_bytes(model.SerializeToString())
    options = CaseOptions()
    with Judges(options) as judges:
        document = report_word(str(path), judges, tmp_path / "out")
    assert (document["state"], document["ready"]) == ("not a bug", False)
    text = Path(document["page"]).read_text()
    for words in (str(path), "Incompatible dimensions", "MatMul 'proj' -> y", "x: float32[2,3]"):
        assert words in text
