"""One node of a model changed, as a wrong optimiser changes it: kinds of which a result is hardly another.

`options` lists what a model allows, `apply` carries out a plan: a kind, a node's index, the count of nodes.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HALF, BRAIN, FLOAT = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT


class Graph:
    """A graph that is changed in place, and the types of its values."""

    def __init__(self, model: Any, types: Any = None) -> None:
        self.graph = model.graph
        self.weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self.makers = {name: node for node in model.graph.node for name in node.output}
        self.opset = next((each.version for each in model.opset_import if not each.domain), 1)
        self.types = _types(model) if types is None else types

    def value(self, name: str) -> Any:
        """A constant, or None."""
        if name in self.weights:
            return numpy_helper.to_array(self.weights[name])
        made = self.makers.get(name)
        found = [each for each in made.attribute if each.name == "value"] if made is not None else []
        return numpy_helper.to_array(found[0].t) if found and made.op_type == "Constant" else None

    def element(self, name: str) -> int:
        if name in self.weights:
            return int(self.weights[name].data_type)
        return int(self.types[name].elem_type) if name in self.types else 0

    def constant(self, value: Any) -> str:
        name = f"planted_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def before(self, node: Any, operator: str, *operands: str, **attributes: Any) -> str:
        """Insert a node before another one; the name of what it makes."""
        name = f"planted_v{len(self.graph.node)}"
        at = next(i for i, each in enumerate(self.graph.node) if each is node)
        domain = attributes.pop("domain", "")
        made = helper.make_node(operator, list(operands), [name], domain=domain, **attributes)
        self.graph.node.insert(at, made)
        self.wanted = at + 1
        return name

    def after(self, node: Any, operator: str, *more: str, **attributes: Any) -> Any:
        """Insert a node between a node's first result and its readers."""
        at = next(i for i, each in enumerate(self.graph.node) if each is node)
        name, raw = node.output[0], f"planted_v{len(self.graph.node)}"
        node.output[0] = raw
        made = helper.make_node(operator, [raw, *more], [name], **attributes)
        self.graph.node.insert(at + 1, made)
        return self.graph.node[at + 1]


def _types(model: Any) -> dict[str, Any]:
    with contextlib.suppress(onnx.shape_inference.InferenceError):
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    graph = model.graph
    return {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}


def attribute(node: Any, name: str, default: Any = None) -> Any:
    found = [each for each in node.attribute if each.name == name]
    return helper.get_attribute_value(found[0]) if found else default


def set_attribute(node: Any, name: str, value: Any) -> None:
    for each in [each for each in node.attribute if each.name == name]:
        node.attribute.remove(each)
    node.attribute.append(helper.make_attribute(name, value))


Change = Callable[[Graph, Any], bool]


# Wrong


def epsilon(graph: Graph, node: Any) -> bool:
    """An epsilon of a thousandth."""
    if attribute(node, "epsilon") is not None:
        set_attribute(node, "epsilon", 1e-3)
        return True
    for i, name in enumerate(node.input if node.op_type == "Add" else ()):
        value = graph.value(name)
        if value is not None and value.size == 1 and 0 < float(value.ravel()[0]) < 1e-4:
            node.input[i] = graph.constant(np.full(value.shape, 1e-3, value.dtype))
            return True
    return False


def narrow(graph: Graph, node: Any) -> bool:
    """A result goes through a shorter float."""
    element = graph.element(node.output[0])
    if element not in (HALF, FLOAT) or not node.input or node.op_type in ("Cast", "Constant"):
        return False
    cast = graph.after(node, "Cast", to=HALF if element == FLOAT else BRAIN)
    graph.after(cast, "Cast", to=element)
    return True


def reciprocal(graph: Graph, node: Any) -> bool:
    """A quotient by a reciprocal of few bits."""
    if node.op_type != "Div" or graph.element(node.output[0]) != FLOAT:
        return False
    half = graph.before(node, "Cast", node.input[1], to=HALF)
    node = graph.graph.node[graph.wanted]
    wide = graph.before(node, "Cast", half, to=FLOAT)
    graph.graph.node[graph.wanted].input[1] = wide
    return True


def scale(graph: Graph, node: Any) -> bool:
    """The scale of a neighbour."""
    if node.op_type not in ("DequantizeLinear", "QuantizeLinear"):
        return False
    own = graph.value(node.input[1])
    for other in graph.graph.node:
        if own is not None and other.op_type == node.op_type:
            value = graph.value(other.input[1])
            is_near = value is not None and value.shape == own.shape and value.dtype == own.dtype
            if is_near and not np.allclose(value.astype("f8"), own.astype("f8"), rtol=0.02, atol=0):
                node.input[1] = other.input[1]
                at = next(i for i, each in enumerate(graph.graph.node) if each is node)
                _hoist(graph, other.input[1], at)
                return True
    return False


def _hoist(graph: Graph, name: str, at: int) -> None:
    """Let a Constant stand before the node that reads it now."""
    value = graph.value(name)
    if name not in graph.weights:
        graph.graph.node[at].input[1] = graph.constant(value)


def zero_point(graph: Graph, node: Any) -> bool:
    """A zero point is dropped: zeros of its type."""
    if node.op_type not in ("DequantizeLinear", "QuantizeLinear") or len(node.input) < 3:
        return False
    value = graph.value(node.input[2])
    if value is None or not value.any():
        return False
    node.input[2] = graph.constant(np.zeros_like(value))
    return True


def factor(graph: Graph, node: Any) -> bool:
    """A constant factor is a hundredth greater."""
    for i, name in enumerate(node.input if node.op_type in ("Mul", "Div") else ()):
        value = graph.value(name)
        if (
            value is not None
            and value.size == 1
            and value.dtype in (np.float32, np.float16)
            and abs(value) < 1e4
        ):
            node.input[i] = graph.constant(value * value.dtype.type(1.01))
            return True
    return False


WRONG: dict[str, Change] = {
    change.__name__: change for change in (epsilon, narrow, reciprocal, scale, zero_point, factor)
}


FEW = 3
"""Nodes of a model that one kind of change is tried at."""


def options(model: Any) -> Iterator[tuple[str, int]]:
    """The kinds of changes and nodes that they fit: a few of each kind, drawn by the model's size."""
    types = Graph(model).types
    graph = _fresh(model, types)
    for kind, change in WRONG.items():
        places = [at for at, node in enumerate(model.graph.node) if node.op_type != "Constant"]
        random.Random(f"{kind}/{len(places)}").shuffle(places)
        few = 0
        for at in places:
            if few < FEW and change(graph, graph.graph.node[at]):
                few += 1
                graph = _fresh(model, types)
                yield kind, at


def _fresh(model: Any, types: Any) -> Graph:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return Graph(copy, types)


def apply(model: Any, plan: Any) -> None:
    if len(model.graph.node) == plan["nodes"]:
        WRONG[plan["kind"]](Graph(model), model.graph.node[plan["node"]])
