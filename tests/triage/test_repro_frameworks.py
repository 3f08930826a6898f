"""Scripts for TVM and torch: seen to exit with 1 on a real bug, and with 0 on a model without one."""

import sys

import numpy as np
import pytest

from corpus.case import Case
from corpus.graphs.program import Binding, Graph, GraphProgram
from corpus.load import FOLDER
from corpus.target import Target
from corpus.tir.program import make_inputs, to_bytes
from corpus.tir.tree import Alloc, For, Function, Module, Store
from corpus.tir.values import Buffer, Cast, Const, Load, Var
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.verdict import Config, Outcome, Phase, Run, Status
from tests.helpers.commands import completed, needs
from tests.helpers.models import case_of, graph_case, ref
from tests.triage.test_repro import run_script
from triage.claim import Claim, Expectation, expect
from triage.projects import project_of
from triage.reports import sentences
from triage.repro.script import write_script
from triage.repro.short import is_at_a_glance, short_scripts, shows
from triage.repro.source import source_of
from triage.titles import title_of

TOLERANCE = Tolerance(1e-2, 1e-3)


def script_of(case: Case, judge: Judge) -> str:
    """The script of a case that shows its bug on the installed release."""
    verdict = judge.explain(case, judge.verdict(case))
    if not verdict.is_bug:
        pytest.skip("the installed release does not show the bug")
    told = expect(verdict, TOLERANCE, project_of(judge.target.backend))
    claim = Claim(told, "t", TOLERANCE, seconds=600.0, memory=8 << 30)
    return write_script(case, claim, source=source_of(case, judge))


def relu_of_nan() -> Case:
    text = "g (float[3] x) => (float[3] y) { y = Relu (x) }"
    return case_of(text, target=Target("tvm"), x=np.float32([np.nan, -1, 2]))


def division_of_a_tail() -> Case:
    """No element is zero; what inductor fills the rest of a vector with is."""
    nodes = "least = ReduceMin <axes = [1]> (x) y = Div (x, least)"
    value = (np.arange(16 * 17) % 5 + 1).astype(np.uint8).reshape(16, 17)
    text = f"g (uint8[16,17] x) => (uint8[16,17] y) {{ {nodes} }}"
    return case_of(text, target=Target("inductor"), x=value)


@pytest.mark.slow
@needs("tvm")
def test_a_script_for_tvm_holds_the_values_that_are_expected(tvm_judge, tmp_path):
    case = relu_of_nan()
    script = script_of(case, tvm_judge)
    assert "('y', 'float32', array('float32', [3], [nan, 0.0, 2.0]))" in script
    assert run_script(script, tmp_path).returncode == 1
    fine = script.replace("[3], [nan, -1.0, 2.0])", "[3], [0.0, -1.0, 2.0])").replace(
        "[nan, 0.0", "[0.0, 0.0"
    )
    assert run_script(fine, tmp_path).returncode == 0


@needs("torch")
@pytest.mark.slow
def test_a_script_for_inductor_has_the_module_in_code(inductor_judge, tmp_path):
    case = division_of_a_tail()
    script = script_of(case, inductor_judge)
    assert "rounding_mode='trunc')" in script
    assert "import onnx" not in script
    assert run_script(script, tmp_path).returncode == 1
    fine = script.replace("'inductor': 'inductor'", "'inductor': 'eager'")
    assert run_script(fine, tmp_path).returncode == 0


