"""The place of an ONNX model in the total order."""

from __future__ import annotations

import math
from collections.abc import Mapping

from onnx import NodeProto

from corpus.onnx.graph import body_weights, subgraphs, walk_model, walk_nodes
from reducer.subject.base import Size
from reducer.subject.onnx.naming import count_strange
from reducer.subject.onnx.opsets import sum_of_versions
from reducer.subject.onnx.view import OnnxView
from reducer.subject.order import complexity, elements, strange_types

PLAINNESS: Mapping[str, int] = {"Identity": 0, "Abs": 1, "Not": 1, "Cast": 1, "Add": 2, "And": 2}
"""Strangeness by operator of ONNX's own domain."""

OTHER = 3


def strangeness(node: NodeProto) -> int:
    """0 for what hands a value on, a little for the plainest operators, most for any other."""
    return OTHER if node.domain else PLAINNESS.get(node.op_type, OTHER)


def measured(subject: OnnxView) -> Size:
    """Return the sizes of a model, in the order of `size`."""
    model = subject.model
    graph = model.graph
    arrays = subject.arrays
    inner = list(body_weights(graph))
    scopes = len(model.functions) + sum(len(subgraphs(node)) for node in walk_model(model))
    held = sum(math.prod(tensor.dims) for tensor in (*graph.initializer, *inner))
    attributes = sum(len(node.attribute) for node in walk_model(model))
    attributes += sum(len(each.attribute) + len(each.attribute_proto) for each in model.functions)
    return (
        sum(1 for _ in walk_model(model)),
        scopes + len(inner),
        sum(map(strangeness, walk_nodes(graph))),
        held + sum(map(elements, subject.inputs.values())),
        len(graph.input) + len(graph.output) + len(graph.initializer),
        sum(array.ndim for array in arrays),
        strange_types(arrays),
        attributes,
        sum(map(complexity, arrays)),
        len(subject.passes),
        count_strange(model),
        sum_of_versions(model),
        int(model.ByteSize()),
    )
