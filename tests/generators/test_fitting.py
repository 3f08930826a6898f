"""Inputs that fit: sizes on which a graph agrees, values that operators take, and what a refusal mends."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from corpus.case import Case, Remark
from corpus.onnx.inputs import make_inputs
from corpus.onnx.sizes import Plan, solve
from corpus.target import Target
from generators.fitting import fitted
from oracles.verdict import Outcome


def parsed(graph: str, domain: str = "") -> onnx.ModelProto:
    imports = f'"" : 17{domain and f", {chr(34)}{domain}{chr(34)} : 1"}'
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> {graph}")


def case(model: onnx.ModelProto) -> Case:
    return Case("onnx", model.SerializeToString(), make_inputs(model, 0), Target("ort"))


@pytest.mark.parametrize(
    ("graph", "shapes"),
    [
        ("g (float[n,m] x, float[m,k] y) => (float[n,k] z) { z = MatMul(x, y) }", [(2, 3), (3, 5)]),
        ("g (float[n,m] x) => (float[n,k] z) <float[7,2] w = {1}> { z = MatMul(x, w) }", [(2, 7)]),
        ("g (float[a,b] x, float[c,d] y) => (float[a,b] z) { z = Add(x, y) }", [(2, 3), (2, 3)]),
        (
            "g (float[a,b] x, float[c,d] y) => (float[e,b] z) { z = Concat <axis=0> (x, y) }",
            [(2, 3), (5, 3)],
        ),
        ("g (float[past] x, float[seq] y, float[total_seq] m) => (float[total_seq] z) { z = Neg(m) }",
         [(2,), (3,), (5,)]),
    ],
)  # fmt: skip
def test_sizes_agree_over_the_graph_and_differ_where_they_may(graph, shapes):
    assert list(solve(parsed(graph), Plan()).shapes.values()) == shapes


def test_sizes_that_are_asked_for_are_kept():
    model = parsed("g (float[n,m] x, float[m,k] y) => (float[n,k] z) { z = MatMul(x, y) }")
    assert next(value.shape for value in make_inputs(model, 0, {"n": 9, "m": 11}).values()) == (9, 11)
    assert solve(model, Plan({"m": 11})).shapes == {"x": (2, 11), "y": (11, 3)}


REFUSED = {
    "sizes of two inputs": "g (float[a,b] x, float[c,d] y) => (float[e,f] z) { z = MatMul(x, y) }",
    "a constant k above the size": (
        "g (float[n] x) => (float[k] v, int64[k] i) <int64[1] k = {40}> { v, i = TopK(x, k) }"
    ),
    "a product that only the run knows": (
        "g (float[a,b] x) => (float[c,d] z) <int64[2] s = {12, -1}> { z = Reshape(x, s) }"
    ),
    "an index beyond a table": (
        "g (int64[n] i) => (float[n] z) <float[2] w = {1, 2}, int64 one = {1}>"
        " { j = Add(i, one) z = Gather(w, j) }"
    ),
}


@pytest.mark.parametrize("graph", REFUSED.values(), ids=REFUSED)
def test_what_a_run_refuses_is_mended(graph, judge):
    refused = case(parsed(graph))
    mended = fitted(refused, judge, seed=0, dims={})
    assert mended.remarks(Remark.FITTED)
    assert judge.verdict(mended).outcome is Outcome.PASS
    assert fitted(refused, judge, seed=0, dims={}).case_id == mended.case_id


def test_inputs_that_a_run_takes_stay_as_they_are(judge):
    taken = case(parsed("g (float[n,n] x) => (float[n,n] z) { z = MatMul(x, x) }"))
    assert fitted(taken, judge, seed=0, dims={}) is taken


def test_inputs_that_fit_nowhere_blame_crux_and_not_the_model(judge):
    model = parsed("g (float[n] x) => (float[m] z) <int64[1] s = {0}, float[1] w = {1}>"
                   " { a = Shape(x) b = Sub(s, a) z = Expand(w, b) }")  # fmt: skip
    unfit = fitted(case(model), judge, seed=0, dims={})
    verdict = judge.verdict(unfit)
    assert unfit.remarks(Remark.UNFIT)
    assert unfit.inputs.keys() == {"x"}
    assert verdict.outcome is Outcome.UNDECIDED
    assert "crux made do not fit" in verdict.title
    given = replace(unfit, notes=())
    assert judge.verdict(given).outcome is Outcome.INVALID


def test_a_map_goes_in_as_its_keys_and_values(judge):
    key_and_value = onnx.helper.make_map_type_proto(
        onnx.TensorProto.STRING, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    node = onnx.helper.make_node(
        "DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["b", "a"]
    )
    graph = onnx.helper.make_graph(
        [node], "g", [onnx.ValueInfoProto(name="x", type=key_and_value)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )  # fmt: skip
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    found = case(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8))
    keys, values = found.inputs["x"]
    verdict = judge.verdict(found)
    assert verdict.outcome is Outcome.PASS
    table = dict(zip(keys, values, strict=True))
    assert np.array_equal(verdict.runs[0].outputs["y"].ravel(), [table["b"], table["a"]])
