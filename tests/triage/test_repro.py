import base64
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.types import DTYPES, dtype_name
from corpus.target import Target
from corpus.tir.program import to_bytes
from corpus.tir.tree import Function, Module, Store
from corpus.tir.values import Binary, Buffer, Const, Load
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.probes.tir_context import INTERPRETER
from oracles.verdict import Config, Outcome, Phase, Run, Status, Symptom, Verdict, WrongResult
from tests.helpers.commands import completed
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy, model, on_ort
from tests.helpers.models import model_of
from triage.claim import Claim, Expectation, expect, longest_fragment
from triage.language import language_of
from triage.projects import project_of
from triage.repro.model_code import model_code, normal_form
from triage.repro.pasted import elements, encode
from triage.repro.script import fixed_types, write_script
from triage.repro.short import short_scripts
from triage.titles import whose

EXACT = Tolerance()

ORT_PROJECT = project_of("ort")


def built(made: onnx.ModelProto) -> onnx.ModelProto:
    """The model that its code builds."""
    names = {**vars(elements), **vars(encode), "base64": base64, "inf": math.inf, "nan": math.nan}
    return onnx.ModelProto.FromString(eval(model_code(made), names))


def assert_code_builds(made: onnx.ModelProto) -> None:
    assert normal_form(built(made)) == normal_form(made)


def constant_model(array, name="w") -> onnx.ModelProto:
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    out = helper.make_tensor_value_info("y", code, list(array.shape))
    tensor = onnx.numpy_helper.from_array(array, name)
    graph = helper.make_graph([helper.make_node("Identity", [name], ["y"])], "g", [], [out], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("code", [code for code in DTYPES if code < 25], ids=dtype_name)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)], ids=str)
def test_the_code_of_a_constant_builds_the_same_bits(code, shape):
    count = int(np.prod(shape))
    if DTYPES[code].kind in "US":
        array = np.array(["a", "", 'ö"\n\\'] * 2, object)[:count].reshape(shape)
    else:
        array = np.arange(count).reshape(shape).astype(DTYPES[code])
    assert_code_builds(constant_model(array))


