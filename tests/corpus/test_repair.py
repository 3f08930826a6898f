"""Annotations are mended, operators never; what the checker says is about the model, not about its notes."""

import onnx
import pytest
from onnx import TensorProto, helper

from corpus.onnx.check import checker_complaint, repair
from corpus.onnx.client import infer_types
from tests.helpers.models import cyclic, external, model, model_of, relu, value

FLOAT, HALF, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE


def untyped(name: str) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name)


def chain(output: onnx.ValueInfoProto, *stale: onnx.ValueInfoProto) -> onnx.ModelProto:
    """Cast to double, then a matrix product: y is double[2,4], h is double[2,3]."""
    weight = helper.make_tensor("w", DOUBLE, [3, 4], [1.0] * 12)
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=DOUBLE),
        helper.make_node("MatMul", ["h", "w"], [output.name]),
    ]
    return model(nodes, [value("x", [2, 3])], [output], [weight], stale)


def dims(item: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in item.type.tensor_type.shape.dim]


FAULTS = {
    "no type": (chain(untyped("y")), "'y'"),
    "no element type": (chain(value("y", [2, 4], 0)), "'y'"),
    "stale element": (chain(value("y", [2, 4], FLOAT)), "'y'"),
    "stale value_info": (chain(value("y", [2, 4], DOUBLE), value("h", [2, 3], FLOAT)), "'h'"),
    "stale value_info's shape": (chain(value("y", [2, 4], DOUBLE), value("h", [9, 3], DOUBLE)), "'h'"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_missing_or_stale_annotation_is_mended_with_a_note(name):
    program, named = FAULTS[name]
    before = program.SerializeToString()
    mended, notes = repair(program)
    assert program.SerializeToString() == before
    assert len(notes) == 1
    assert named in notes[0]
    assert mended.graph.output[0].type.tensor_type.elem_type == DOUBLE
    assert dims(mended.graph.output[0]) == [2, 4]
    assert all(
        item.type.tensor_type.elem_type == DOUBLE and dims(item) == [2, 3] for item in mended.graph.value_info
    )
    assert list(mended.graph.node) == list(program.graph.node)
    assert checker_complaint(mended) is None
    assert repair(mended) == (mended, ())


SOUND = {
    "full": chain(value("y", [2, 4], DOUBLE), value("h", [2, 3], DOUBLE)),
    "symbolic where inference knows": chain(value("y", ["n", None], DOUBLE), value("h", ["n", 3], DOUBLE)),
    "more than inference knows": model(
        [helper.make_node("NonZero", ["x"], ["y"])],
        [value("x", [2, 3])],
        [value("y", [2, 6], TensorProto.INT64)],
    ),
    "weights elsewhere": external("absent.bin", 4),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_model_is_left_untouched(name):
    mended, notes = repair(SOUND[name])
    assert mended is SOUND[name]
    assert notes == ()
    assert checker_complaint(mended) is None


def test_stale_value_info_inside_a_body_is_mended():
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=DOUBLE),
        helper.make_node("Cast", ["h"], ["r"], to=FLOAT),
    ]
    body = helper.make_graph(nodes, "b", [], [value("r", [2])], value_info=[value("h", [2], FLOAT)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    program = model([node], [value("c", [], TensorProto.BOOL), value("x", [2])], [value("y", [2])])
    mended, notes = repair(program)
    assert "'h'" in notes[0]
    bodies = [attribute.g for attribute in mended.graph.node[0].attribute]
    assert [body.value_info[0].type.tensor_type.elem_type for body in bodies] == [DOUBLE, DOUBLE]


def test_an_output_of_an_unknown_operator_stays_untyped_with_a_note():
    node = helper.make_node("FusedThing", ["x"], ["y"], domain="com.microsoft")
    program = model([node], [value("x", [2])], [untyped("y")], domains=["com.microsoft"])
    mended, notes = repair(program)
    assert mended is program
    assert "without a type" in notes[0]
    assert checker_complaint(mended) is None


def half_converted() -> onnx.ModelProto:
    """What float16 converters leave: a Cast to float whose value_info says float16, added to a float16."""
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=FLOAT), helper.make_node("Add", ["h", "x"], ["y"])]
    return model(nodes, [value("x", [2], HALF)], [value("y", [2], HALF)], value_info=[value("h", [2], HALF)])


def test_a_contradiction_between_operators_is_not_mended_away():
    program = half_converted()
    mended, notes = repair(program)
    assert "'h'" in notes[0]
    assert mended.graph.value_info[0].type.tensor_type.elem_type == FLOAT
    assert "Cast" in (checker_complaint(program) or "")
    assert "Add" in (checker_complaint(mended) or "")


def deadly() -> onnx.ModelProto:
    """onnx's own inference of GatherND dies of a negative batch_dims."""
    indices = helper.make_tensor("i", TensorProto.INT64, [1, 0], [])
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-1)
    return model([node], [value("x", [2, 0, 5])], [untyped("y")], [indices])


def test_a_model_that_kills_onnx_is_no_fault_of_the_model_and_the_next_is_served():
    assert infer_types(deadly().SerializeToString()) is None
    mended, notes = repair(deadly())
    assert mended.graph.output[0] == untyped("y")
    assert "without a type" in notes[0]
    assert checker_complaint(deadly()) is None
    assert checker_complaint(relu()) is None


COMPLAINTS = {
    "a cycle": (cyclic(), "cycle"),
    "a missing value": (model_of("g () => (float[1] y) { y = Relu (z) }"), "nothing computes"),
    "an order": (model_of("g (float[1] x) => (float[1] y) { y = Relu (h) h = Relu (x) }"), "topological"),
    "an unknown operator": (model_of("g (float[1] x) => (float[1] y) { y = Nonsense (x) }"), "Nonsense"),
    "a type error": (model_of("g (float[1] x, double[1] z) => (float[1] y) { y = Add (x, z) }"), "Add"),
    "short weights": (
        model_of(
            "g () => (float[2] y) { y = Relu (w) }",
            w=TensorProto(name="w", data_type=FLOAT, dims=[2], raw_data=b"1234"),
        ),
        "4 bytes",
    ),
}


@pytest.mark.parametrize("name", COMPLAINTS)
def test_the_checker_says_what_is_wrong_in_one_line(name):
    program, word = COMPLAINTS[name]
    complaint = checker_complaint(repair(program)[0])
    assert complaint is not None
    assert word in complaint
    assert "\n" not in complaint
