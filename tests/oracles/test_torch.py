"""torch and inductor as targets: lowerings that agree with onnxruntime, and what is no bug."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from corpus.values import Value
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.verdict import Config, Outcome, Phase, Run, Status

inductor, torch = find_backend("inductor"), find_backend("torch")


@pytest.fixture(scope="module")
def eager() -> Iterator[Judge]:
    pytest.importorskip("torch", reason="torch is not installed")
    with Judge(Target("torch")) as found:
        yield found


@pytest.fixture(scope="module")
def compiled() -> Iterator[Judge]:
    pytest.importorskip("torch", reason="torch is not installed")
    with Judge(Target("inductor")) as found:
        yield found


def case_of(graph: str, inputs: dict[str, Value], *, opset: int = 18) -> Case:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {graph}')
    return Case("onnx", model.SerializeToString(), inputs, Target("torch"))


def some(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 5) / 3


NAMES = "reduce slice conv average max pad gather integers argmax depth split gemm clip cumsum sum instance"


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [
        ("(float[2,3] x) => (float[3] y) <int64[1] a = {0}> { y = ReduceMean<keepdims = 0>(x, a) }",
         {"x": some(2, 3)}),
        ("(float[2,6] x) => (float[n,m] y) <int64[1] a = {-1}, int64[1] e = {-9}, int64[1] t = {1},"
         " int64[1] s = {-2}> { y = Slice(x, a, e, t, s) }", {"x": some(2, 6)}),
        ("(float[1,2,5,5] x, float[3,2,3,3] w) => (float[n,c,h,v] y)"
         " { y = Conv<auto_pad = \"SAME_UPPER\", strides = [2, 2]>(x, w) }",
         {"x": some(1, 2, 5, 5), "w": some(3, 2, 3, 3)}),
        ("(float[1,1,4,4] x) => (float[n,c,h,v] y)"
         " { y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x) }", {"x": some(1, 1, 4, 4)}),
        ("(float[1,1,4,4] x) => (float[n,c,h,v] y)"
         " { y = MaxPool<kernel_shape = [2, 2], pads = [1, 1, 1, 1]>(x) }", {"x": some(1, 1, 4, 4)}),
        ("(float[4] x) => (float[n] y) <int64[2] p = {2, 2}> { y = Pad<mode = \"reflect\">(x, p) }",
         {"x": some(4)}),
        ("(float[3,2] x, int64[2] i) => (float[2,2] y) { y = Gather(x, i) }",
         {"x": some(3, 2), "i": np.array([-1, 0])}),
        ("(int32[3] a, int32[3] b) => (int32[3] y, int32[3] z) { y = Div(a, b) z = Mod(a, b) }",
         {"a": np.array([-7, 7, 9], np.int32), "b": np.array([2, -2, 4], np.int32)}),
        ("(float[2,3] x) => (int64[2] y) { y = ArgMax<axis = 1, keepdims = 0, select_last_index = 1>(x) }",
         {"x": np.ones((2, 3), np.float32)}),
        ("(float[1,4,2,2] x) => (float[1,1,4,4] y) { y = DepthToSpace<blocksize = 2, mode = \"CRD\">(x) }",
         {"x": some(1, 4, 2, 2)}),
        ("(float[5] x) => (float[2] a, float[3] b) <int64[2] s = {2, 3}> { a, b = Split(x, s) }",
         {"x": some(5)}),
        ("(float[2,2] x, float[2,2] z) => (float[2,2] y) { y = Gemm<alpha = 0.5, transB = 1>(x, z) }",
         {"x": some(2, 2), "z": some(2, 2)}),
        ("(float[3] x, float low) => (float[3] y) { y = Clip(x, low) }",
         {"x": some(3), "low": np.array(-1, np.float32)}),
        ("(float[4] x) => (float[4] y) { y = CumSum<exclusive = 1, reverse = 1>(x, a) }"
         .replace("{ y", "<int64 a = {0}> { y"), {"x": some(4)}),
        ("(int32[2,2] x) => (int32[2] y) { y = Einsum<equation = \"ij->i\">(x) }",
         {"x": np.array([[1, 2], [3, 4]], np.int32)}),
        ("(float[2,3,1,1] x, float[3] w, float[3] b) => (float[2,3,1,1] y)"
         " { y = InstanceNormalization(x, w, b) }", {"x": some(2, 3, 1, 1), "w": some(3), "b": some(3)}),
    ],
    ids=NAMES.split(),
)  # fmt: skip
def test_a_lowering_agrees_with_onnxruntime(eager, graph, inputs):
    verdict = eager.verdict(case_of(graph, inputs))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert all(run.is_ok for run in verdict.runs)


def test_what_has_no_lowering_is_unsupported_and_named(eager):
    verdict = eager.verdict(case_of("(float[3] x) => (float[3] y) { y = Bernoulli(x) }", {"x": some(3)}))
    assert verdict.outcome is Outcome.UNSUPPORTED
    assert "Bernoulli" in verdict.title


def test_foreign_floats_come_through(eager):
    graph = "(float[2] x) => (bfloat16[2] y) { y = Cast<to = 16>(x) }"
    verdict = eager.verdict(case_of(graph, {"x": some(2)}))
    assert verdict.outcome is Outcome.PASS, verdict.title


def test_a_compiled_program_is_compared_with_the_eager_one(compiled):
    graph = "(float[2,3] x) => (float[2,3] y) { t = Softmax(x) u = Relu(t) y = Exp(u) }"
    verdict = compiled.verdict(case_of(graph, {"x": some(2, 3)}))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert [config.label for config in compiled.configs] == [
        "eager",
        "inductor",
        "aot_eager_decomp_partition",
        "aot_eager",
    ]


def test_compiled_code_that_divides_by_zero_is_a_crash(compiled):
    zero: dict[str, Value] = {"a": np.array([6], np.int32), "b": np.array([0], np.int32)}
    verdict = compiled.verdict(case_of("(int32[1] a, int32[1] b) => (int32[1] y) { y = Div(a, b) }", zero))
    assert verdict.outcome is Outcome.CRASH, verdict.title
    assert verdict.symptom is not None
    assert (verdict.symptom.kind, verdict.runs[-1].config.label) == ("SIGFPE", "inductor")
    after = compiled.verdict(case_of("(float[2] x) => (float[2] y) { y = Tanh(x) }", {"x": some(2)}))
    assert after.outcome is Outcome.PASS, after.title


@pytest.mark.parametrize(
    ("way", "error", "message", "kind"),
    [
        ("eager", "Unsupported", "operator Foo has no lowering to torch", "unsupported"),
        ("eager", "NotImplementedError", "\"add\" not implemented for 'UInt32'", "unsupported"),
        ("eager", "RuntimeError", "ZeroDivisionError", "invalid-input"),
        ("eager", "RuntimeError", "shapes do not match", ""),
        ("inductor", "InductorError", "NotImplementedError: not implemented for this", ""),
    ],
)
def test_only_the_eager_run_may_refuse(way, error, message, kind):
    run = Run(Config(way, (("backend", way),)), Status.EXCEPTION, Phase.EXECUTE, error=error, message=message)
    assert inductor.classify(run) == kind


@pytest.mark.parametrize("text", ["torch:tpu", "inductor:tpu", "inductor@backend=best"])
def test_what_cannot_be_had_is_one_clear_line(text):
    target = Target.parse(text)
    with pytest.raises(UserError, match=f"target {text}"):
        find_backend(target.backend).configs(target)