@pytest.mark.parametrize("value", [0.1, 1e-45, 3.4e38, -0.0, math.inf, -math.inf, math.nan, 1 / 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_float_survives_as_a_number(value, dtype):
    with np.errstate(over="ignore"):
        assert_code_builds(constant_model(np.array([value, 1], dtype)))


@pytest.mark.parametrize("count", [600, 5000])
def test_many_values_are_bytes_and_equal_ones_a_product(count):
    many = np.arange(count, dtype=np.float32)
    assert_code_builds(constant_model(many))
    assert "b64decode" in model_code(constant_model(many))
    assert f"[1.0] * {count}" in model_code(constant_model(np.ones(count, np.float32)))


def test_attributes_of_every_kind_survive():
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["z"])], "body", [], [onnx.ValueInfoProto(name="z")]
    )
    attributes = {
        "i": -3, "f": 0.1, "s": 'text "quoted"', "bytes": b"\xff\x00", "ints": [1, -1], "floats": [0.5, 2.0],
        "strings": ["a", "b"], "t": onnx.numpy_helper.from_array(np.array([1, 2])), "g": body,
    }  # fmt: skip
    node = helper.make_node("Odd", ["x", ""], ["y"], name="n/1::2 é", domain="my.domain", **attributes)
    node.attribute.append(onnx.AttributeProto(name="none", type=onnx.AttributeProto.INTS))
    graph = helper.make_graph([node], "g", [onnx.ValueInfoProto(name="x")], [onnx.ValueInfoProto(name="y")])
    assert_code_builds(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_types_of_every_kind_survive():
    types = "float[2,n,?] a, int8[] b, bool c, seq(float[0]) d, optional(seq(float[])) e"
    assert_code_builds(model_of(f"g ({types}) => (bool f) {{ f = Not (c) }}"))


def test_functions_survive():
    function = (
        '<domain: "my", opset_import: ["" : 17]> F <alpha> (a) => (b) { b = Elu <alpha: float = @alpha> (a) }'
    )
    text = f"g (float[2] x) => (float[2] y) {{ y = my.F <alpha = 2.0> (x) }} {function}"
    assert_code_builds(model_of(text, domains="my"))


def hostile_case() -> Case:
    names = ['");import os;os._exit(9)#', "'''", '"""\n']
    x, t, y = names
    made = model([("Relu", [x], [t]), ("Neg", [t], [y])], {x: (1, [2])}, {y: (1, [2])})
    return Case("onnx", made.SerializeToString(), {x: np.float32([1, 2])}, ORT)


def claim_of(outcome: Outcome, *, kind: str = "", fragment: str = "", title: str = "made up") -> Claim:
    """A claim on the levels none and all, whatever the case does."""
    fine, bad = (
        Run(
            Config(level, (("level", level), ("providers", ("CPUExecutionProvider",)))),
            Status.OK,
            Phase.EXECUTE,
        )
        for level in ("none", "all")
    )
    expectation = Expectation(ORT_PROJECT, outcome, bad, fine, fragment, kind)
    return Claim(expectation, title, EXACT, seconds=30.0, memory=8 << 30)


def run_script(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "repro.py").write_text(script)
    command = [sys.executable, "-W", "error", "repro.py", *arguments]
    return completed(command, cwd=folder)


def real_claim(case: Case) -> Claim:
    with Judge(ORT) as judge:
        found = judge.verdict(case)
    if not found.is_bug:
        pytest.skip("the installed onnxruntime does not show this bug")
    return Claim(expect(found, EXACT, ORT_PROJECT), found.title, EXACT, seconds=30.0, memory=8 << 30)


@pytest.mark.parametrize("make", [division_crash, clip_exception])
@pytest.mark.parametrize("mode", ["code", "bytes", "beside"])
def test_the_script_of_a_real_bug_exits_with_1(make, mode, tmp_path):
    case = make()
    (tmp_path / "model.onnx").write_bytes(case.program)
    done = run_script(write_script(case, real_claim(case), mode), tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "THE BUG SHOWS" in done.stdout


def reduced_along(declared: list[int | str | None]) -> Case:
    """A sum along an axis that only the inputs say; the output is declared as given."""
    dims = ",".join("N" if dim is None else str(dim) for dim in declared)
    text = f"g (float[2,3] x, int64[1] a) => (float[{dims}] y) {{ y = ReduceSum (x, a) }}"
    return on_ort(text, x=np.zeros((2, 3), np.float32), a=np.array([-1]))


@pytest.mark.parametrize("declared", [[2, 1], ["n", 1], [None]])
def test_what_the_inputs_fix_is_what_a_script_asks_for(declared, tmp_path):
    case, claim = reduced_along(declared), claim_of(Outcome.MISMATCH, kind="shape")
    assert fixed_types(case) == {"y": ("float32", [2, 1])}
    told = "ReduceSum gives [2] where its inputs fix [2,1]"
    given = replace(claim.expectation, passing=None, contradiction=told)
    done = run_script(write_script(case, replace(claim, expectation=given)), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = replace(given.failing, outputs={"y": np.zeros((2, 3), np.float32)})
    wrongly = replace(claim, expectation=replace(given, failing=wrong))
    assert "assert actual[0].shape == (2, 1), actual[0].shape" in short_scripts(case, wrongly, None).script


@pytest.mark.parametrize("outcome", [Outcome.CRASH, Outcome.EXCEPTION, Outcome.MISMATCH, Outcome.TIMEOUT])
def test_the_script_of_a_bug_that_is_gone_exits_with_0(outcome, tmp_path):
    done = run_script(write_script(healthy(), claim_of(outcome, kind="value")), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the bug does not show" in done.stdout


def test_another_exception_is_not_the_bug(tmp_path):
    case = clip_exception()
    real_claim(case)
    done = run_script(write_script(case, claim_of(Outcome.EXCEPTION, fragment="something else")), tmp_path)
    assert done.returncode == 0
    assert "another exception" in done.stdout


def test_the_script_takes_no_library_from_its_folder(tmp_path):
    for name in ("numpy", "onnxruntime", "onnx", "base64", "subprocess", "typing", "math", "sys", "os"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')")
    done = run_script(write_script(healthy(), claim_of(Outcome.CRASH)), tmp_path)
    assert done.returncode == 0
    assert not (tmp_path / "ran").exists()


def test_without_the_package_the_script_exits_with_2(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "onnxruntime.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    done = run_script(write_script(healthy(), claim_of(Outcome.CRASH)), tmp_path)
    assert done.returncode == 2
    assert "cannot be imported" in done.stdout


def test_the_script_does_not_need_onnx(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    for name in ("onnx", "ml_dtypes", "corpus", "triage"):
        (tmp_path / "elsewhere" / f"{name}.py").write_text("raise ImportError('must not be needed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    done = run_script(write_script(healthy(), claim_of(Outcome.MISMATCH, kind="value")), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", ["code", "bytes"])
def test_names_and_titles_cannot_run_code(mode, tmp_path):
    title = 'x\n"""\nimport os; os._exit(9)\n'
    done = run_script(write_script(hostile_case(), claim_of(Outcome.MISMATCH, title=title), mode), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_saves_the_model_that_it_builds(tmp_path):
    case = division_crash()
    script = write_script(case, claim_of(Outcome.CRASH))
    assert run_script(script, tmp_path, "--save", "saved.onnx").returncode == 0
    saved = parse((tmp_path / "saved.onnx").read_bytes())
    assert normal_form(saved) == normal_form(parse(case.program))


PASSED_THROUGH = [code for code in DTYPES if code not in (14, 15) and code < 23]
"""Types that onnxruntime passes through: no complex numbers, no float4."""


def identity_case(*codes: int) -> Case:
    """An input and an output of each type; what packs two values in a byte goes through a float."""
    nodes, constants, inputs = [], {"one": np.float32(1)}, {}
    for code in codes:
        x, f, zero, y = (f"{name}{code}" for name in ("x", "f", "zero", "y"))
        nodes += [("Identity", [x], [y])]
        if code in (TensorProto.INT4, TensorProto.UINT4):
            nodes[-1:] = [("DequantizeLinear", [x, "one"], [f]), ("QuantizeLinear", [f, "one", zero], [y])]
            constants[zero] = np.array(0, DTYPES[code])
        text = DTYPES[code].kind in "US"
        inputs[x] = np.array(["a", "", "ö"]) if text else np.array([0, 1, 1, 0, 1]).astype(DTYPES[code])
    typed = [{f"{name}{code}": (code, [None]) for code in codes} for name in "xy"]
    made = model(nodes, *typed, constants, opset=21)
    made.ir_version = 10
    return Case("onnx", made.SerializeToString(), inputs, ORT)


def test_inputs_and_outputs_of_every_type_pass_through_a_script(tmp_path):
    case = identity_case(*PASSED_THROUGH)
    done = run_script(write_script(case, claim_of(Outcome.MISMATCH, kind="value")), tmp_path)
    assert "give the same" in done.stdout, done.stdout


def test_sequences_and_strings_pass_through_beside_types_that_numpy_lacks(tmp_path):
    kinds = {"x0": "seq(float[N])", "x1": "bfloat16[2]", "x2": "string[2]"}
    declared, outputs = (", ".join(f"{kinds[name]} {name}{end}" for name in kinds) for end in ("", "_out"))
    nodes = " ".join(f"{name}_out = Identity ({name})" for name in kinds)
    inputs = {
        "x0": [np.float32([1, 2]), np.float32([3])],
        "x1": np.array([1, 2], ml_dtypes.bfloat16),
        "x2": np.array(["a", "ö"]),
    }
    case = on_ort(f"g ({declared}) => ({outputs}) {{ {nodes} }}", **inputs)
    done = run_script(write_script(case, claim_of(Outcome.MISMATCH, kind="value")), tmp_path)
    assert "give the same" in done.stdout, done.stdout


NAMED = "[E] Node (conv_17) Op (Conv) [ShapeInferenceError] Mismatch of the last dimension at index 4"


@pytest.mark.parametrize(
    ("message", "fragment"),
    [
        (NAMED, "Mismatch of the last dimension at index"),
        ("Cannot treat type `ir.IntImm` as type `ir.Call`", "Cannot treat type"),
        ("LLVM module verification failed with\nInstruction does not dominate all uses!", "Instruction"),
    ],
)
def test_a_fragment_is_in_the_message_and_holds_no_names_and_no_numbers(message, fragment):
    found = longest_fragment(message, frozenset({"conv_17"}))
    assert found in message
    assert fragment in found
    assert not any(char.isdigit() for char in found)


# A result that every run of a program of loops gets wrong alike is told against the interpreter's


A = Buffer("A", (Const(1),), "int32")
BODY = (Store("A", (Const(0),), Binary("add", Load("A", (Const(0),), "int32"), Const(1))),)
CASE = Case(
    "tir", to_bytes(Module({"main": Function((A,), BODY)})), {"A": np.array([6], np.int32)}, Target("tvm")
)
RUN = Run(Config("least -O0"), Status.OK, Phase.EXECUTE, outputs={"A": np.array([8], np.int32)})
VERDICT = Verdict(
    Outcome.MISMATCH,
    Phase.COMPARE,
    "wrong value",
    Symptom(Outcome.MISMATCH, Phase.COMPARE, "value"),
    (RUN,),
    wrong=WrongResult("A", "un-optimised", "off by one", 1.0, INTERPRETER),
)


def test_the_interpreters_result_is_what_a_script_compares_with():
    told = language_of("tir").interpreted(CASE, VERDICT)
    found = expect(VERDICT, Tolerance(), project_of("tvm"), told=told)
    assert found.failing is RUN
    assert found.passing.outputs["A"].tolist() == [7]
    assert whose(found.passing.config) == "an interpreter of the loops in Python"


def test_what_is_not_defined_throughout_is_not_told():
    wild = (*BODY, Store("A", (Const(0),), Binary("shl", Const(1), Const(40))))
    case = replace(CASE, program=to_bytes(Module({"main": Function((A,), wild)})))
    assert language_of("tir").interpreted(case, VERDICT) is None
