"""Cores: a few connected nodes that a fault needs all of, drawn from a model, and sought in a candidate.

The file is copied into an interpreter of its own, so it imports nothing of crux.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Core = Mapping[str, Any]
"""The `ops` of its nodes, producers first, and `edges`: producer, its result, reader, its operand."""

DULL = {"Constant", "Shape", "Identity", "Cast"}


def draw(model: Any, count: int, seed: object) -> Iterator[Core]:
    """Cores of so many nodes that all lead to the last one, drawn anew without end."""
    rng = random.Random(repr(seed))
    nodes = [node for node in model.graph.node if node.op_type not in DULL]
    makers = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    while True:
        chosen = {rng.randrange(len(nodes))}
        while len(chosen) < count:
            above = {makers[name] for at in chosen for name in nodes[at].input if name in makers} - chosen
            if not above:
                break
            chosen.add(rng.choice(sorted(above)))
        if len(chosen) == count:
            yield _core([nodes[at] for at in sorted(chosen)])


def _core(nodes: Sequence[Any]) -> Core:
    made = {name: (at, out) for at, node in enumerate(nodes) for out, name in enumerate(node.output) if name}
    edges = [
        [*made[name], at, slot]
        for at, node in enumerate(nodes)
        for slot, name in enumerate(node.input)
        if name in made
    ]
    return {"ops": [node.op_type for node in nodes], "edges": edges}


def matches(model: Any, core: Core) -> Iterator[Sequence[Any]]:
    """The nodes of each place where the core stands, in the core's order."""
    nodes = list(model.graph.node)
    makers = {
        name: (at, out) for at, node in enumerate(nodes) for out, name in enumerate(node.output) if name
    }
    for last, node in enumerate(nodes):
        if node.op_type == core["ops"][-1]:
            found = _placed(nodes, makers, core, last)
            if found is not None:
                yield [nodes[at] for at in found]


def _placed(nodes: Sequence[Any], makers: Mapping[str, Any], core: Core, last: int) -> list[int] | None:
    """Every node but the last is found from one that reads it, so there is no choice."""
    places: dict[int, int] = {len(core["ops"]) - 1: last}
    for producer, result, reader, operand in sorted(core["edges"], key=lambda edge: -edge[2]):
        node = nodes[places[reader]]
        name = node.input[operand] if operand < len(node.input) else ""
        at, out = makers.get(name, (-1, -1))
        if (
            out != result
            or nodes[at].op_type != core["ops"][producer]
            or places.setdefault(producer, at) != at
        ):
            return None
    found = [places[each] for each in range(len(core["ops"]))]
    return found if len(set(found)) == len(found) else None


def apply(model: Any, core: Core) -> None:
    """Every core gives three times what it should."""
    graph = model.graph
    inferred = onnx.shape_inference.infer_shapes(model).graph
    types = {info.name: info.type.tensor_type.elem_type for info in (*inferred.value_info, *inferred.output)}
    for at, node in enumerate([found[-1] for found in matches(model, core)]):
        name, right = node.output[0], f"right_{at}"
        kind = helper.tensor_dtype_to_np_dtype(types.get(name) or onnx.TensorProto.FLOAT)
        graph.initializer.append(numpy_helper.from_array(np.array(3, kind), f"three_{at}"))
        node.output[0] = right
        place = next(place for place, each in enumerate(graph.node) if each is node or right in each.output)
        graph.node.insert(place + 1, helper.make_node("Mul", [right, f"three_{at}"], [name]))
