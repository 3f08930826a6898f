"""Made inputs: of the declared type, in range of what reads them, the same for the same seed."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from corpus.formats.onnx import input_types
from corpus.onnx.inputs import make_inputs
from corpus.onnx.types import DTYPES
from corpus.values import fit_value
from tests.helpers.models import identity, model, value

INT = TensorProto.INT64


@pytest.mark.parametrize("code", DTYPES)
def test_every_dtype_is_made_as_declared(code):
    kinds = [
        value("x", [2, "n"], code),
        value("scalar", [], code),
        value("none", [0, 3], code),
        helper.make_tensor_sequence_value_info("s", code, ["n"]),
    ]
    optional = onnx.ValueInfoProto(name="o")
    optional.type.optional_type.elem_type.CopyFrom(kinds[0].type)
    program = identity([*kinds, optional])
    inputs = make_inputs(program, 7)
    types = input_types(program, "m")
    assert list(inputs) == ["x", "scalar", "none", "s", "o"]
    for name, made in inputs.items():
        assert fit_value(name, made, types[name], "m") is not None
    for array in (inputs["x"], *(inputs["s"] or [])):
        if array.dtype.kind not in "U":
            assert np.all(np.isfinite(array.astype(np.complex128)))
            assert np.all(np.abs(array.astype(np.complex128)) <= 4)


def test_the_seed_decides():
    program = identity([value("x", ["a", "b"]), value("y", ["b", "a"])])
    one, again, other = make_inputs(program, 1), make_inputs(program, 1), make_inputs(program, -2)
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert any(
        one[name].shape != other[name].shape or not np.array_equal(one[name], other[name]) for name in one
    )
    assert one["x"].shape == one["y"].shape[::-1]


def test_dims_are_consistent_by_name_and_formulas_hold():
    program = identity(
        [value("x", ["n", "past"]), value("y", ["n", "past + 1"]), value("z", ["2*n", "now()"])]
    )
    inputs = make_inputs(program, 0)
    rows, past = inputs["x"].shape
    assert inputs["y"].shape == (rows, past + 1)
    assert inputs["z"].shape[0] == 2 * rows
    assert inputs["z"].shape[1] in (2, 3, 4)


def test_an_initializer_is_a_default_and_needs_no_value():
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    program = model([node], [value("x", [2]), value("w", [2])], [value("y", [2])], [weight])
    assert list(make_inputs(program, 0)) == ["x"]
    assert {name: found.required for name, found in input_types(program, "m").items()} == {
        "x": True,
        "w": False,
    }


def table(rows: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.arange(rows * 3, dtype=np.float32).reshape(rows, 3), "t")


READERS = {
    "Gather": ([helper.make_node("Gather", ["t", "i"], ["y"])], [value("i", ["n"], INT)], [table(1)]),
    "Gather of a cast": (
        [helper.make_node("Cast", ["i"], ["j"], to=INT), helper.make_node("Gather", ["t", "j"], ["y"])],
        [value("i", ["n"], TensorProto.INT32)],
        [table(2)],
    ),
    "Reshape": ([helper.make_node("Reshape", ["t", "i"], ["y"])], [value("i", [3], INT)], [table(2)]),
    "Expand": ([helper.make_node("Expand", ["t", "i"], ["y"])], [value("i", [2], INT)], [table(2)]),
    "Tile": ([helper.make_node("Tile", ["t", "i"], ["y"])], [value("i", [2], INT)], [table(2)]),
    "Slice": (
        [helper.make_node("Slice", ["t", "i", "j", "k", "l"], ["y"])],
        [value(name, [2], INT) for name in "ijkl"],
        [table(2)],
    ),
    "Unsqueeze": ([helper.make_node("Unsqueeze", ["t", "i"], ["y"])], [value("i", [2], INT)], [table(2)]),
    "ReduceSum": ([helper.make_node("ReduceSum", ["t", "i"], ["y"])], [value("i", [2], INT)], [table(2)]),
    "TopK": ([helper.make_node("TopK", ["t", "i"], ["y", "z"])], [value("i", [1], INT)], [table(2)]),
    "Pad": ([helper.make_node("Pad", ["t", "i"], ["y"])], [value("i", [4], INT)], [table(2)]),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("seed", range(3))
def test_integers_suit_what_reads_them(name, seed):
    nodes, inputs, weights = READERS[name]
    program = model(nodes, inputs, [onnx.ValueInfoProto(name="y")], weights)
    (result,) = ReferenceEvaluator(program).run(None, make_inputs(program, seed))
    assert result.size


def test_a_divisor_is_never_zero():
    nodes = [helper.make_node("Div", ["a", "b"], ["y"]), helper.make_node("Mod", ["a", "b"], ["z"])]
    program = model(nodes, [value("a", [99], INT), value("b", [99], INT)], [value("y", [99], INT)])
    assert all(np.all(make_inputs(program, seed)["b"] > 0) for seed in range(5))
