"""What a command is asked about: models that onnx's strict checker, with full inference, accepts."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from corpus.onnx.graph import walk_nodes
from oracles.judge import Judge
from tests.reducer.driving import Counting, case_of, engine_for, run_to_end, subject_of

LOOP = """g (float[N,3] x) => (float[N,3] y, float[3,N,3] all)
    <int64 n = {3}, bool yes = {1}, float c = {0.5}> {
    a = Relu(x) b = Mul(a, c) d = Exp(b)
    last, all = Loop(n, yes, d) <body = body (int64 i, bool go, float[N,3] s)
        => (bool on, float[N,3] t, float[N,3] u) {
        on = Identity(go) p = Neg(s) q = Sigmoid(p) r = Tanh(q) k = Add(r, c) t = Mul(k, s) u = Sqrt(q) }>
    y = Abs(last) }"""
BRANCHES = """g (float[2,3] x, bool k) => (float[2,3] y) <float c = {0.5}> {
    a = Relu(x) b = Mul(a, c)
    z = If(k) <then_branch = th () => (float[2,3] t) { p = Exp(b) q = Tanh(p) r = Mul(q, c) t = Neg(r) },
               else_branch = el () => (float[2,3] e) { w = Cos(b) e = Add(w, a) }>
    y = Abs(z) }"""
SCAN = """g (float[5,3] x) => (float[3] y, float[5,3] z) <float[3] c = {0.5, 1, 2}> {
    a = Relu(x) b = Mul(a, c)
    y, z = Scan(c, b) <num_scan_inputs = 1, body = body (float[3] s, float[3] v) => (float[3] t, float[3] o) {
        p = Exp(v) q = Tanh(p) r = Add(q, s) t = Neg(r) o = Sqrt(q) }> }"""
QUANTISED = """g (float[2,3] x) => (float[2,4] y) <float s = {0.1}, int8 z = {0}> {
    a = Relu(x) aq = QuantizeLinear(a, s, z) ad = DequantizeLinear(aq, s, z)
    wd = DequantizeLinear(w, s, z) m = MatMul(ad, wd) mq = QuantizeLinear(m, s, z)
    md = DequantizeLinear(mq, s, z) t = Tanh(md) tq = QuantizeLinear(t, s, z)
    y = DequantizeLinear(tq, s, z) }"""
FUNCTION = """<ir_version: 9, opset_import: ["" : 18, "f" : 1]> g (float[2,3] x) => (float[2,3] y)
    { a = Relu(x) b = f.inner(a) c = Exp(b) y = Sin(c) }
    <domain: "f", opset_import: ["" : 18]>
    inner (v) => (w) { p = Neg(v) q = Tanh(p) r = Sigmoid(q) w = Abs(r) }"""


def of_graph(text: str) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(text)
    if "(w," in text:
        weights = (np.arange(12).reshape(3, 4) - 6).astype(np.int8)
        graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


MODELS = {
    "Loop": lambda: of_graph(LOOP),
    "If": lambda: of_graph(BRANCHES),
    "Scan": lambda: of_graph(SCAN),
    "QuantizeLinear": lambda: of_graph(QUANTISED),
    "inner": lambda: onnx.parser.parse_model(FUNCTION),
}


@pytest.mark.parametrize("within", MODELS)
def test_a_bug_within_a_body_a_function_or_integers_meets_valid_candidates_alone(
    judge: Judge, within: str
) -> None:
    """Tanh beside what it lies in: fewer nodes are left, and each that was asked about is strictly valid."""
    model = MODELS[within]()
    rejected = []

    def is_interesting(candidate: onnx.ModelProto) -> bool:
        try:
            onnx.checker.check_model(candidate, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            rejected.append(str(error))
        nodes = [*walk_nodes(candidate.graph), *(node for each in candidate.functions for node in each.node)]
        return {within, "Tanh"} <= {node.op_type for node in nodes}

    case, predicate = case_of(model), Counting(is_interesting)
    with engine_for(judge, case, predicate) as engine:
        found = run_to_end(engine, subject_of(judge, case))
    assert len(predicate.asked) > 5
    assert rejected == []
    assert is_interesting(found.model)
    assert len(list(walk_nodes(found.model.graph))) <= 2
