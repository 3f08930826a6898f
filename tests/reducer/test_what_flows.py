"""What moves make of that which flows: inputs and constants, sequences, texts, values, results of bodies."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest

from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import subgraphs, walk_function
from corpus.values import Value
from oracles.judge import Judge
from reducer.subject.order import size
from tests.helpers import models
from tests.reducer.driving import (
    OPSETS,
    Driven,
    case_of,
    drive,
    find_move,
    graph_text,
    model_of,
    subject_of,
)

FOLD, TO_INPUTS, SEQUENCES = "nodes become constants", "large weights become inputs", "shrink sequences"
RESULTS, VALUES, DIMS = "drop results of control flow", "simplify values", "shrink dims"
IsInteresting = Callable[[onnx.ModelProto, Mapping[str, Value]], bool]


def _drive(
    judge: Judge,
    move: str,
    text: str,
    keeps: IsInteresting = lambda model, inputs: True,
    header: str = OPSETS,
    **inputs: Value,
) -> Driven:
    """As a target would have it: what does not run un-optimised is not interesting."""
    model = model_of(text, header)
    case = case_of(model, inputs or None)

    def is_interesting(candidate: onnx.ModelProto, values: Mapping[str, Value]) -> bool:
        assert checker_complaint(candidate) is None
        return judge.runs(case_of(candidate, values), judge.configs[:1])[0].is_ok and keeps(candidate, values)

    subject = subject_of(judge, case)
    driven = drive(find_move(move), subject, is_interesting)
    assert size(driven.subject) <= size(subject)
    return driven


def _same(driven: Driven, after: str) -> None:
    assert graph_text(driven.subject.model) == graph_text(model_of(after))


RESHAPED = "g (float[4,10] x, int64[2] s) => (float[a,b] y) { p = Abs (s) q = Add (p, p) y = Reshape (x, q) }"


def reshapes_by_a_constant(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
    constants = {tensor.name for tensor in model.graph.initializer}
    return any(node.input[1] in constants for node in model.graph.node if node.op_type == "Reshape")


def test_where_a_constant_is_needed_what_makes_it_becomes_one(judge):
    """With all that only it needs."""
    inputs = {"x": np.ones((4, 10), np.float32), "s": np.array([2, 5], np.int64)}
    driven = _drive(judge, FOLD, RESHAPED, reshapes_by_a_constant, **inputs)
    _same(driven, "g (float[4,10] x) => (float[a,b] y) <int64[2] q = {4,10}> { y = Reshape (x, q) }")
    assert (driven.asked, list(driven.subject.inputs)) == (1, ["x"])


def weighted(count: int) -> onnx.ModelProto:
    weights = {name: np.arange(count, dtype=np.float32) for name in "wv"}
    text = f"g (float[1,{count}] x) => (float[1,{count}] y) {{ a = Mul (x, w) y = Add (a, v) }}"
    return models.model_of(text, **weights)


@pytest.mark.parametrize(
    ("count", "needed", "after"),
    [(40, "", []), (40, "w", ["w"]), (40, "wv", ["w", "v"]), (8, "", ["w", "v"])],
    ids=["all", "one is needed", "both are needed", "small ones stay"],
)
def test_large_weights(judge, count, needed, after):
    subject = subject_of(judge, case_of(weighted(count)))
    driven = drive(
        find_move(TO_INPUTS),
        subject,
        lambda model, inputs: set(needed) <= {each.name for each in model.graph.initializer},
    )
    assert [each.name for each in driven.subject.model.graph.initializer] == after
    assert driven.subject.inputs.keys() == {"x", "w", "v"} - set(after)
    assert (size(driven.subject) < size(subject)) == (len(after) < 2)


LISTED = "g (seq(float[3,2]) s) => (float[k,2] y) { y = ConcatFromSequence <axis = 0> (s) }"


@pytest.mark.parametrize(
    ("keeps", "shape", "zeros"),
    [
        (lambda members: True, (1, 1, 1), True),
        (lambda members: len(members) >= 3, (3, 1, 1), True),
        (lambda members: members[0].shape[0] > 1, (1, 3, 1), True),
        (lambda members: members[0].all(), (1, 1, 1), False),
    ],
    ids=["the least", "three members", "a long axis", "values"],
)
def test_sequences(judge, keeps, shape, zeros):
    members = [np.full((3, 2), 1 + number, np.float32) for number in range(5)]
    driven = _drive(judge, SEQUENCES, LISTED, lambda model, inputs: keeps(inputs["s"]), s=members)
    assert np.stack(driven.subject.inputs["s"]).shape == shape
    assert (not np.stack(driven.subject.inputs["s"]).any()) is zeros
    (declared,) = driven.subject.model.graph.input
    dims = declared.type.sequence_type.elem_type.tensor_type.shape.dim
    assert tuple(dim.dim_value for dim in dims) == shape[1:]


@pytest.mark.parametrize(
    ("keeps", "after"),
    [(lambda words: True, ["", ""]), (lambda words: all(words), ["a", "a"])],
    ids=["empty", "a letter"],
)
def test_texts(judge, keeps, after):
    words = np.array(["Hello", "world"], dtype=object)
    text = "g (string[2] x) => (string[2] y) { y = Identity (x) }"
    driven = _drive(judge, VALUES, text, lambda model, inputs: keeps(inputs["x"]), x=words)
    assert list(np.asarray(driven.subject.inputs["x"])) == after


ERF = "g (float[3,4] x) => (float[3,4] y) { y = Erf (x) }"


@pytest.mark.parametrize(
    ("at", "value", "shows", "after"),
    [
        (5, np.nan, np.isnan, np.nan),
        (11, 99.7, lambda array: array > 80, 100),
        (6, -50.5, lambda array: array < -20, -51),
    ],
    ids=["NaN", "large", "negative"],
)
def test_one_value_that_matters(judge, at, value, shows, after):
    """It is found wherever it stands, and written plainly."""
    array = np.linspace(0.1, 9.7, 12, dtype=np.float32)
    array[at] = value

    def keeps(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
        return bool(shows(np.asarray(inputs["x"])).any())

    cut = _drive(judge, DIMS, ERF, keeps, x=array.reshape(3, 4))
    assert np.asarray(cut.subject.inputs["x"]).shape == (1, 1)
    plain = _drive(judge, VALUES, ERF, keeps, x=array.reshape(3, 4))
    for _ in range(2):  # as the engine does while it finds something
        plain = _drive(judge, VALUES, ERF, keeps, **plain.subject.inputs)
    np.testing.assert_array_equal(np.unique(np.asarray(plain.subject.inputs["x"])), [np.float32(after)])


LOOP = (
    "g (float[2] x, float[2] z) => (float[2] y) <int64 n = {3}, bool t = {1}> { y, u, s = Loop (n, t, x, z) <"
    "body = b (int64 i, bool ci, float[2] v, float[2] w) => (bool co, float[2] vo, float[2] wo, float[2] so)"
    " { co = Identity (ci) vo = Add (v, w) wo = Exp (w) so = Neg (vo) }> }"
)
SCAN = (
    "g (float[2] h, float[2,3] x) => (float[2] y) { y, s, r = Scan <"
    "num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1, 0],"
    " body = b (float[2] hi, float[2] xi) => (float[2] ho, float[2] so, float[2] ro)"
    " { ho = Add (hi, xi) so = Erf (ho) ro = Exp (ho) }> (h, x) }"
)
IF = (
    "g (float[2] x, bool c) => (float[2] y) { y, s = If (c) <"
    "then_branch = t () => (float[2] p, float[2] q) { p = Erf (x) q = Exp (x) },"
    " else_branch = e () => (float[2] r, float[2] u) { r = Neg (x) u = Cos (x) }> }"
)


@pytest.mark.parametrize(
    ("text", "after"),
    {
        "a Loop's state becomes what it began with": (
            LOOP,
            "g (float[2] x, float[2] z) => (float[2] y) <int64 n = {3}, bool t = {1}> { y = Loop (n, t, x) <"
            "body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo)"
            " { co = Identity (ci) vo = Add (v, z) }> }",
        ),
        "a Scan's slices": (
            SCAN,
            "g (float[2] h, float[2,3] x) => (float[2] y) { y = Scan <"
            "num_scan_inputs = 1, scan_input_axes = [1],"
            " body = b (float[2] hi, float[2] xi) => (float[2] ho)"
            " { ho = Add (hi, xi) }> (h, x) }",
        ),
        "both branches of an If": (
            IF,
            "g (float[2] x, bool c) => (float[2] y) { y = If (c) <"
            "then_branch = t () => (float[2] p) { p = Erf (x) },"
            " else_branch = e () => (float[2] r) { r = Neg (x) }> }",
        ),
    }.values(),
    ids=["Loop", "Scan", "If"],
)
def test_results_that_nobody_reads(judge, text, after):
    _same(_drive(judge, RESULTS, text), after)


PARAMETERS = """g (float[4] x) => (float[4] y) { y = local.f <al = 2.0, be = 0.5> (x) }
<opset_import: ["" : 17], domain: "local"> f <al, be> (p) => (q)
{ r = LeakyRelu <alpha : float = @al> (p) q = Elu <alpha : float = @be> (r) }"""
LOCAL = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>'


@pytest.mark.parametrize(("needs", "parameters"), [("", []), ("Elu", ["be"])], ids=["none", "one"])
def test_attributes_in_functions(judge, needs, parameters):
    """With those that the function takes for them, and its calls give."""

    def keeps(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
        inner = (node for each in model.functions for node in each.node)
        return not needs or any(node.op_type == needs and node.attribute for node in inner)

    reduced = _drive(judge, "drop attributes", PARAMETERS, keeps, LOCAL).subject.model
    assert list(reduced.functions[0].attribute) == parameters
    assert [item.name for item in reduced.graph.node[0].attribute] == parameters


def test_bodies_in_functions_have_fewer_nodes_and_smaller_dims(judge):
    text = """g (float[4] x, bool c) => (float[4] y) { y = local.f (x, c) }
    <opset_import: ["" : 17], domain: "local"> f (p, c) => (q)
    { q = If (c) <then_branch = t () => (float[4] u) { v = Erf (p) w = Exp (v) u = Neg (w) },
      else_branch = e () => (float[4] r) { s = Sin (p) r = Cos (s) }> }"""

    def keeps(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
        return "Exp" in [node.op_type for each in model.functions for node in walk_function(each)]

    found = _drive(judge, "shrink functions", text, keeps, LOCAL)
    (function,) = found.subject.model.functions
    bodies = [[node.op_type for node in body.node] for body in subgraphs(function.node[0])]
    assert [len(body) for body in bodies] == [1, 1]
    assert bodies[0] == ["Exp"]
    smaller = drive(find_move(DIMS), found.subject, lambda model, inputs: True).subject
    assert np.asarray(smaller.inputs["x"]).shape == (1,)
