"""What no node needs: documentation, metadata, stale annotations; constants that take a node each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from corpus.onnx_graph import walk_graphs
from reducer.move import Hints, Move, Search
from reducer.nodesets import declaration
from reducer.order import size
from reducer.subject import Subject


def strip(subject: Subject, hints: Hints) -> Search:
    """Everything at once; where that is too much, one kind after the other."""
    changes = (_without_annotations, _without_documentation, _constants_lifted)
    proposal = partial(_apply, subject, changes)
    if size(proposal()) >= size(subject):
        return subject
    if (yield proposal):
        return proposal()
    best = subject
    for change in changes:
        single = partial(_apply, best, (change,))
        if size(single()) < size(best) and (yield single):
            best = single()
    return best


def _apply(subject: Subject, changes: Iterable[Callable[[onnx.ModelProto], None]]) -> Subject:
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    for change in changes:
        change(model)
    return replace(subject, model=model)


def _without_annotations(model: onnx.ModelProto) -> None:
    """Types of inner values, which may be stale and change error texts."""
    for graph in walk_graphs(model.graph):
        del graph.value_info[:]
        del graph.quantization_annotation[:]


def _without_documentation(model: onnx.ModelProto) -> None:
    """Doc strings and metadata, which hold stack traces and the authors' paths."""
    model.doc_string = ""
    del model.metadata_props[:]
    del model.training_info[:]
    for graph in walk_graphs(model.graph):
        _clear(graph)
        for item in (*graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info):
            _clear(item)
    for function in model.functions:
        _clear(function)
        for node in function.node:
            _clear(node)


def _clear(item: Message) -> None:
    item.ClearField("doc_string")
    if "metadata_props" in item.DESCRIPTOR.fields_by_name:
        item.ClearField("metadata_props")


def _constants_lifted(model: onnx.ModelProto) -> None:
    """Constant nodes become initializers; before IR 4 those are inputs, which bodies cannot have."""
    if model.ir_version >= 4:
        for graph in walk_graphs(model.graph):
            _lift(graph)
        return
    before = len(model.graph.initializer)
    _lift(model.graph)
    model.graph.input.extend(declaration(tensor) for tensor in model.graph.initializer[before:])


def _lift(graph: GraphProto) -> None:
    kept = []
    for node in graph.node:
        tensor = constant_of(node)
        if tensor is None:
            kept.append(node)
        else:
            graph.initializer.append(tensor)
    if len(kept) < len(graph.node):
        nodes = [_copy(node) for node in kept]
        del graph.node[:]
        graph.node.extend(nodes)


def _copy(node: NodeProto) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    return copy


def constant_of(node: NodeProto) -> TensorProto | None:
    """The tensor that a Constant node holds, under its output's name; None for any other node."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    return next(_tensors(node.attribute[0], node.output[0]), None)


def _tensors(attribute: AttributeProto, name: str) -> Iterator[TensorProto]:
    make = onnx.helper.make_tensor
    if attribute.name == "value":
        tensor = TensorProto()
        tensor.CopyFrom(attribute.t)
        tensor.name = name
        yield tensor
    elif attribute.name == "value_float":
        yield make(name, TensorProto.FLOAT, (), [attribute.f])
    elif attribute.name == "value_int":
        yield make(name, TensorProto.INT64, (), [attribute.i])
    elif attribute.name == "value_floats":
        yield make(name, TensorProto.FLOAT, (len(attribute.floats),), attribute.floats)
    elif attribute.name == "value_ints":
        yield make(name, TensorProto.INT64, (len(attribute.ints),), attribute.ints)
    elif attribute.name == "value_string":
        yield TensorProto(name=name, data_type=TensorProto.STRING, string_data=[attribute.s])
    elif attribute.name == "value_strings":
        dims = (len(attribute.strings),)
        yield TensorProto(name=name, data_type=TensorProto.STRING, dims=dims, string_data=attribute.strings)


MOVES = (Move("strip annotations, documentation and Constant nodes", 100, strip),)
