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
VALUES, DIMS = "simplify values", "shrink dims"
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
