"""Known bugs of onnxruntime, each within a network of sixty nodes: the least nodes, in few checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.measure import measure
from corpus.values import Tensor
from oracles.judge import Judge
from oracles.run import Phase
from oracles.verdict import Outcome, Verdict
from reducer.api import reduce_case
from reducer.options import Options
from tests.reducer.driving import ORT

AROUND, AFTER = 30, 20
MOST_CHECKS = 60


@dataclass(frozen=True)
class Bug:
    """A bug's own nodes from `x` to `y`, its constants, what flows in, and what it shows."""

    nodes: tuple[onnx.NodeProto, ...]
    constants: Mapping[str, Tensor]
    x: Tensor
    outcome: Outcome
    least: tuple[str, ...]


def node(operator: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def relu_clip() -> Bug:
    nodes = (node("Relu", "x", "r"), node("Clip", "r low", "y"))
    x = np.linspace(-2, 2, 12).reshape(3, 4)
    return Bug(nodes, {"low": np.array(0.5)}, x, Outcome.EXCEPTION, ("Clip", "Relu"))


def remainder_of_the_minimum() -> Bug:
    x = np.full((3, 4), np.iinfo(np.int32).min, np.int32)
    return Bug((node("Mod", "x m", "y"),), {"m": np.array([-1], np.int32)}, x, Outcome.CRASH, ("Mod",))


def quotient_times() -> Bug:
    nodes = (node("Div", "one x", "q"), node("Mul", "q z", "y"))
    x = np.arange(2, 14, dtype=np.int32).reshape(3, 4)
    constants = {"one": np.array([1], np.int32), "z": np.array([7], np.int32)}
    return Bug(nodes, constants, x, Outcome.MISMATCH, ("Div", "Mul"))


def pad_before_pool() -> Bug:
    nodes = (
        node("Pad", "x pads", "p"),
        node("MaxPool", "p", "y", kernel_shape=[3, 3]),
    )
    x = -np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    return Bug(nodes, {"pads": pads}, x, Outcome.MISMATCH, ("MaxPool", "Pad"))


def relu_clip_in_an_if_in_a_loop() -> Bug:
    kind = TensorProto.DOUBLE
    branch = helper.make_graph(
        [node("Relu", "v", "r"), node("Clip", "r low", "b")],
        "then",
        [],
        [helper.make_tensor_value_info("b", kind, [3, 4])],
    )
    other = helper.make_graph(
        [node("Neg", "v", "e")], "else", [], [helper.make_tensor_value_info("e", kind, [3, 4])]
    )
    body = helper.make_graph(
        [
            node("Identity", "going", "still"),
            helper.make_node("If", ["going"], ["w"], then_branch=branch, else_branch=other),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", kind, [3, 4]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", kind, [3, 4]),
        ],
    )
    nodes = (helper.make_node("Loop", ["trips", "yes", "x"], ["y"], body=body),)
    constants = {"low": np.array(0.5), "trips": np.array(2), "yes": np.array(True)}
    x = np.linspace(-2, 2, 12).reshape(3, 4)
    return Bug(nodes, constants, x, Outcome.EXCEPTION, ("Clip", "Relu"))


BUGS = [relu_clip, remainder_of_the_minimum, quotient_times, pad_before_pool, relu_clip_in_an_if_in_a_loop]


def network(bug: Bug) -> Case:
    """The bug with a chain before it that hands its values on, a branch beside it and a chain after it."""
    nodes = [node("Identity", "input", "a0")]
    for at in range(AROUND):  # the signs change twice, so that the bug's values come through
        nodes.append(node(("Neg", "Neg", "Identity")[at % 3], f"a{at}", f"a{at + 1}"))
    nodes += [node("Identity", f"a{AROUND}", "x"), *bug.nodes]
    nodes += [node("Abs", "x", "b0"), *(node("Abs", f"b{at}", f"b{at + 1}") for at in range(8))]
    nodes += [node("Identity", "y", "c0"), *(node("Abs", f"c{at}", f"c{at + 1}") for at in range(AFTER))]
    kind = helper.np_dtype_to_tensor_dtype(bug.x.dtype)
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("input", kind, bug.x.shape)],
        [helper.make_tensor_value_info(name, kind, None) for name in (f"c{AFTER}", "b8")],
        [numpy_helper.from_array(array, name) for name, array in bug.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Case("onnx", model.SerializeToString(), {"input": bug.x}, ORT)


@pytest.mark.parametrize("make", BUGS, ids=lambda make: make.__name__)
def test_a_known_bug_is_reduced_to_its_least_nodes(make: Callable[[], Bug], tmp_path: Path) -> None:
    bug = make()
    case = network(bug)
    with Judge(ORT) as judge:
        before = judge.verdict(case)
        if before.outcome is not bug.outcome:
            pytest.skip(f"the installed onnxruntime does not show it: {before.title}")
        reduction = reduce_case(case, tmp_path, Options())
        after = judge.verdict(reduction.case)
    assert measure(parse(case.program)).nodes >= 60
    assert tuple(sorted(reduction.after.ops)) == bug.least
    assert after.symptom == before.symptom
    assert reduction.is_minimal
    assert reduction.checks <= MOST_CHECKS
    print(f"{reduction.checks} checks, {reduction.after.bytes} bytes, {reduction.seconds:.1f} s")


def test_a_result_that_does_not_show_at_the_end_has_the_verdict_of_what_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a failure that shows in some runs only: the target does not say so at the first look."""
    true_verdict, calls = Judge.verdict, list[str]()

    def verdict(judge: Judge, case: Case, **options: object) -> Verdict:
        given = true_verdict(judge, case, **options)
        if options.get("only") is not None or measure(parse(case.program)).nodes > 2:
            return given
        calls.append("passed")
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=given.runs)

    monkeypatch.setattr(Judge, "verdict", verdict)
    reduction = reduce_case(network(relu_clip()), tmp_path / "out", Options(target=ORT))
    assert calls
    assert reduction.after.nodes == 2
    assert reduction.verdict is not None
    assert reduction.verdict.outcome is Outcome.EXCEPTION


def test_an_annotation_stays_if_the_failure_needs_it(tmp_path: Path) -> None:
    """Attention's shape inference takes a symbolic bias for an empty one; the annotation says better."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[D] bias, float[C,D] w, float[C] scale, float[C] shift, float[1,3,4] a, float[1,3,4] b)
            => (float[1,3,4] y) <float[1,3,4] t> {
            n = Neg (b)
            s = Add (a, n)
            l = LayerNormalization <axis = -1> (s, scale, shift)
            t = com.microsoft.Attention <num_heads = 2> (l, w, bias)
            y = Sub (n, t)
        }""")
    shapes = {"bias": 12, "w": (4, 12), "scale": 4, "shift": 4, "a": (1, 3, 4), "b": (1, 3, 4)}
    inputs = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    case = Case("onnx", model.SerializeToString(), inputs, ORT)
    with Judge(ORT) as judge:
        first = judge.verdict(case)
        reduced = reduce_case(case, tmp_path, Options()).case
        last = judge.verdict(reduced)
    graph = parse(reduced.program).graph
    assert first.outcome is Outcome.EXCEPTION
    assert last.symptom == first.symptom
    assert len(graph.node) < 5
    assert graph.value_info
