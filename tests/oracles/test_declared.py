"""Declared against actual: a result of another shape than its operator fixes is found where it arises."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.canonical import measure
from corpus.target import Target
from oracles.judge import Judge
from oracles.naming import signature
from oracles.numerics.input_noise import contradiction, outputs_contradict
from oracles.verdict import Outcome
from reducer.api import reduce_case
from reducer.options import Options

F = np.float32
ORT = Target("ort")
EMPTY = np.zeros((0, 4), F)
SHOWN = {
    "refused further down": "t = ReduceSumSquare<keepdims = 1>(x, a) y = Reshape(t, s)",
    "measured": "t = ReduceL1<keepdims = 0>(x, a) y = Shape(t)",
    "a buffer that is used again": "n = Shape(r) t = ReduceL1<keepdims = 0>(n, b) u = Shape(t) y = Shape(u)",
    "of integers": "n = Cast<to = 6>(x) t = ReduceSumSquare<keepdims = 0>(n, a) y = Reshape(t, s)",
    "after other nodes": "n = Neg(x) t = ReduceL2(n, a) u = Abs(t) v = Neg(u) y = Reshape(v, s)",
}
"""Reductions, along an axis counted from the end, of tensors without elements."""


@pytest.fixture(scope="module")
def _shows(judge: Judge) -> None:
    outputs = judge.runs(alone(), judge.configs[:1])[0].outputs
    if outputs["y"].shape == (1, 4):  # type: ignore[union-attr]
        pytest.skip("this release of onnxruntime reduces empty tensors as specified")


def case_of(nodes: str, x: np.ndarray, output: str = "y") -> Case:
    shape = ",".join(map(str, x.shape))
    constants = "<int64[1] a = {-2}, int64[1] b = {-1}, int64[2] s = {2, 2}, float r = {1.0}>"
    graph = f"g (float[{shape}] x) => ({output}) {constants} {{ {nodes} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {graph}')
    return Case("onnx", model.SerializeToString(), {"x": x}, ORT)


def alone() -> Case:
    """Where no run fails and none differs, the declaration of the output gives it away."""
    return case_of("y = ReduceSum<keepdims = 1>(x, a)", EMPTY, "float[1,4] y")


def test_a_model_that_declares_another_rank_shows_nothing_of_its_operator(judge):
    case = case_of("y = ReduceSum<keepdims = 1>(x, a)", EMPTY, "float[n] y")
    assert "where its inputs fix" not in judge.verdict(case).title


@pytest.mark.usefixtures("_shows")
@pytest.mark.parametrize("name", SHOWN)
def test_whatever_follows_from_a_wrong_shape_is_one_bug_of_one_node(judge, name, tmp_path):
    case = case_of(SHOWN[name], EMPTY)
    verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.MISMATCH, verdict.title
    assert str(verdict.symptom) == "mismatch | compare | shape | Reduction | un-optimised"
    reduction = reduce_case(case, tmp_path / "out", Options(target=ORT))
    assert reduction.after.nodes == 1
    expected = signature(judge.verdict(alone()), measure(parse(alone().program)), alone())
    assert reduction.signature == expected


@pytest.mark.usefixtures("_shows")
def test_axes_that_flow_in_fix_a_shape_too(judge):
    graph = (
        "g (float[0,4] x, int64[1] a) => (y) <int64[2] s = {2, 2}>"
        " { t = ReduceSumSquare<keepdims = 1>(x, a) y = Reshape(t, s) }"
    )
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {graph}')
    case = Case("onnx", model.SerializeToString(), {"x": EMPTY, "a": np.array([-2])}, ORT)
    assert str(judge.verdict(case).symptom) == "mismatch | compare | shape | Reduction | un-optimised"


@pytest.mark.parametrize(
    "nodes",
    [
        "t = ReduceSum(x, a) y = Neg(t)",
        "y = NonZero(x)",
        "y = Reshape(x, s)",
        "t = Identity(x) y = Concat<axis = 0>(t, x)",
    ],
)
def test_what_keeps_to_its_types_is_left_alone(judge, nodes):
    assert judge.verdict(case_of(nodes, np.ones((1, 4), F))).outcome is Outcome.PASS


def test_an_output_that_the_model_itself_declares_wrongly_is_no_bug(judge):
    case = case_of("y = Neg(x)", np.ones((1, 4), F), "float[3,4] y")
    assert outputs_contradict(parse(case.program), {"y": np.ones((1, 4), F)})
    verdict = judge.verdict(case)
    assert verdict.outcome is Outcome.PASS
    assert any("corrected" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("declared", "value", "kind"),
    [
        ([2, 3], np.zeros((2, 3), F), ""),
        ([2, None], np.zeros((2, 3), F), ""),
        (["N", 3], np.zeros((0, 3), F), ""),
        (None, np.zeros((2, 3), F), ""),
        ([2, 0], np.zeros((2, 3), F), "shape"),
        ([2, 3], np.zeros((2, 3, 1), F), "shape"),
        ([], np.zeros(1, F), "shape"),
        ([2], np.zeros(2, np.float64), "dtype"),
        ([2], [np.zeros(3, F)], ""),
        ([2], None, ""),
    ],
)
def test_only_what_is_fixed_can_be_contradicted(declared, value, kind):
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, declared).tensor_type  # type: ignore[arg-type]
    found = contradiction(tensor, value)  # type: ignore[arg-type]
    assert (found.kind if found else "") == kind
