"""The size of an ONNX model, as it is reported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeGuard

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from corpus.format import Measure
from corpus.onnx.graph import (
    function_key,
    initializer_names,
    subgraphs,
    tensors,
    walk_all_graphs,
    walk_model,
    walk_nodes,
)
from corpus.onnx.model_file import external_extent
from corpus.onnx.types import is_external, packed_bytes
from corpus.values import Value


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
