"""Walking graphs: bodies, captures, order."""

from __future__ import annotations

import random

import onnx
from onnx import TensorProto, helper

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
from tests.corpus.models import cyclic, model, value


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


def test_a_node_reads_what_its_bodies_capture_at_any_depth() -> None:
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


def test_walking_meets_every_node_and_tensor() -> None:
    program = nested()
    assert [node.op_type for node in walk_nodes(program.graph)].count("Add") == 4
    assert list(walk_model(program)) == list(walk_nodes(program.graph))
    assert [tensor.name for tensor in tensors(program)] == ["w"]
    assert set(producers(program.graph)) == {"h", "y"}


def test_order_is_kept_where_it_holds_and_found_where_it_does_not() -> None:
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(200)]
    assert topological(nodes, {"v0"}) == nodes
    shuffled = random.Random(0).sample(nodes, len(nodes))
    assert topological(shuffled, {"v0"}) == nodes
    assert topological(nodes, set()) is None
    graph = nested().graph
    assert topological(list(graph.node)[::-1], outer_names(graph)) == list(graph.node)
    assert topological(list(graph.node)[1:], outer_names(graph)) is None


def test_a_cycle_has_no_order() -> None:
    graph = cyclic().graph
    assert topological(graph.node, outer_names(graph)) is None
