"""Models that stand for far more work than their bytes: nobody gets to their end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

OPSET = helper.make_opsetid("", 17)
OWN = helper.make_opsetid("own", 1)


def value(name: str, dims: Sequence[int | str] = (2,), kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(dims))


def whole(nodes: list[NodeProto], constants: Sequence[TensorProto] = (), **parts: object) -> ModelProto:
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y", ("n",))], list(constants))
    return helper.make_model(graph, opset_imports=[OPSET, OWN], ir_version=8, **parts)


def doubling_functions(depth: int = 18, calls: int = 2) -> ModelProto:
    """Each function calls the one before it so often: twice gives 2^18 nodes written out."""
    functions = []
    names = ["a", *(f"t{at}" for at in range(1, calls)), "c"]
    for at in range(depth):
        called, domain = ("Neg", "") if not at else (f"f{at - 1}", "own")
        nodes = [helper.make_node(called, [one], [two], domain=domain) for one, two in pairwise(names)]
        functions.append(helper.make_function("own", f"f{at}", ["a"], ["c"], nodes, [OPSET, OWN]))
    call = helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="own")
    return whole([call], functions=functions)


def endless_loop(rounds: str = "constant") -> ModelProto:
    """A Loop of 2^62 rounds, or of as many as that name says."""
    scalars = [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("v")]
    nodes = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["v"], ["w"])]
    body = helper.make_graph(nodes, "body", scalars, [value("d", (), TensorProto.BOOL), value("w")])
    constants = [
        helper.make_tensor("constant", TensorProto.INT64, [], [1 << 62]),
        helper.make_tensor("go", TensorProto.BOOL, [], [True]),
    ]
    return whole([helper.make_node("Loop", [rounds, "go", "x"], ["y"], body=body)], constants)


def doubling_shapes(times: int = 26) -> ModelProto:
    """A shape of 2^26 numbers, which inference follows one by one."""
    nodes = [helper.make_node("Shape", ["x"], ["s0"])]
    for at in range(times):
        nodes.append(helper.make_node("Concat", [f"s{at}", f"s{at}"], [f"s{at + 1}"], axis=0))
    nodes.append(helper.make_node("Expand", ["x", f"s{times}"], ["e"]))
    nodes.append(helper.make_node("Neg", ["x"], ["y"]))
    return whole(nodes)


def many_nodes(count: int = 200_000) -> ModelProto:
    """One long chain."""
    names = ["x", *(f"v{at}" for at in range(count - 1)), "y"]
    return whole([helper.make_node("Neg", [one], [other]) for one, other in pairwise(names)])


ENDLESS: dict[str, Callable[[], ModelProto]] = {
    "functions that double": doubling_functions,
    "an endless loop": endless_loop,
    "shapes that double": doubling_shapes,
    "a long chain": many_nodes,
}