@needs("onnxscript")
@needs("torch")
@pytest.mark.slow
def test_a_script_for_an_exporter_says_that_it_and_not_onnxruntime_is_wrong(tmp_path):
    case = Case.load(FOLDER / "exported-elu-input-scale")
    with Judge(Target("torch-onnx")) as judge:
        done = run_script(script_of(case, judge), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "for the exported model numpy gives what 'dynamo' gives" in done.stdout


@needs("torch")
def test_the_module_of_a_program_that_ends_eager_torch_is_had_all_the_same(torch_judge):
    """Integer division traps on the least integer by -1 as it does on 0."""
    text = "g (int32[2] x, int32[2] w) => (int32[2] y) { t = Div (x, w) y = Neg (t) }"
    case = case_of(text, target=Target("torch"), x=np.int32([-(2**31), 1]), w=np.int32([-1, 0]))
    source = source_of(case, torch_judge)
    assert "rounding_mode='trunc')" in source.module
    assert "-2147483648" in source.inputs


SPOILING = ("LegalizeOps", "tirx.ForceNarrowIndexToInt32")
"""A sequence that TVM cannot build programs of int64 after."""


def negation_in_onnx() -> Case:
    text = "g (int64[2] x) => (int64[2] y) { y = Neg (x) }"
    return case_of(text, target=Target("tvm"), x=np.ones(2, np.int64))


def negation_in_relax() -> Case:
    negation = Binding("y", "relax.negative", (ref("x"),))
    return graph_case("relax", {"x": np.ones(2, np.int64)}, negation, target=Target("tvm"))


@needs("tvm")
@pytest.mark.slow
@pytest.mark.parametrize("program", [negation_in_onnx, negation_in_relax])
def test_a_script_for_tvm_runs_the_passes_of_its_case(program, tmp_path):
    case = program().with_passes(SPOILING)
    with Judge(Target("tvm"), format=case.format, lower_levels=False) as judge:
        script = script_of(case, judge)
    assert run_script(script, tmp_path).returncode == 1
    (line,) = (line for line in script.splitlines() if "ForceNarrowIndexToInt32()" in line)
    done = run_script(script.replace(f"{line}\n", ""), tmp_path)
    assert done.returncode == 0, done.stdout


def of_relu(backend: str, failing: Run) -> tuple[Case, Claim]:
    text = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
    case = case_of(text, target=Target(backend), x=np.float32([-1, 2]))
    passing = Run(Config("none", backend="ort"), Status.OK, Phase.EXECUTE, {"y": np.float32([0, 2])})
    outcome = Outcome.MISMATCH if failing.is_ok else Outcome.CRASH
    told = Expectation(project_of(backend), outcome, failing, passing, kind="value")
    return case, Claim(told, "t", TOLERANCE, seconds=60.0, memory=8 << 30)


CONFIGS = {
    "ort": Config("all", (("level", "all"),)),
    "openvino": Config("f32", (("hint", "f32"),)),
    "iree": Config("llvm-cpu O3", (("code", "llvm-cpu"), ("level", "O3"))),
    "tvm": Config("default -O3", (("pipeline", "default"), ("opt-level", 3), ("executor", "bytecode"))),
}


@pytest.mark.parametrize("mode", ["code", "bytes", "beside"])
@pytest.mark.parametrize("backend", CONFIGS)
def test_a_script_defines_or_imports_every_name_that_it_uses(backend, mode, tmp_path):
    wrong = Run(CONFIGS[backend], Status.OK, Phase.EXECUTE, {"y": np.float32([0, 0])})
    script = write_script(*of_relu(backend, wrong), mode)
    (tmp_path / "repro.py").write_text(script)
    done = completed(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "repro.py"], cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout


@needs("iree")
@pytest.mark.parametrize("mode", ["code", "bytes", "beside"])
def test_a_script_for_iree_compiles_a_model_however_it_gets_in(mode, tmp_path):
    wrong = Run(CONFIGS["iree"], Status.OK, Phase.EXECUTE, {"y": np.float32([0, 0])})
    case, claim = of_relu("iree", wrong)
    (tmp_path / "model.onnx").write_bytes(case.program)
    done = run_script(write_script(case, claim, mode), tmp_path)
    assert "'expected' and 'llvm-cpu O3' give the same" in done.stdout


def test_a_compiler_that_is_a_process_of_its_own_shows_its_death_by_what_is_printed():
    died = Run(CONFIGS["iree"], Status.CRASH, Phase.IMPORT, signal="SIGSEGV")
    case, claim = of_relu("iree", died)
    written = short_scripts(case, claim, None)
    assert is_at_a_glance(written.script)
    assert "iree.compiler.compile_str(str(imported), extra_args=flags)" in written.script
    assert shows(claim, written.dies)(1, "iree-compile\nError code: -11\n")
    assert not shows(claim, written.dies)(1, "iree-compile\nError code: 1\n")
    assert not shows(claim)(1, "iree-compile\nError code: -11\n")


ARRAYS = {
    "few": np.array([2.5, np.inf, -np.inf], np.float16),
    "none": np.zeros((0, 2), np.float32),
    "many": np.arange(100, dtype=np.float64) / 7,
}
IMPORTS = "import base64\nfrom math import inf\nimport numpy as np\nimport tvm\nfrom tvm import relax\n"
HELD = """
found = []
for name in ("f", "main"):
    def keep(item):
        if isinstance(item, tvm.ir.GenericConst):
            array = item.value.numpy()
            found.append((array.dtype.name, array.shape, array.tolist()))
    relax.analysis.post_order_visit(Module[name], keep)
print(found)
"""


@needs("tvm")
def test_a_script_of_relax_spells_the_arrays_of_every_function_where_they_stand(relax_judge, tmp_path):
    first, *others = ARRAYS
    function = Graph((), (Binding("r", "relax.negative", ({"ref": first},)),), ("r",))
    calls = Binding("c", "call", ({"function": "f"},))
    negated = [Binding(f"n_{name}", "relax.negative", ({"ref": name},)) for name in others]
    main = Graph((), (calls, *negated), ("c", *(each.name for each in negated)))
    program = GraphProgram("relax", main, ARRAYS, {"f": function}, facts={"main": "main"})
    source = source_of(Case("relax", program.to_bytes(), {}, Target("tvm")), relax_judge)
    assert source is not None
    assert "load_json" not in source.module
    assert source.module.index("array_0 = np.frombuffer(") < source.module.index("class Module")
    (tmp_path / "module.py").write_text(f"{IMPORTS}{source.module}\n{HELD}")
    done = completed([sys.executable, "module.py"], cwd=tmp_path, check=True)
    expected = [(each.dtype.name, each.shape, each.tolist()) for each in ARRAYS.values()]
    assert done.stdout.strip() == str(expected)


def test_a_title_says_what_is_wrong_and_not_where_tvm_checks_it():
    where = "ErrorContext(fn=f, loc=return, annotation="
    message = (
        f"Check failed: (ptr->dtype == dtype.value()) is false: {where}R.Tensor((n, 2)))  expect float16"
    )
    run = Run(CONFIGS["tvm"], Status.EXCEPTION, Phase.EXECUTE, error="ValueError", message=message)
    told = Expectation(project_of("tvm"), Outcome.EXCEPTION, run, None)
    assert title_of(told, ["relax.add"]) == "[relax.add] ValueError: expect float16"


# Scripts that show misuse of memory: buffers and workspaces stand between closed pages in them, too

LEVELS = [Config(name, (("level", name),)) for name in ("none", "all")]


def stored(dtype: str) -> Case:
    """Eight zeros of a type, stored as one vector and read one by one."""
    a, t = Buffer("A", (Const(1),), "float32"), Buffer("W", (Const(8),), dtype)
    i, j = Var("i"), Var("j")
    body = (
        Alloc(t),
        For(i, Const(0), Const(8), "vectorized", (Store("W", (i,), Const(0, dtype)),)),
        For(
            j,
            Const(0),
            Const(8),
            "serial",
            (Store("A", (Const(0),), Cast("float32", Load("W", (j,), dtype))),),
        ),
    )
    module = Module({"main": Function((a,), body)})
    return Case("tir", to_bytes(module), make_inputs(module, 1), target=Target("tvm"))


def claimed(expectation: Expectation) -> Claim:
    return Claim(expectation, "t", TOLERANCE, seconds=600.0, memory=8 << 30)


def test_a_script_shows_that_a_workspace_is_read_that_nothing_was_written_to(tir_judge, tmp_path):
    case = stored("uint4")
    verdict = tir_judge.verdict(case)
    if not verdict.is_bug:
        pytest.skip("the installed release does not show the bug")
    found = expect(verdict, TOLERANCE, project_of("tvm"))
    assert found.misuse == "reads an unwritten workspace"
    script = write_script(case, claimed(found), source=source_of(case, tir_judge))
    fine = write_script(stored("uint8"), claimed(found), source=source_of(stored("uint8"), tir_judge))
    assert "reads an unwritten workspace while" in title_of(found, ("store",), (), TOLERANCE)
    assert "TVM reads an unwritten workspace" in sentences.happened(found, "TVM")
    assert not short_scripts(case, claimed(found), source_of(case, tir_judge)).script
    done = run_script(script, tmp_path)
    assert (done.returncode, "THE BUG SHOWS" in done.stdout) == (1, True), done.stdout + done.stderr
    done = run_script(fine, tmp_path)
    assert (done.returncode, "does not show" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_sound_model_keeps_within_its_memory_in_such_a_script(tmp_path):
    case = case_of("g (float[3] x) => (float[3] y) { h = Relu (x) y = Neg (h) }", x=np.float32([1, 2, 3]))
    message = "memory: writes beyond the output y"
    failing = Run(LEVELS[1], Status.EXCEPTION, Phase.EXECUTE, message=message)
    passing = Run(LEVELS[0], Status.OK, Phase.EXECUTE)
    told = Expectation(
        project_of("ort"), Outcome.EXCEPTION, failing, passing, fragment=message, misuse=failing.misuse
    )
    script = write_script(case, claimed(told))
    assert "must_keep_within(session._sess" in script
    done = run_script(script, tmp_path)
    assert (done.returncode, "ended with ok" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_module_that_cannot_be_read_does_not_look_like_a_bug(tir_judge, tmp_path):
    case = stored("int32")
    runs = tir_judge.verdict(case).runs
    source = source_of(case, tir_judge)
    told = Expectation(project_of("tvm"), Outcome.EXCEPTION, runs[1], runs[0], fragment="a message")
    script = write_script(case, claimed(told), source=source).replace("T.match_buffer", "T.no_such_thing")
    done = run_script(script, tmp_path)
    assert (done.returncode, "no_such_thing" in done.stderr) == (2, True)
