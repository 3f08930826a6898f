"""Nodes on the way to a computed size, and the last look at every subset of few nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest

from oracles.judge import Judge
from reducer.move import Hints, Search
from reducer.moves.computed_sizes import bypass_computed_sizes
from reducer.moves.exhaust_small import look_at_subsets
from reducer.search import drop_runs
from reducer.subject.onnx.retype import retype_outputs
from reducer.subject.onnx.subject import OnnxSubject
from tests.reducer.driving import ORT, case_of, model_of, subject_of


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(ORT) as made:
        yield made


def driven(search: Search, keeps: set[str], judge: Judge, like: OnnxSubject) -> tuple[OnnxSubject, int]:
    """What a search finds that keeps these operators and runs; and how often it asked."""
    asked, answer = 0, None
    while True:
        try:
            proposal = next(search) if answer is None else search.send(answer)
        except StopIteration as end:
            found: OnnxSubject = end.value
            return found, asked
        asked += 1
        candidate = proposal()
        assert candidate is not None
        answer = keeps <= {node.op_type for node in candidate.nodes} and runs(judge, candidate)


def runs(judge: Judge, subject: OnnxSubject) -> bool:
    case = subject.case(case_of(subject.model, subject.inputs))
    return all(run.is_ok for run in judge.runs(case, judge.configs[:1]))


def test_a_node_in_a_chain_of_sizes_goes(judge: Judge) -> None:
    text = (
        "g (float[2,3] x, float[4] d) => (float[m] y) <int64[1] one = {1}> {"
        " s = Shape(x) a = Gather(s, one) b = Sub(a, one) c = ConstantOfShape(b) y = Concat<axis = 0>(c, d) }"
    )
    case = case_of(model_of(text), {"x": np.ones((2, 3), np.float32), "d": np.ones(4, np.float32)})
    subject = subject_of(judge, case)
    found, _ = driven(bypass_computed_sizes(subject, Hints()), {"Shape", "Concat"}, judge, subject)
    assert [node.op_type for node in found.nodes] == ["Shape", "Gather", "ConstantOfShape", "Concat"]
    dims = [dim.dim_value for dim in found.model.graph.input[0].type.tensor_type.shape.dim]
    assert dims == [2, 2], "the input of the Shape has the dim that the Sub gave"


def test_two_nodes_go_together_where_neither_goes_alone(judge: Judge) -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) c = Exp(b) d = Log(c) y = Sqrt(d) }"
    subject = subject_of(judge, case_of(model_of(text)))

    def pairs(model: onnx.ModelProto) -> bool:
        operators = [node.op_type for node in model.graph.node]
        return operators in (["Neg", "Abs", "Exp", "Log", "Sqrt"], ["Neg", "Abs", "Sqrt"])

    search = look_at_subsets(subject, Hints(is_thorough=True))
    answer: bool | None = None
    while True:
        try:
            proposal = next(search) if answer is None else search.send(answer)
        except StopIteration as end:
            found: OnnxSubject = end.value
            break
        candidate = proposal()
        answer = candidate is not None and pairs(candidate.model)
    assert [node.op_type for node in found.nodes] == ["Neg", "Abs", "Sqrt"]


def test_the_usual_last_look_is_bounded(judge: Judge) -> None:
    nodes = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(8))
    text = f"g (float[2] v0) => (float[2] v8) {{ {nodes} }}"
    subject = subject_of(judge, case_of(model_of(text)))
    _, asked = driven(look_at_subsets(subject, Hints()), {"Abs"}, judge, subject)
    assert asked == 12


def test_runs_of_a_chain_go_at_once() -> None:
    search, asked, answer = drop_runs(range(24)), 0, None
    needed = {3, 22}
    while True:
        try:
            keep = next(search) if answer is None else search.send(answer)
        except StopIteration as end:
            left = end.value
            break
        asked += 1
        answer = needed <= keep
    assert needed <= left
    assert len(left) <= 6
    assert asked <= 14


def test_values_of_bodies_keep_a_shape_when_outputs_are_typed_again() -> None:
    body = (
        "step (int64[] i, bool[] go, float[2,3] state) => (bool[] on, float[2,3] next)"
        " { on = Identity(go) next = Add(state, state) }"
    )
    model = model_of(
        "g (float[2,3] x) => (float[2,3] y)"
        " { n = Constant<value = int64[1] {3}>() y = Loop<body = B>(n, , x) }".replace("B", body)
    )
    onnx.checker.check_model(model, full_check=True)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    retype_outputs(model)
    onnx.checker.check_model(model, full_check=True)
    assert [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim][-1:] in ([5], [0])
