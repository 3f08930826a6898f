"""The canonical form of an ONNX model: blind to names, documentation and annotations."""

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TypeGuard

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, numpy_helper

from corpus.format import Measure
from corpus.onnx.graph import (
    function_key,
    initializer_names,
    rename,
    rename_graph,
    subgraphs,
    tensors,
    walk_all_graphs,
    walk_graphs,
    walk_model,
    walk_nodes,
)
from corpus.onnx.model_file import external_extent
from corpus.onnx.types import is_external, packed_bytes
from corpus.values import Value

_MODEL_DOCS = ("producer_name", "producer_version", "domain", "model_version", "doc_string", "metadata_props")
_GRAPH_DOCS = ("name", "doc_string", "metadata_props", "value_info")
_NODE_DOCS = ("name", "doc_string", "metadata_props", "device_configurations")


class _Numbering(dict[str, str]):
    """Names become `prefix0`, `prefix1`, … in order of first sight."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def __missing__(self, name: str) -> str:
        self[name] = f"{self._prefix}{len(self)}"
        return self[name]


def canonical(model: ModelProto) -> bytes:
    """The model's bytes with names replaced by positions and without documentation.

    The order of nodes, inputs and outputs counts; that of initializers, attributes and opsets does not.
    Weights in other files are known by the place of the file among those that the model uses.
    """
    form = deepcopy(model)
    _clear(form, _MODEL_DOCS)
    opsets = sorted(form.opset_import, key=lambda opset: (opset.domain, opset.version))
    del form.opset_import[:]
    form.opset_import.extend(opsets)
    for opset in form.opset_import:
        if not opset.domain:
            opset.ClearField("domain")  # said to be empty, or not said
    for node in walk_model(form):
        _canonise_node(node)
    _number_functions(form)
    _number_files(form)
    _canonise_graph(form.graph)
    serialised: bytes = form.SerializeToString(deterministic=True)
    return serialised


def _clear(message: ModelProto | GraphProto | NodeProto | FunctionProto, fields: tuple[str, ...]) -> None:
    for field in fields:
        if field in message.DESCRIPTOR.fields_by_name:
            message.ClearField(field)


def _canonise_node(node: NodeProto) -> None:
    _clear(node, _NODE_DOCS)
    attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
    del node.attribute[:]
    node.attribute.extend(attributes)
    for field in ("domain", "overload"):
        if not getattr(node, field):
            node.ClearField(field)  # said to be empty, or not said
    for attribute in node.attribute:
        attribute.ClearField("doc_string")
        if attribute.HasField("t"):
            attribute.t.ClearField("name")


def _canonise_graph(graph: GraphProto) -> None:
    names, dims = _Numbering("v"), _Numbering("d")
    for value in graph.input:
        names[value.name]
    for node in walk_nodes(graph):
        _see(node, names)
    rename_graph(graph, names.__getitem__)
    for inner in walk_graphs(graph):
        _clear(inner, _GRAPH_DOCS)
        initializers = sorted(inner.initializer, key=lambda tensor: tensor.name)
        del inner.initializer[:]
        inner.initializer.extend(initializers)
        for tensor in inner.initializer:
            tensor.ClearField("doc_string")
        for value in (*inner.input, *inner.output):
            value.ClearField("doc_string")
            _number_dims(value.type, dims)


def _see(node: NodeProto, names: _Numbering) -> None:
    for name in (*node.input, *node.output):
        if name:
            names[name]


def _number_dims(declared: TypeProto, dims: _Numbering) -> None:
    match declared.WhichOneof("value"):
        case "tensor_type":
            for dim in declared.tensor_type.shape.dim:
                dim.ClearField("denotation")
                if dim.dim_param:
                    dim.dim_param = dims[dim.dim_param]
        case "sequence_type":
            _number_dims(declared.sequence_type.elem_type, dims)
        case "optional_type":
            _number_dims(declared.optional_type.elem_type, dims)


def _number_functions(form: ModelProto) -> None:
    """Model-local functions by their place, and what calls them likewise."""
    places: dict[tuple[str, str, str], str] = {}
    for index, function in enumerate(form.functions):
        places[function.domain, function.name, function.overload] = f"f{index}"
        _canonise_function(function)
    for function in form.functions:
        function.name = places[function.domain, function.name, function.overload]
        function.ClearField("overload")
    for node in walk_model(form):
        place = places.get((node.domain, node.op_type, node.overload))
        if place is not None:
            node.op_type = place
            node.ClearField("overload")


def _canonise_function(function: FunctionProto) -> None:
    _clear(function, ("doc_string", "metadata_props", "value_info"))
    names = _Numbering("v")
    function.input[:] = [names[name] for name in function.input]
    for node in function.node:
        _see(node, names)
        for body in subgraphs(node):
            for inner in walk_graphs(body):
                _clear(inner, _GRAPH_DOCS)
        rename(node, names.__getitem__)
    function.output[:] = [names[name] for name in function.output]


def _number_files(form: ModelProto) -> None:
    files = _Numbering("file")
    for tensor in tensors(form):
        for entry in tensor.external_data if is_external(tensor) else ():
            if entry.key == "location":
                entry.value = files[entry.value]


def measure(model: ModelProto) -> Measure:
    """Nodes of the main graph and its bodies (Constant included), bytes, weights, inputs and outputs."""
    ops = tuple(op_name(node) for node in walk_nodes(model.graph))
    defaults = initializer_names(model.graph)
    return Measure(
        nodes=len(ops),
        function_nodes=sum(_count(function.node) for function in model.functions),
        bytes=model.ByteSize(),
        initializer_bytes=sum(_weight_bytes(tensor) for tensor in tensors(model)),
        inputs=sum(value.name not in defaults for value in model.graph.input),
        outputs=len(model.graph.output),
        ops=ops,
    )


def op_name(node: NodeProto) -> str:
    """`Relu`, or `com.microsoft:Gelu` outside the standard domain."""
    return f"{node.domain}:{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _count(nodes: Iterable[NodeProto]) -> int:
    nodes = list(nodes)
    return len(nodes) + sum(1 for node in nodes for body in subgraphs(node) for _ in walk_nodes(body))


def _weight_bytes(tensor: TensorProto) -> int:
    if is_external(tensor):
        return external_extent(tensor)[1] or 0
    size = packed_bytes(tensor.data_type, tensor.dims)
    return sum(map(len, tensor.string_data)) if size is None else size


Key = tuple[str, str, str]


def steps(model: ModelProto, inputs: Mapping[str, Value]) -> float:
    """An upper bound on the nodes that run; infinite if neither model nor inputs say a loop's rounds.

    A Scan is taken to go through the longest dim of all inputs and weights.
    """
    return _Counter(model, inputs).of(model.graph.node)


class _Counter:
    """Counts each function once."""

    def __init__(self, model: ModelProto, inputs: Mapping[str, Value]) -> None:
        self._bodies = {function_key(function): function.node for function in model.functions}
        self._counts: dict[Key, float] = {}
        self._rounds = _scalars(model, inputs)
        dims = [dim for tensor in model.graph.initializer for dim in tensor.dims]
        dims += [dim for value in inputs.values() for dim in np.shape(value)]  # type: ignore[arg-type]
        self._longest = max(dims, default=1)

    def of(self, nodes: Iterable[NodeProto]) -> float:
        """The steps of a row of nodes."""
        return sum(self._of_node(node) for node in nodes)

    def _of_node(self, node: NodeProto) -> float:
        key = function_key(node)
        if key in self._bodies and key not in self._counts:
            self._counts[key] = math.inf  # for one that calls itself
            self._counts[key] = self.of(self._bodies[key])
        inner = sum(self.of(body.node) for body in subgraphs(node))
        return 1 + self._counts.get(key, 0) + (inner * self._rounds_of(node) if inner else 0)

    def _rounds_of(self, node: NodeProto) -> float:
        if node.op_type == "Loop":
            return self._rounds.get(node.input[0], math.inf) if node.input else math.inf
        return self._longest if node.op_type == "Scan" else 1


def _scalars(model: ModelProto, inputs: Mapping[str, Value]) -> dict[str, float]:
    """The integers that may say how often a loop runs, by name; of one name the largest."""
    tensors = [(tensor.name, tensor) for graph in walk_all_graphs(model) for tensor in graph.initializer]
    for node in walk_model(model):
        if node.op_type == "Constant" and node.output:
            tensors += [(node.output[0], each.t) for each in node.attribute if each.name == "value"]
    found = [(name, number) for name, tensor in tensors if (number := _scalar(tensor)) is not None]
    found += [(name, int(value.flat[0])) for name, value in inputs.items() if _is_round_count(value)]
    return {name: float(number) for name, number in sorted(found)}


def _scalar(tensor: TensorProto) -> int | None:
    if tensor.data_type != TensorProto.INT64 or math.prod(tensor.dims) != 1:
        return None
    if tensor.data_location == TensorProto.EXTERNAL:
        return None
    return int(numpy_helper.to_array(tensor).ravel()[0])


def _is_round_count(value: Value) -> TypeGuard[np.ndarray]:
    return isinstance(value, np.ndarray) and value.dtype == np.int64 and value.size == 1
