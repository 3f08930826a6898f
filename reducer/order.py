"""What "smaller" means: one total order over subjects."""

from __future__ import annotations

import math
from typing import TypeAlias

import onnx

from corpus.onnx_graph import subgraphs, walk_nodes
from reducer.subject import Subject

Size: TypeAlias = tuple[int, ...]


def size(subject: Subject) -> Size:
    """The subject's place in the total order, smallest first.

    A person reads nodes, so fewer nodes come first, those of bodies and functions included; of two with as
    many nodes the one without a body or a function to look into. Then what the nodes still carry: elements
    that flow in, tensors in and out, attributes, and at last bytes. A tie is not smaller.
    """
    model = subject.model
    graph = model.graph
    nodes = sum(1 for _ in walk_nodes(graph))
    nodes += sum(len(function.node) for function in model.functions)
    scopes = len(model.functions) + sum(len(subgraphs(node)) for node in walk_nodes(graph))
    elements = sum(math.prod(tensor.dims) for tensor in graph.initializer)
    elements += sum(_elements(value) for value in subject.inputs.values())
    edges = len(graph.input) + len(graph.output) + len(graph.initializer)
    attributes = sum(len(node.attribute) for node in walk_nodes(graph))
    return (nodes, scopes, elements, edges, attributes, _bytes(model))


def _elements(value: object) -> int:
    if isinstance(value, list):
        return sum(_elements(member) for member in value) + len(value)
    return int(getattr(value, "size", 0))


def _bytes(model: onnx.ModelProto) -> int:
    return int(model.ByteSize())
