"""Programs of torch's own operators: called as they are, judged on inductor, unsupported elsewhere."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.target import Target
from corpus.values import Value
from generators.strategies.aten import COMPANIONS
from oracles.judge import Judge
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Outcome

EAGER = (Config("eager"),)


@pytest.fixture(scope="module")
def compiled() -> Iterator[Judge]:
    pytest.importorskip("torch", reason="torch is not installed")
    with Judge(Target("inductor")) as found:
        yield found


def case_of(graph: str, inputs: dict[str, Value]) -> Case:
    head = '<ir_version: 8, opset_import: ["" : 18, "org.pytorch.aten" : 1]>'
    model = onnx.parser.parse_model(f"{head} g {graph.replace('aten.', 'org.pytorch.aten.')}")
    return Case("onnx", model.SerializeToString(), inputs, Target("inductor"))


def declaration(value: np.ndarray) -> str:
    name = "float" if value.dtype == np.float32 else value.dtype.name
    return f"{name}[{','.join(map(str, value.shape))}]"


QUOTIENT = case_of(
    "(float[2] a, float[2] b) => (float[2] y) { y = aten.floor_divide(a, b) }",
    {"a": np.float32([1, 6]), "b": np.float32([0.1, 0.2])},
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("body", "inputs", "expected"),
    [
        ("aten.floor_divide(x, z)", {"x": np.int32([-7, 7]), "z": np.int32([2, 2])}, np.int32([-4, 3])),
        (
            'aten.div<rounding_mode = "trunc">(x, z)',
            {"x": np.int32([-7, 7]), "z": np.int32([2, 2])},
            np.int32([-3, 3]),
        ),
        ("aten.index_select<dim = 1>(x, z)", {"x": X, "z": np.array([2, 0])}, X[:, [2, 0]]),
        ("aten.any<dim = [0, 1], keepdim = 1>(x)", {"x": X}, np.array([[True]])),
        ("aten.any<dim = 1>(x)", {"x": X}, np.array([True, True])),
        ("aten.stack<dim = 1>(x, x)", {"x": X}, np.stack([X, X], 1)),
        ("aten.var<dim = [1], correction = 0>(x)", {"x": X}, X.var(1)),
        ("aten.clamp_min<min = 2.0>(x)", {"x": X}, np.maximum(X, 2)),
        ("aten.clamp_min(x, x)", {"x": X}, X),
    ],
)
def test_attributes_and_operands_find_their_places_in_the_schema(torch_sandbox, body, inputs, expected):
    declared = ", ".join(f"{declaration(value)} {name}" for name, value in inputs.items())
    case = case_of(f"({declared}) => (float[] y) {{ y = {body} }}", inputs)
    (run,) = torch_sandbox.run(Job(case.program, case.inputs, EAGER))
    assert run.is_ok, run.message
    assert run.outputs["y"].dtype == expected.dtype
    np.testing.assert_array_equal(run.outputs["y"], expected)


@pytest.mark.parametrize("body", ["aten.no_such_operator(x)", "aten.flip(x)", "aten.flip<dims = [0]>(x, x)"])
def test_what_no_overload_takes_is_unsupported(compiled, body):
    verdict = compiled.verdict(case_of(f"(float[2,3] x) => (float[2,3] y) {{ y = {body} }}", {"x": X}))
    assert verdict.outcome is Outcome.UNSUPPORTED


@pytest.mark.parametrize("target", ["ort", "reference", pytest.param("tvm", marks=pytest.mark.slow)])
def test_another_target_does_not_support_them(target):
    pytest.importorskip({"ort": "onnxruntime", "reference": "onnx", "tvm": "tvm_ffi"}[target])
    with Judge(Target(target)) as judge:
        assert judge.verdict(QUOTIENT).outcome is Outcome.UNSUPPORTED


def test_companions_have_a_lowering(torch_sandbox):
    for name in sorted(COMPANIONS):
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) {{ y = {name}(x) }}'
        )
        (run,) = torch_sandbox.run(Job(model.SerializeToString(), {"x": np.float32([1, 2])}, EAGER))
        assert run.is_ok or "has no lowering" not in run.message


def test_the_source_calls_the_very_operator(torch_sandbox):
    way = (Config("source", (("show", "source"),)),)
    (run,) = torch_sandbox.run(Job(QUOTIENT.program, QUOTIENT.inputs, way))
    assert "torch.ops.aten.floor_divide.default(x0, x1)" in str(run.outputs["module"])


def test_quotients_of_exact_inputs_that_are_rounded_otherwise_are_wrong(compiled):
    """What flows in is exact, so that no rounding explains another quotient."""
    verdict = compiled.verdict(QUOTIENT)
    if verdict.outcome is Outcome.PASS:
        pytest.skip("the installed release does not show the bug")
    assert verdict.outcome is Outcome.MISMATCH
    assert verdict.wrong is not None
    assert (verdict.wrong.side, verdict.wrong.truth) == ("optimised", "eager in float64")


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [
        (
            "(float[4] x, float[4] z) => (float[4] y)"
            " { s = Sin(x) t = Mul(s, z) y = aten.floor_divide(t, s) }",
            {"x": np.float32([0.3, 0.7, 1.1, 2.9]), "z": np.float32([3, 5, 7, 9])},
        ),
        (
            "(int8[3] x, int8[3] z) => (int8[3] y) { y = aten.bitwise_left_shift(x, z) }",
            {"x": np.int8([1, -3, 7]), "z": np.int8([8, 100, -1])},
        ),
    ],
)
def test_what_rounding_or_the_text_leaves_open_is_no_bug(compiled, graph, inputs):
    assert not compiled.verdict(case_of(graph, inputs)).is_bug


@pytest.mark.slow
def test_a_wrong_quotient_is_reduced_to_one_node_with_a_script_that_shows_it(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    case = case_of(
        "(float[2] a, float[2] b) => (float[2] y, float[2] z)"
        " { c = aten.flip<dims = [0]>(a) d = aten.flip<dims = [0]>(c) q = aten.floor_divide(d, b)"
        " y = aten.positive(q) z = aten.square(c) }",
        QUOTIENT.inputs,
    )
    with Judge(Target("inductor")) as judge:
        if not judge.verdict(case).is_bug:
            pytest.skip("the installed release does not show the bug")
    case.save(tmp_path / "case")
    reduce = [sys.executable, "-m", "triage.cli", "reduce", "case", "--target", "inductor", "-o", "reduced"]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(reduce, cwd=tmp_path, env=here, check=True)
    model = onnx.load(tmp_path / "reduced" / "model.onnx")
    assert [node.op_type for node in model.graph.node] == ["floor_divide"]
    script = tmp_path / "reduced" / "repro.py"
    assert "torch.ops.aten.floor_divide.default(" in script.read_text()
    assert subprocess.run([sys.executable, script], check=False).returncode == 1
