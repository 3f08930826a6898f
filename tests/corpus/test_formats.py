"""Every format keeps the contract; what a format prints and measures is what the program holds."""

import importlib
import random
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.format import Format
from corpus.formats import find_format, format_names
from corpus.onnx.canonical import measure
from corpus.onnx.graph import (
    captured_names,
    consumers,
    free_names,
    outer_names,
    producers,
    subgraphs,
    tensors,
    topological,
    walk_model,
    walk_nodes,
)
from corpus.onnx.text import print_text
from corpus.target import Target
from generators.mixture import Plan, make_cases
from oracles.judge import Judge
from oracles.naming import names_of_case, signature
from tests.helpers.models import cyclic, external, model, value
from triage.language import language_of, list_case
from triage.pages.differences import describe_differences
from triage.views.drawn import drawn


@pytest.mark.parametrize("name", format_names())
def test_a_format_is_a_record_of_its_own_name(name):
    found = find_format(name)
    assert isinstance(found, Format)
    assert name == found.name
    assert importlib.import_module(f"corpus.formats.{name}").__doc__


def test_an_unknown_format_is_refused():
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


def test_measure_counts_bodies_and_constants_and_functions_apart():
    found = measure(sample())
    assert found.ops == ("Constant", "If", "Neg", "Neg", "own:F", "Concat")
    assert (found.nodes, found.function_nodes, found.inputs, found.outputs) == (6, 2, 2, 1)
    assert found.bytes == len(sample().SerializeToString())
    assert found.initializer_bytes == 8 + 2
    assert measure(external("w.bin", 1000)).initializer_bytes == 4000


def test_the_text_names_every_value_and_node():
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


# A case's program is parsed once, and nobody who asks a case about itself changes it


REGRESSIONS = Path(__file__).parents[2] / "corpus/regressions"


def bytes_of(case: Case) -> bytes:
    """The parsed program as bytes again."""
    parsed = case.parsed
    return bytes(parsed.SerializeToString(deterministic=True))


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_what_is_asked_of_a_case_leaves_its_parsed_program_as_it_is(seed):
    (case,) = make_cases(Plan(strategy="random", sequences=False), range(seed, seed + 1))
    before = bytes_of(case)
    assert case.parsed is case.parsed
    assert case.measure.nodes >= 0
    assert case.canonical_hash
    list_case(case)
    drawn(case)
    describe_differences(case, case)
    language_of(case.format).without_remarks(case)
    assert bytes_of(case) == before


def test_bytes_that_are_no_program_are_the_users_mistake():
    with pytest.raises(UserError):
        _ = Case("onnx", b"\xff\xff", {}, None).parsed


@pytest.mark.parametrize("name", ["pad-into-maxpool-negative", "lstm-batch-0", "relu-clip-not-float"])
def test_judging_and_naming_leave_the_parsed_program_as_it_is(name):
    target = Target("ort")
    case = replace(Case.load(REGRESSIONS / name), target=target)
    before = bytes_of(case)
    with Judge(target) as judge:
        verdict = judge.verdict(case)
        if verdict.is_bug:
            judge.explain(case, verdict)
            signature(verdict, case.measure, case)
    names_of_case(case)
    assert bytes_of(case) == before


# Walking graphs: bodies, captures, order


def nested() -> onnx.ModelProto:
    """An If in an If: the inner branch reads `x` and `h` of the main graph and `m` of the outer branch."""
    add = helper.make_node("Add", ["x", "m"], ["s"])
    inner = helper.make_graph(
        [add, helper.make_node("Add", ["s", "h"], ["r"])], "inner", [], [value("r", [2])]
    )
    inner_if = helper.make_node("If", ["c"], ["q"], then_branch=inner, else_branch=inner)
    make_m = helper.make_node("Neg", ["w"], ["m"])
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    outer = helper.make_graph([make_m, inner_if], "outer", [], [value("q", [2])], [weight])
    passed = helper.make_graph([], "passed", [], [value("h", [2])])
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("If", ["c"], ["y", ""], then_branch=outer, else_branch=passed),
    ]
    return model(nodes, [value("c", [], TensorProto.BOOL), value("x", [2])], [value("y", [2])])


def test_a_node_reads_what_its_bodies_capture_at_any_depth():
    graph = nested().graph
    branch = graph.node[1]
    assert free_names(branch) == {"c", "x", "h"}
    assert [body.name for body in subgraphs(branch)] == ["passed", "outer"]
    assert captured_names(subgraphs(branch)[0]) == {"h"}
    assert {name: [node.op_type for node in nodes] for name, nodes in consumers(graph).items()} == {
        "x": ["Relu", "If"],
        "h": ["If"],
        "c": ["If"],
    }


def test_walking_meets_every_node_and_tensor():
    program = nested()
    assert [node.op_type for node in walk_nodes(program.graph)].count("Add") == 4
    assert list(walk_model(program)) == list(walk_nodes(program.graph))
    assert [tensor.name for tensor in tensors(program)] == ["w"]
    assert set(producers(program.graph)) == {"h", "y"}


def test_order_is_kept_where_it_holds_and_found_where_it_does_not():
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(200)]
    assert topological(nodes, {"v0"}) == nodes
    shuffled = random.Random(0).sample(nodes, len(nodes))
    assert topological(shuffled, {"v0"}) == nodes
    assert topological(nodes, set()) is None
    graph = nested().graph
    assert topological(list(graph.node)[::-1], outer_names(graph)) == list(graph.node)
    assert topological(list(graph.node)[1:], outer_names(graph)) is None


def test_a_cycle_has_no_order():
    graph = cyclic().graph
    assert topological(graph.node, outer_names(graph)) is None
