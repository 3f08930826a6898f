"""Types and shapes of an ONNX model's values, inferred without touching its weights.

onnx's inference and checker are given a light copy of the model: large and external initializers become
inputs of the same type (their values never decide a shape), value_info and documentation are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from corpus.onnx.client import infer_types
from corpus.onnx.graph import subgraphs, walk_graphs
from corpus.onnx.types import memory_bytes, packed_bytes

SMALL_BYTES = 4096
"""Initializers up to this size keep their values: shapes, axes and the like."""

_LONGEST_SHAPE = 1 << 16
_FILL_BYTES = 16 << 20


def is_external(tensor: TensorProto) -> bool:
    """Whether the values lie in a file beside the model."""
    return tensor.data_location == TensorProto.EXTERNAL


def is_light(tensor: TensorProto) -> bool:
    """Whether a tensor is small and inline, so that it may be copied freely.

    By its dims: to ask protobuf for the size of a message is to serialise it.
    """
    return not is_external(tensor) and memory_bytes(tensor.data_type, tensor.dims) <= SMALL_BYTES


def tensor_type(tensor: TensorProto) -> TypeProto:
    """The type of an initializer."""
    made = TypeProto()
    made.tensor_type.elem_type = tensor.data_type
    made.tensor_type.shape.SetInParent()
    for dim in tensor.dims:
        made.tensor_type.shape.dim.add().dim_value = dim
    return made


def light_copy(model: ModelProto) -> ModelProto:
    """The model with its structure and small constants only; value_info and documentation left out."""
    light = ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph, source = light.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.sparse_initializer.extend(source.sparse_initializer)
    inputs = {value.name for value in source.input}
    for tensor in source.initializer:
        if is_light(tensor):
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(ValueInfoProto(name=tensor.name, type=tensor_type(tensor)))
    _fill_nested(graph.node)
    return light


def _fill_nested(nodes: Iterable[NodeProto]) -> None:
    """Give external tensors of bodies zeros of their own: a body has no inputs to move them to."""
    for node in nodes:
        for body in subgraphs(node):
            for graph in walk_graphs(body):
                for tensor in graph.initializer:
                    size = packed_bytes(tensor.data_type, tensor.dims)
                    if is_external(tensor) and size is not None and size <= _FILL_BYTES:
                        tensor.ClearField("external_data")
                        tensor.ClearField("data_location")
                        tensor.raw_data = bytes(size)


def infer(light: ModelProto) -> ModelProto:
    """The light copy with every type that inference finds; as it was where inference gives up."""
    answer = infer_types(light.SerializeToString(), propagates_well(light))
    return light if answer is None else ModelProto.FromString(answer)


def propagates_well(light: ModelProto) -> bool:
    """Whether data may be propagated: onnx takes every vector for a shape and follows each element."""
    shapes = [value.type.tensor_type.shape.dim for value in light.graph.input]
    return all(len(dims) != 1 or dims[0].dim_value <= _LONGEST_SHAPE for dims in shapes)


def untyped_copy(model: ModelProto) -> ModelProto:
    """Copy the model without its type annotations, except those of inputs, at every depth."""
    light = light_copy(model)
    names = [value.name for value in light.graph.output]
    del light.graph.output[:]
    light.graph.output.extend(ValueInfoProto(name=name) for name in names)
    for node in light.graph.node:
        for body in subgraphs(node):
            for graph in walk_graphs(body):
                del graph.value_info[:]
    return light


def inferred_types(model: ModelProto) -> dict[str, TypeProto]:
    """The type of every value of the main graph that inference can tell, annotations disregarded."""
    return graph_types(infer(untyped_copy(model)).graph)


def graph_types(graph: GraphProto) -> dict[str, TypeProto]:
    """Map each name of a graph to its type: initializers, inputs, value_info and outputs."""
    types = {tensor.name: tensor_type(tensor) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if is_typed(value.type):
            types.setdefault(value.name, value.type)
    return types


def is_typed(declared: TypeProto) -> bool:
    """Whether the type says at least what an element is."""
    match declared.WhichOneof("value"):
        case None:
            return False
        case "tensor_type":
            return declared.tensor_type.elem_type != TensorProto.UNDEFINED
        case "sparse_tensor_type":
            return declared.sparse_tensor_type.elem_type != TensorProto.UNDEFINED
        case "sequence_type":
            return is_typed(declared.sequence_type.elem_type)
        case "optional_type":
            return is_typed(declared.optional_type.elem_type)
        case _:
            return True
