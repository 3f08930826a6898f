"""Every format keeps the contract; what a format prints and measures is what the program holds."""

from __future__ import annotations

import importlib

import onnx
import pytest
from onnx import TensorProto, helper

from corpus.errors import UserError
from corpus.format import Format
from corpus.formats import find_format, format_names
from corpus.onnx.measure import measure
from corpus.onnx.text import print_text
from tests.corpus.models import external, model, value


@pytest.mark.parametrize("name", format_names())
def test_a_format_is_a_record_of_its_own_name(name: str) -> None:
    found = find_format(name)
    assert isinstance(found, Format)
    assert name == found.name
    assert importlib.import_module(f"corpus.formats.{name}").__doc__


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UserError, match="onnx"):
        find_format("elf")


def sample() -> onnx.ModelProto:
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["r"])], "b", [], [value("r", [2])])
    opsets = [helper.make_opsetid("", 17)]
    inner = [helper.make_node("Relu", ["a"], ["h"]), helper.make_node("Relu", ["h"], ["b"])]
    function = helper.make_function("own", "F", ["a"], ["b"], inner, opsets)
    nodes = [
        helper.make_node("Constant", [], ["k"], value=helper.make_tensor("", TensorProto.FLOAT, [2], [1, 2])),
        helper.make_node("If", ["c"], ["h"], then_branch=body, else_branch=body),
        helper.make_node("F", ["h"], ["g"], domain="own"),
        helper.make_node("Concat", ["g", "k", "w"], ["y"], axis=0),
    ]
    weight = helper.make_tensor("w", TensorProto.INT4, [3], [1, 2, 3])
    inputs = [value("c", [], TensorProto.BOOL), value("x", [2]), value("w", [3], TensorProto.INT4)]
    return model(nodes, inputs, [value("y", ["n"])], [weight], functions=[function], domains=["own"])


def test_measure_counts_bodies_and_constants_and_functions_apart() -> None:
    found = measure(sample())
    assert found.ops == ("Constant", "If", "Neg", "Neg", "own:F", "Concat")
    assert (found.nodes, found.function_nodes, found.inputs, found.outputs) == (6, 2, 2, 1)
    assert found.bytes == len(sample().SerializeToString())
    assert found.initializer_bytes == 8 + 2
    assert measure(external("w.bin", 1000)).initializer_bytes == 4000


def test_the_text_names_every_value_and_node() -> None:
    text = print_text(sample())
    for part in [
        "input x: float32[2]",
        "weight w: int4[3] = [1, 2, 3]",
        "k = Constant{value=float32[2] = [1.0, 2.0]}()",
    ]:
        assert part in text
    for part in [
        "h = If(c)",
        "then_branch:",
        "    r: float32[2] = Neg(x)",
        "g = own:F(h)",
        "output y: float32[n]",
    ]:
        assert part in text
    assert "function own:F(a) -> (b)" in text
    assert "in another file" in print_text(external("w.bin", 1000))
