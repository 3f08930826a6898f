"""Walking an ONNX graph: nested bodies, captured names, order, producers and consumers.

A *body* is a graph held by a node's attribute (If, Loop, Scan). An empty name stands for an omitted optional
input or output and is never reported.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.checker import ValidationError
from onnx.inliner import inline_local_functions


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The bodies of a node, in the order of its attributes; not those nested deeper."""
    bodies: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            bodies.append(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            bodies.extend(attribute.graphs)
    return bodies


def walk_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield every node of the graph and of its bodies at any depth, an outer node before its inner ones."""
    for node in graph.node:
        yield node
        for body in subgraphs(node):
            yield from walk_nodes(body)


def walk_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield the graph itself and every body at any depth."""
    yield graph
    for node in graph.node:
        for body in subgraphs(node):
            yield from walk_graphs(body)


def walk_model(model: onnx.ModelProto) -> Iterator[NodeProto]:
    """Yield every node of the main graph, of the functions' bodies, and of the bodies in them."""
    yield from walk_nodes(model.graph)
    for function in model.functions:
        yield from walk_function(function)


def walk_function(function: FunctionProto) -> Iterator[NodeProto]:
    """Yield every node of a function's body and of the bodies in it."""
    for node in function.node:
        yield node
        for body in subgraphs(node):
            yield from walk_nodes(body)


def function_key(item: FunctionProto | NodeProto) -> tuple[str, str, str]:
    """The key by which a node calls a function: domain, name, overload."""
    name = item.name if isinstance(item, FunctionProto) else item.op_type
    return item.domain, name, item.overload


def walk_all_graphs(model: onnx.ModelProto) -> Iterator[GraphProto]:
    """Yield the main graph and every body at any depth, those in functions included."""
    yield from walk_graphs(model.graph)
    for function in model.functions:
        for node in function.node:
            for body in subgraphs(node):
                yield from walk_graphs(body)


def initializer_names(graph: GraphProto) -> set[str]:
    """The names of the graph's weights, dense and sparse."""
    sparse = (tensor.values.name for tensor in graph.sparse_initializer)
    return {tensor.name for tensor in graph.initializer}.union(sparse)


def defined_names(graph: GraphProto) -> set[str]:
    """Names that the graph itself gives a value: inputs, initializers, outputs of its own nodes."""
    names = initializer_names(graph).union(value.name for value in graph.input)
    for node in graph.node:
        names.update(node.output)
    names.discard("")
    return names


def captured_names(body: GraphProto) -> set[str]:
    """Names that a body reads from outside; a body's output may be an outer value as well."""
    read = {value.name for value in body.output}
    for node in body.node:
        read |= free_names(node)
    read.discard("")
    return read - defined_names(body)


def free_names(node: NodeProto) -> set[str]:
    """Names that a node reads: its own inputs and what its bodies capture."""
    names = set(node.input)
    for body in subgraphs(node):
        names |= captured_names(body)
    names.discard("")
    return names


def producers(graph: GraphProto) -> dict[str, NodeProto]:
    """The node that computes each name, of this graph only."""
    return {name: node for node in graph.node for name in node.output if name}


def consumers(graph: GraphProto) -> dict[str, list[NodeProto]]:
    """The nodes that read each name, through their bodies too; in graph order, each once a name."""
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in sorted(free_names(node)):
            readers.setdefault(name, []).append(node)
    return readers


def topological(nodes: Sequence[NodeProto], known: Iterable[str]) -> list[NodeProto] | None:
    """Sort the nodes so that each reads only names that are already known.

    None for a cycle or a missing name.

    `known` holds the names that need no node: inputs, initializers, values of an outer graph. Stable: nodes
    that are in order already stay where they are.
    """
    given = set(known)
    waiting: dict[str, list[int]] = {}
    missing: list[int] = []
    for index, node in enumerate(nodes):
        needs = free_names(node) - given
        missing.append(len(needs))
        for name in needs:
            waiting.setdefault(name, []).append(index)
    ready = [index for index, count in enumerate(missing) if not count]
    ordered: list[NodeProto] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for name in node.output:
            for index in waiting.pop(name, ()):
                missing[index] -= 1
                if not missing[index]:
                    heapq.heappush(ready, index)
    return ordered if len(ordered) == len(nodes) else None


def outer_names(graph: GraphProto) -> set[str]:
    """The names that a main graph's nodes may read without a producer: inputs and initializers."""
    return initializer_names(graph).union(value.name for value in graph.input)


def tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Every tensor that the model holds: initializers and attributes, at any depth, functions included."""
    for graph in walk_all_graphs(model):
        yield from _initializers(graph)
    for node in walk_model(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == AttributeProto.TENSORS:
                yield from attribute.tensors
            elif attribute.type == AttributeProto.SPARSE_TENSOR:
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)


def body_weights(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield the initializers of all graphs within one, its own left out."""
    for inner in islice(walk_graphs(graph), 1, None):
        yield from inner.initializer


def _initializers(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)


def rename(node: NodeProto, new_name: Callable[[str], str]) -> None:
    """Rename what a node and its bodies read and define, in place; the empty name stays."""
    node.input[:] = [name and new_name(name) for name in node.input]
    node.output[:] = [name and new_name(name) for name in node.output]
    for body in subgraphs(node):
        rename_graph(body, new_name)


def rename_graph(graph: GraphProto, new_name: Callable[[str], str]) -> None:
    """Rename every value of a graph and of its bodies, in place."""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = new_name(value.name) if value.name else ""
    for sparse in graph.sparse_initializer:
        sparse.values.name = new_name(sparse.values.name)
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = new_name(annotation.tensor_name)
    for node in graph.node:
        rename(node, new_name)


def written_out(model: ModelProto) -> ModelProto:
    """The model without functions of its own; what its inner values are called is left open.

    onnx's own inliner takes a hundredth of the time that `onnx_ir` takes to load; what it leaves is for that.
    Raises `ValueError` where functions call themselves.
    """
    try:
        made = inline_local_functions(model)
    except ValidationError as error:
        raise ValueError(str(error)) from None
    del made.graph.value_info[:]
    return inlined(model) if made.functions else made


def without_functions(model: ModelProto) -> ModelProto:
    """The model with its functions written out, or as it is without any, or with endless ones."""
    try:
        return written_out(model) if model.functions else model
    except ValueError:
        return model


def inlined(model: ModelProto, only: tuple[str, str] | None = None) -> ModelProto:
    """The model without functions of its own, or without the one of that domain and name.

    Types of inner values are left out. Raises `ValueError` where functions call themselves.
    """
    from onnx_ir import from_proto, to_proto
    from onnx_ir.passes import PreconditionError
    from onnx_ir.passes.common import InlinePass

    write_out = InlinePass(lambda each: only is None or (each.domain, each.name) == only)
    try:
        made = to_proto(write_out(from_proto(model)).model)
    except PreconditionError as error:
        raise ValueError(str(error)) from None
    del made.graph.value_info[:]
    return made
