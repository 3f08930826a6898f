"""Edits that take an author's words out of a model: remarks, dims, domains, functions; tensors apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import onnx

from corpus.onnx.graph import function_key, walk_all_graphs, walk_model
from reducer.subject.onnx.function_names import OFFICIAL, numbered, plain_functions
from reducer.subject.onnx.naming import number_dims, number_graphs
from reducer.subject.onnx.opsets import drop_unused_sets, rename_sets
from reducer.subject.onnx.remarks import clear_remarks
from reducer.subject.onnx.subject import OnnxSubject


def _edited(subject: OnnxSubject, edit: Callable[[onnx.ModelProto], None]) -> OnnxSubject:
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    edit(model)
    return replace(subject, model=model)


def drop_remarks(subject: OnnxSubject) -> OnnxSubject:
    """Documentation, metadata, producers, names of nodes and graphs, operator sets that are not used."""
    return _edited(subject, _drop_remarks)


def _drop_remarks(model: onnx.ModelProto) -> None:
    clear_remarks(model)
    model.ClearField("domain")
    number_graphs(model)
    for holder in (*walk_all_graphs(model), *model.functions):
        del holder.value_info[:]
    for node in walk_model(model):
        node.ClearField("name")
        for attribute in node.attribute:
            for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
                tensor.ClearField("name")
    drop_unused_sets(model)


def plain_dims(subject: OnnxSubject) -> OnnxSubject:
    """Symbolic dims become d0, d1, …"""
    return _edited(subject, number_dims)


def plain_domains(subject: OnnxSubject) -> OnnxSubject:
    """Foreign domains become custom0, …; their operators Op0, …; and the attributes of those a0, …"""

    def edit(model: onnx.ModelProto) -> None:
        functions = {function_key(each) for each in model.functions}
        foreign = [
            node
            for node in walk_model(model)
            if node.domain not in OFFICIAL and function_key(node) not in functions
        ]
        domains = numbered((node.domain for node in foreign), "custom")
        kinds = numbered((node.op_type for node in foreign), "Op")
        attributes = numbered((item.name for node in foreign for item in node.attribute), "a")
        for node in foreign:
            for attribute in node.attribute:
                attribute.name = attributes[attribute.name]
            node.domain, node.op_type = domains[node.domain], kinds[node.op_type]
            node.ClearField("overload")
        rename_sets(model, domains)

    return _edited(subject, edit)


def functions_renamed(subject: OnnxSubject) -> OnnxSubject:
    """Functions, their domains, what they take and the tensors in them get plain names."""
    return _edited(subject, plain_functions)


EDITS = (drop_remarks, plain_dims, functions_renamed, plain_domains)
