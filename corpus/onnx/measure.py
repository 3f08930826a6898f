"""The size of an ONNX model, as it is reported."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import ModelProto, NodeProto, TensorProto

from corpus.measure import Measure
from corpus.onnx.graph import initializer_names, subgraphs, tensors, walk_nodes
from corpus.onnx.infer import is_external
from corpus.onnx.types import packed_bytes
from corpus.onnx.weights import external_extent


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
