"""TVM as a target: what it is compared with, what its failures say, which refusals are no bugs."""

from functools import partial

import numpy as np
import pytest

from corpus.target import Target
from corpus.values import Value
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.verdict import Outcome, Phase, Verdict
from tests.helpers.models import case_of as on_any_target

tvm = find_backend("tvm")
TVM = Target("tvm")


case_of = partial(on_any_target, target=TVM)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def verdict_of(judge: Judge, graph: str, **inputs: Value) -> Verdict:
    return judge.verdict(case_of(f"g {graph}", opset=23 if "RMSN" in graph else 17, **inputs))


ONE, TWO, NAN_AND_ONE = floats(1), floats(1, 2), floats(np.nan, 1)
CRASH, INVALID, PASS, LACKS = Outcome.CRASH, Outcome.INVALID, Outcome.PASS, Outcome.UNSUPPORTED
WRONG = Outcome.MISMATCH
SEQUENCE = "(seq(float[1]) s, float[2] x) => (n, float[2] y) {{ n = {}(s) y = Relu(x) }}".format
STRINGS = '(seq(string) s) => (seq(string) t) <string w = {"w"}> { t = SequenceInsert (s, w) }'
ZERO = {"a": np.int32([6]), "b": np.int32([0])}
EMPTY = "(float[0,12,1,2] x) => (float[0,1,1,2] y) { y = ReduceLogSumExp<axes = [-3]>(x) }"
MEAN = "(int64 x) => (int64 y) { y = ReduceMean(x) }"
LEAKY = "(double[2] x) => (double[2] y) {{ y = LeakyRelu{}(x) }}".format
SCALE = "(float[1,1] x) => (float[1,1] y) <float[1,1] s = {2}> { y = RMSNormalization(x, s) }"
VERDICTS: dict[str, tuple[str, dict[str, Value], Outcome, str]] = {
    # a NaN counts where onnxruntime and the reference agree on it
    "relu": ("(float[2] x) => (float[2] y) { y = Relu(x) }", {"x": NAN_AND_ONE}, WRONG, "nan"),
    "sign": ("(float[3] x) => (float[3] y) { y = Sign(x) }", {"x": floats(np.nan, 9, -9)}, WRONG, ""),
    "sigmoid": ("(float[2] x) => (float[2] y) { y = HardSigmoid(x) }", {"x": NAN_AND_ONE}, WRONG, ""),
    "argmax": (
        "(float[5] x) => (int64 y) { y = ArgMax<keepdims=0>(x) }",
        {"x": floats(2, np.nan, 7, 4, 1)},
        WRONG,
        "",
    ),
    "maximum": ("(float[2] x) => (float y) { y = ReduceMax<keepdims=0>(x) }", {"x": NAN_AND_ONE}, WRONG, ""),
    "a division that only the baseline refuses": (
        "(int32[1] a, int32[1] b) => (int32[1] y) { y = Div(a, b) }",
        ZERO,
        CRASH,
        "SIGFPE",
    ),
    "no operator": (
        "(float[2] x) => (float[2] y) { y = Bernoulli<seed = 1.0>(x) }",
        {"x": TWO},
        LACKS,
        "Bernoulli",
    ),
    "a sequence of strings": (STRINGS, {"s": [np.array("a")]}, LACKS, ""),
    "the length of a sequence that flows in": (SEQUENCE("SequenceLength"), {"s": [ONE], "x": TWO}, LACKS, ""),
    "a part of a sequence that flows in": (SEQUENCE("SequenceErase"), {"s": [ONE], "x": TWO}, LACKS, ""),
    "what the baseline refuses": (
        "(float[2] x, float[3] y) => (float[k] z) { z = Add(x, y) }",
        {"x": TWO, "y": floats(1, 2, 3)},
        INVALID,
        "",
    ),
    "onnxruntime reduces no axis of an empty tensor": (
        EMPTY,
        {"x": np.zeros((0, 12, 1, 2), "f4")},
        LACKS,
        "",
    ),
    "onnxruntime takes the mean of an integer through a float": (
        MEAN,
        {"x": np.array(2**63 - 2)},
        PASS,
        "left open: ReduceMean",
    ),
    "how a default is rounded": (LEAKY(""), {"x": np.array([-1.0, -3.0])}, PASS, ""),
    "what is written": (LEAKY("<alpha = 0.02>"), {"x": np.array([-1.0, -3.0])}, PASS, ""),
    # dims that onnxruntime takes and ONNX does not
    "condition": (
        "(float[2] x) => (float[n] y) <bool[3] c = {1, 1, 1}> { y = Compress(x, c) }",
        {"x": -TWO},
        INVALID,
        "a condition ",
    ),
    "slope": (
        "(float[1] x) => (float[n] y) <float[2] s = {2, 3}> { y = PRelu(x, s) }",
        {"x": -ONE},
        INVALID,
        "a slope ",
    ),
    "scale": (SCALE, {"x": -np.ones((1, 1), "f4")}, INVALID, "a scale "),
}


@pytest.mark.parametrize(("graph", "inputs", "outcome", "said"), VERDICTS.values(), ids=VERDICTS)
def test_a_verdict_on(tvm_judge, graph, inputs, outcome, said):
    verdict = verdict_of(tvm_judge, graph, **inputs)
    assert verdict.outcome is outcome, verdict.title
    assert said in f"{verdict.title} {verdict.symptom} {verdict.notes}"


def test_an_error_of_the_importer_names_the_operator_and_is_tagged(tvm_judge):
    graph = "() => (int64[2] y) { y = Constant<value_ints = [1, 2]>() }"
    verdict = verdict_of(tvm_judge, graph)
    assert (verdict.outcome, verdict.phase) == (Outcome.EXCEPTION, Phase.IMPORT)
    assert verdict.symptom.message == "Constant: no value in Constant"
    assert verdict.title.endswith("no value in Constant")  # no level has a part in it
    assert "importer-limit" in verdict.notes


def test_an_error_of_the_importer_says_which_dims_were_known_of_what_led_there(tvm_judge):
    nodes = "a = Neg(x) t = Add(a, z) s = Shape(t) y = Slice(s, low, high)"
    weights = "int64[1] low = {0}, int64[1] high = {1}"
    graph = f"(float[n,2] x, float[m,2] z) => (int64[1] y) <{weights}> {{ {nodes} }}"
    two = np.ones((2, 2), np.float32)
    run = verdict_of(tvm_judge, graph, x=two, z=two).failing
    assert run.at == "y"
    assert run.dims == {"s": None, "t": None, "a": ["n", "2"]}


@pytest.mark.parametrize("text", ["tvm@run=off", pytest.param("tvm:cuda@run=off", marks=pytest.mark.slow)])
def test_a_program_that_is_only_compiled_has_nothing_to_compare(text):
    pytest.importorskip("tvm", reason="TVM is not installed")
    relu = case_of("g (float[2] x) => (float[2] y) { y = Relu(x) }", x=NAN_AND_ONE)
    with Judge(Target.parse(text)) as compiling:
        verdict = compiling.verdict(relu)
        assert verdict.outcome is Outcome.PASS, verdict.title
        assert not verdict.runs[-1].outputs
        assert verdict.runs[-1].phase is Phase.CODEGEN
