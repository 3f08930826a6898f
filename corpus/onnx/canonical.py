"""The canonical form of an ONNX model: blind to names, documentation and annotations."""

from __future__ import annotations

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto

from corpus.onnx.graph import rename, rename_graph, subgraphs, tensors, walk_graphs, walk_model, walk_nodes
from corpus.onnx.types import is_external

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
    form = ModelProto()
    form.CopyFrom(model)
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
