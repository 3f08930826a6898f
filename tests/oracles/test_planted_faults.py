"""An optimiser that changes one operator is seen in values of every kind, and the node is named.

The runs are onnxruntime's own; only what its optimised sessions get is another program.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from corpus.case import Case
from corpus.load import open_case
from corpus.target import Target
from oracles.judge import Judge
from oracles.verdict import Outcome, Verdict
from tests.helpers.failing import on_ort
from tests.helpers.models import model_of
from tests.helpers.planting import Change, plant_fault, reversed_operands


@pytest.fixture
def plant(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Change], None]:
    return partial(plant_fault, judge, monkeypatch)


def becomes(operator: str) -> Change:
    def change(node: onnx.NodeProto) -> None:
        node.op_type = operator

    return change


def other_axis(node: onnx.NodeProto) -> None:
    node.attribute.append(helper.make_attribute("axis", 0))


case_of = partial(on_ort, opset=20, ir=9, domains="ai.onnx.ml")
DRAWS = np.random.default_rng(3)
PLAIN = DRAWS.standard_normal((4, 6)).astype(np.float32)
QUANTISED = (
    "g (float[4,6] x) => (float[4,6] y)"
    " <float s = {0.02}, float t = {0.008}, int8 z = {0}, int8 low = {-128}> {"
    " a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) p = Softmax(b)"
    " c = QuantizeLinear(p, t, low) d = DequantizeLinear(c, t, low) q = Mul(d, b)"
    " e = QuantizeLinear(q, s, z) y = DequantizeLinear(e, s, z) }"
)
HALF = "g (float16[4,6] x) => (float16[4,6] y) { a = Abs(x) b = Tanh(a) y = Neg(b) }"
SHORT = "g (bfloat16[4,6] x) => (y) { a = Cast<to = 1>(x) b = Tanh(a) y = Cast<to = 16>(b) }"
SEQUENCE = (
    "g (float[4,6] x) => (seq(float[2,6]) y) <int64 n = {2}>"
    " { a = Abs(x) b = Tanh(a) y = SplitToSequence(b, n) }"
)
MAP = (
    "g (float[4,6] x) => (seq(map(int64, float)) y) { a = Abs(x) b = Tanh(a)"
    " y = ai.onnx.ml.ZipMap<classlabels_int64s = [0,1,2,3,4,5]>(b) }"
)
STRINGS = "g (string[3] x, string[3] more) => (string[3] y) { y = StringConcat(x, more) }"
SYMBOLIC = "g (float[N,M] x) => (float[N,M] y) { a = Abs(x) b = Tanh(a) y = Neg(b) }"
TEXTS = {"x": np.array(["One", "Two", "THREE"]), "more": np.array(["a", "b", "c"])}
GONE = becomes("Identity")
KINDS: dict[str, tuple[Case, str, Change]] = {
    "float16": (case_of(HALF, x=(PLAIN * 0.3).astype(np.float16)), "Tanh", GONE),
    "bfloat16": (case_of(SHORT, x=PLAIN.astype(ml_dtypes.bfloat16)), "Tanh", GONE),
    "int8 through QDQ": (case_of(QUANTISED, x=PLAIN), "Softmax", other_axis),
    "a sequence": (case_of(SEQUENCE, x=PLAIN), "Tanh", GONE),
    "a small difference in a sequence": (case_of(SEQUENCE, x=PLAIN * 0.1), "Tanh", becomes("Sin")),
    "a map": (case_of(MAP, x=PLAIN), "Tanh", GONE),
    "strings": (case_of(STRINGS, **TEXTS), "StringConcat", reversed_operands),
    "symbolic dims": (case_of(SYMBOLIC, x=PLAIN), "Tanh", GONE),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_seen_in_values_of_every_kind(kind, judge, plant):
    case, operator, change = KINDS[kind]
    assert judge.verdict(case).outcome is Outcome.PASS
    plant(operator, change)
    assert_found(judge.explain(case, judge.verdict(case)), operator)


def assert_found(verdict: Verdict, operator: str) -> None:
    assert verdict.outcome is Outcome.MISMATCH, (verdict.title, verdict.notes)
    assert verdict.wrong.located.op == operator


def test_the_order_of_a_sum_may_be_seen_in_a_sequence(judge, plant):
    case = case_of(
        "g (float[4,6] x) => (seq(float[2,6]) y) <int64 n = {2}, float big = {10000}, float low = {-10000}> {"
        " a = Sum(x, big, low) y = SplitToSequence(a, n) }",
        x=PLAIN,
    )
    plant("Sum", reversed_operands)
    verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert "rounding" in verdict.notes


def test_weights_in_a_file_are_known_to_the_truth(judge, plant, tmp_path):
    """A difference so small that only float64 can confirm it."""
    weight = DRAWS.standard_normal((6, 6)).astype(np.float32)
    text = "g (float[4,6] x) => (float[4,6] y) { a = MatMul(x, w) b = Tanh(a) y = MatMul(b, w) }"
    model = model_of(text, w=weight)
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    np.savez(tmp_path / "inputs.npz", x=PLAIN * 0.01)
    case = replace(open_case(tmp_path), target=Target("ort"))
    assert case.external
    assert judge.verdict(case).outcome is Outcome.PASS
    plant("Tanh", becomes("Sin"))
    verdict = judge.explain(case, judge.verdict(case))
    assert_found(verdict, "Tanh")
    assert verdict.wrong.times is not None
