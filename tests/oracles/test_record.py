"""Recordings: every intermediate, and the node at which a run breaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from corpus.case import Case
from oracles.judge import Judge
from oracles.probes.record import record

F = np.float32


def case(graph: str, **inputs: Any) -> Case:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    return Case("onnx", model.SerializeToString(), inputs)


def test_a_whole_run_gives_every_value(judge: Judge) -> None:
    chain = case(
        "g (float[2] x) => (float[2] y) <float[2] w = {2.0, 3.0}> { a = Mul(x, w) b = Neg(a) y = Abs(b) }",
        x=np.ones(2, F),
    )
    recording = record(judge.executor, chain)
    assert (recording.crashed_at, recording.complete) == (None, True)
    assert set(recording.values) == {"x", "w", "a", "b", "y"}
    np.testing.assert_array_equal(recording.values["b"], [-2, -3])  # type: ignore[arg-type]


def test_sequences_and_bodies_are_recorded(judge: Judge) -> None:
    mixed = case(
        "g (float[4] x, bool c) => (float[4] y) {"
        " s = SplitToSequence<axis = 0, keepdims = 1>(x)"
        " z = If(c) <then_branch = t () => (float[4] u) { u = Neg(x) },"
        " else_branch = e () => (float[4] v) { v = Abs(x) }>"
        " y = Exp(z) }",
        x=np.arange(4, dtype=F),
        c=np.array(True),
    )
    recording = record(judge.executor, mixed)
    assert recording.crashed_at is None
    assert isinstance(recording.values["s"], list)
    np.testing.assert_array_equal(recording.values["z"], -np.arange(4, dtype=F))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("divide", "values"),
    [("Div(b, z)", (np.iinfo(np.int64).min, -1)), ("Div(b, z)", (5, 0))],
    ids=["crash", "exception"],
)
def test_a_run_that_breaks_is_recorded_up_to_the_culprit(
    judge: Judge, divide: str, values: tuple[int, int]
) -> None:
    chain = case(
        "g (int64[1] x, int64[1] z) => (int64[1] y) {"
        f" a = Identity(x) b = Identity(a) c = {divide} d = Neg(c) e = Abs(d) y = Identity(e) }}",
        x=np.array([values[0]]),
        z=np.array([values[1]]),
    )
    recording = record(judge.executor, chain)
    assert recording.crashed_at == "c"
    assert set(recording.values) == {"x", "z", "a", "b"}


def test_the_first_node_can_be_the_culprit(judge: Judge) -> None:
    broken = case(
        "g (int64[1] x, int64[1] z) => (int64[1] y) { c = Div(x, z) y = Neg(c) }",
        x=np.array([1]),
        z=np.array([0]),
    )
    recording = record(judge.executor, broken)
    assert recording.crashed_at == "c"
    assert set(recording.values) == {"x", "z"}


def test_a_graph_without_nodes_that_does_not_run_has_no_culprit(judge: Judge) -> None:
    folded = case("g (float[2] x) => (float[2] y) { }", x=np.ones(3, F))
    recording = record(judge.executor, folded)
    assert recording.crashed_at is None
    assert set(recording.values) == {"x"}


def test_what_does_not_fit_the_budget_is_left_out(judge: Judge) -> None:
    large = case(
        "g (float[1] x) => (float[1] y) <int64[1] n = {1000}> { big = Expand(x, n) y = ReduceSum(big) }",
        x=np.ones(1, F),
    )
    recording = record(judge.executor, large, byte_budget=1000)
    assert not recording.complete
    assert "y" in recording.values
    assert "big" not in recording.values


def test_nodes_in_any_order_are_recorded(judge: Judge) -> None:
    chain = case(
        "g (int64[1] x, int64[1] z) => (int64[1] y) { a = Neg(x) c = Div(a, z) y = Abs(c) }",
        x=np.array([1]),
        z=np.array([0]),
    )
    model = onnx.load_model_from_string(chain.program)
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    recording = record(judge.executor, Case("onnx", model.SerializeToString(), chain.inputs))
    assert recording.crashed_at == "c"
    assert set(recording.values) == {"x", "z", "a"}
