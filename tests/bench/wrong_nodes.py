"""One node of a model changed, as a wrong optimiser changes it.

`options` lists what a model allows, `apply` carries out a plan: a kind, a node's index, the count of nodes.
The file is copied into an interpreter of its own, so it imports nothing of crux.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HALF, BRAIN, FLOAT = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT
SHIFTED = {"Softmax": -1, "LogSoftmax": -1, "LayerNormalization": -1, "Concat": 0, "Gather": 0, "CumSum": 0}


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

    def dims(self, name: str) -> list[int] | None:
        if name in self.weights:
            return list(self.weights[name].dims)
        declared = self.types.get(name)
        if declared is None or not declared.HasField("shape"):
            return None
        return [each.dim_value or -1 for each in declared.shape.dim]

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


def axis(graph: Graph, node: Any) -> bool:
    """Another axis of the same extent."""
    dims = graph.dims(node.input[0]) if node.op_type in SHIFTED else None
    if not dims or len(dims) < 2:
        return False
    at = attribute(node, "axis", SHIFTED[node.op_type]) % len(dims)
    others = [i for i, each in enumerate(dims) if i != at and each == dims[at] and each != 1]
    if not others or node.op_type in ("LayerNormalization", "CumSum", "Concat"):
        return False
    set_attribute(node, "axis", others[0])
    return True


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


def half_sums(graph: Graph, node: Any) -> bool:
    """A product is computed in half precision."""
    if node.op_type not in ("MatMul", "Gemm", "Conv") or graph.element(node.output[0]) != FLOAT:
        return False
    for i, name in enumerate(list(node.input)):
        if name:
            node.input[i] = graph.before(node, "Cast", name, to=HALF)
            node = graph.graph.node[graph.wanted]
    graph.after(node, "Cast", to=FLOAT)
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


def channels(graph: Graph, node: Any) -> bool:
    """The scales of channels, one further on."""
    place = {"DequantizeLinear": 1, "BatchNormalization": 1, "LayerNormalization": 1}.get(node.op_type)
    value = graph.value(node.input[place]) if place else None
    if value is None or value.size < 2 or (value == value.ravel()[0]).all():
        return False
    node.input[place] = graph.constant(np.roll(value, 1))
    return True


def bound(graph: Graph, node: Any) -> bool:
    """A bound moves by a twentieth."""
    for i in (2, 1) if node.op_type == "Clip" else ():
        value = graph.value(node.input[i]) if i < len(node.input) and node.input[i] else None
        if value is not None and value.dtype.kind == "f" and np.isfinite(value).all() and value.any():
            node.input[i] = graph.constant((value * 0.95).astype(value.dtype))
            return True
    if node.op_type in ("HardSigmoid", "Elu", "LeakyRelu"):
        usual = {"HardSigmoid": 0.2, "Elu": 1.0, "LeakyRelu": 0.01}[node.op_type]
        set_attribute(node, "alpha", attribute(node, "alpha", usual) * 0.95)
        return True
    return False


def mask(graph: Graph, node: Any) -> bool:
    """A mask is one place off."""
    place = {"Where": 0, "Trilu": 0}.get(node.op_type)
    readers = [each for each in graph.graph.node if node.output[0] in each.input]
    if node.op_type == "Add" and any(each.op_type == "Softmax" for each in readers):
        place = 1
    dims = graph.dims(node.input[place]) if place is not None else None
    if not dims or dims[-1] in (-1, 0, 1):
        return False
    last = np.array([-1], np.int64)
    head, tail = graph.constant(np.array([1], np.int64)), graph.constant(last)
    zero, end = graph.constant(np.array([0], np.int64)), graph.constant(np.array([2**31], np.int64))
    name = node.input[place]
    right = graph.before(node, "Slice", name, head, end, tail)
    node = graph.graph.node[graph.wanted]
    left = graph.before(node, "Slice", name, zero, head, tail)
    node = graph.graph.node[graph.wanted]
    rolled = graph.before(node, "Concat", right, left, axis=-1)
    graph.graph.node[graph.wanted].input[place] = rolled
    return True


def order(graph: Graph, node: Any) -> bool:
    """The parts of a Concat in the other order."""
    if node.op_type != "Concat" or graph.element(node.output[0]) not in (FLOAT, HALF, BRAIN):
        return False
    first, *_, last = node.input
    dims = graph.dims(first), graph.dims(last)
    if first == last or dims[0] is None or dims[1] is None:
        return False
    names = list(reversed(node.input))
    del node.input[:]
    node.input.extend(names)
    return True


def pads(graph: Graph, node: Any) -> bool:
    """One row of padding goes to the other end."""
    amounts = attribute(node, "pads")
    if node.op_type in ("Conv", "MaxPool", "AveragePool", "ConvTranspose") and amounts and any(amounts):
        amounts = list(amounts)
        half = len(amounts) // 2
        at = next(i for i, each in enumerate(amounts) if each)
        amounts[at] -= 1
        amounts[(at + half) % len(amounts)] += 1
        set_attribute(node, "pads", amounts)
        return True
    if node.op_type == "Pad" and attribute(node, "mode", b"constant") == b"constant":
        value = graph.value(node.input[1])
        if value is not None and value.any() and not (value < 0).any():
            moved = np.roll(value, value.size // 2)
            if (moved != value).any():
                node.input[1] = graph.constant(moved)
                return True
        set_attribute(node, "mode", "edge")
        return value is not None and bool(value.any())
    return False


def resize(graph: Graph, node: Any) -> bool:
    """Another rule for where a pixel comes from."""
    if node.op_type != "Resize":
        return False
    now = attribute(node, "coordinate_transformation_mode", b"half_pixel")
    set_attribute(
        node, "coordinate_transformation_mode", "asymmetric" if now != b"asymmetric" else "half_pixel"
    )
    if attribute(node, "mode", b"nearest") == b"nearest":
        set_attribute(node, "nearest_mode", "ceil")
    return True


def last(graph: Graph, node: Any) -> bool:
    """The last but one is taken for the last, the second for the first."""
    if node.op_type != "Gather":
        return False
    value, dims = graph.value(node.input[1]), graph.dims(node.input[0])
    is_data = graph.element(node.output[0]) in (FLOAT, HALF, BRAIN)
    if value is None or value.size != 1 or not dims or not is_data:
        return False
    at = dims[attribute(node, "axis", 0)]
    if at in (0, 1, -1):
        return False
    node.input[1] = graph.constant((value + (1 if int(value.ravel()[0]) >= 0 else -1)) % at)
    return True


def bias(graph: Graph, node: Any) -> bool:
    """A bias is added twice."""
    place = {"Conv": 2, "Gemm": 2, "LayerNormalization": 2, "ConvTranspose": 2}.get(node.op_type, 9)
    value = graph.value(node.input[place]) if len(node.input) > place else None
    if value is None or not value.any():
        return False
    node.input[place] = graph.constant(value * value.dtype.type(2))
    return True


def gates(graph: Graph, node: Any) -> bool:
    """Two gates of a recurrent cell change places."""
    count = {"LSTM": 4, "GRU": 3}.get(node.op_type)
    value = graph.value(node.input[1]) if count else None
    if value is None:
        return False
    parts = np.split(value, count, axis=1)
    node.input[1] = graph.constant(np.concatenate([parts[1], parts[0], *parts[2:]], axis=1))
    return True


def threshold(graph: Graph, node: Any) -> bool:
    """A threshold or a comparison is another."""
    other = {"Greater": "GreaterOrEqual", "Less": "LessOrEqual"}.get(node.op_type)
    value = (
        graph.value(node.input[3]) if node.op_type == "NonMaxSuppression" and len(node.input) > 3 else None
    )
    if value is not None:
        node.input[3] = graph.constant((value * 0.5).astype(value.dtype))
        return True
    if other:
        node.op_type = other
    return bool(other)


def transposed(graph: Graph, node: Any) -> bool:
    """A weight that is square is read the other way."""
    value = graph.value(node.input[1]) if node.op_type in ("MatMul", "Gemm") else None
    if value is None or value.ndim != 2 or value.shape[0] != value.shape[1]:
        return False
    node.input[1] = graph.constant(np.ascontiguousarray(value.T))
    return True


def permuted(graph: Graph, node: Any) -> bool:
    """Two axes of one extent change places."""
    dims = graph.dims(node.output[0]) if node.op_type == "Transpose" else None
    pairs = [(i, j) for j in range(len(dims or ())) for i in range(j) if dims[i] == dims[j] > 1]  # type: ignore[index]
    if not pairs:
        return False
    perm, (i, j) = list(attribute(node, "perm", range(len(dims))[::-1])), pairs[0]  # type: ignore[arg-type]
    perm[i], perm[j] = perm[j], perm[i]
    set_attribute(node, "perm", perm)
    return True


def start(graph: Graph, node: Any) -> bool:
    """A part begins one place off, and ends one place off."""
    given = [graph.value(name) for name in node.input[1:3]] if node.op_type == "Slice" else []
    if len(given) < 2 or any(each is None or each.size != 1 for each in given):
        return False
    low, high = (int(each.ravel()[0]) for each in given)
    by = -1 if low > 0 else 1
    if low < 0 or (by == 1 and not 0 < high < 2**20):
        return False
    for i, each in enumerate(given):
        if 0 < abs(int(each.ravel()[0]) + by) < 2**20:
            node.input[i + 1] = graph.constant(each + by)
    return True


def rounded(graph: Graph, node: Any) -> bool:
    """It rounds another way."""
    other = {"Round": "Floor", "Floor": "Round", "Ceil": "Round"}.get(node.op_type)
    is_cut = node.op_type == "Cast" and graph.element(node.input[0]) == FLOAT
    if is_cut and attribute(node, "to") in (TensorProto.INT32, TensorProto.INT64):
        node.input[0] = graph.before(node, "Ceil", node.input[0])
        return True
    if other:
        node.op_type = other
    return bool(other)


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


def stale(graph: Graph, node: Any) -> bool:
    """A sum takes an earlier tensor of the same shape."""
    dims = graph.dims(node.output[0]) if node.op_type == "Add" else None
    if not dims or any(graph.dims(name) != dims for name in node.input):
        return False
    for other in graph.graph.node:
        name = other.output[0]
        if other is node:
            return False
        same = graph.dims(name) == dims and graph.element(name) == graph.element(node.output[0])
        if same and name not in node.input and other.op_type not in ("Constant", "Identity"):
            node.input[1] = name
            return True
    return False


WRONG: dict[str, Change] = {
    change.__name__: change
    for change in (
        axis, epsilon, narrow, half_sums, reciprocal, scale, zero_point, channels, bound, mask, order, pads,
        resize, last, bias, gates, threshold, transposed, permuted, start, rounded, factor, stale,
    )
}  # fmt: skip


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
    if "core" in plan:
        import cores  # it stands beside this file in an interpreter of its own

        cores.apply(model, plan["core"])
    elif len(model.graph.node) == plan["nodes"]:
        WRONG[plan["kind"]](Graph(model), model.graph.node[plan["node"]])


def install() -> None:
    """Give optimised sessions of onnxruntime the planned fault."""
    from onnxruntime.capi import _pybind_state
    from onnxruntime.capi import onnxruntime_pybind11_state as core
    from wrong_optimiser_plan import PATH

    base = core.InferenceSession

    class InferenceSession(base):  # type: ignore[misc, valid-type]
        def __init__(self, options: Any, model: Any, is_path: bool = False, *rest: Any) -> None:
            is_plain = options.graph_optimization_level == core.GraphOptimizationLevel.ORT_DISABLE_ALL
            plan = None if is_plain else json.loads(Path(PATH).read_text())
            if plan:
                loaded = onnx.load(model) if is_path else onnx.load_from_string(bytes(model))
                apply(loaded, plan)
                model, is_path = loaded.SerializeToString(), False
            super().__init__(options, model, is_path, *rest)

    core.InferenceSession = _pybind_state.InferenceSession = InferenceSession
