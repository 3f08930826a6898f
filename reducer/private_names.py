"""Edits that take an author's words out of a model: remarks, dims, domains, functions; tensors apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import onnx
from google.protobuf.message import Message
from onnx import FunctionProto, NodeProto

from corpus.onnx_graph import rename, walk_all_graphs, walk_model
from reducer.subject import Subject

OFFICIAL = frozenset(
    (
        *("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training"),
        *("com.microsoft", "com.microsoft.nchwc", "com.microsoft.experimental", "com.microsoft.dml"),
        *("com.ms.internal.nhwc", "org.pytorch.aten", "pkg.onnxscript.torch_lib", "pkg.torch"),
    )
)
"""Domains that say nothing of a model's author."""

REMARKS = frozenset(
    (
        *("doc_string", "metadata_props", "producer_name", "producer_version", "model_version"),
        *("denotation", "device_configurations", "configuration", "training_info", "quantization_annotation"),
    )
)
"""Fields that no operator reads, in whatever message they are."""

Domained = (NodeProto, FunctionProto, onnx.OperatorSetIdProto)


def _edited(subject: Subject, edit: Callable[[onnx.ModelProto], None]) -> Subject:
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    edit(model)
    return replace(subject, model=model)


def messages(message: Message) -> Iterator[Message]:
    """A message and all in it, those of raw data and numbers left out."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from messages(inner)


def drop_remarks(subject: Subject) -> Subject:
    """Documentation, metadata, producers, names of nodes and graphs, operator sets that are not used."""
    return _edited(subject, _drop_remarks)


def _drop_remarks(model: onnx.ModelProto) -> None:
    for message in messages(model):
        for name in REMARKS & set(message.DESCRIPTOR.fields_by_name):
            message.ClearField(name)
    model.ClearField("domain")
    for number, graph in enumerate(walk_all_graphs(model)):
        del graph.value_info[:]
        graph.name = f"g{number}" if number else "g"
    for function in model.functions:
        del function.value_info[:]
    for node in walk_model(model):
        node.ClearField("name")
        for attribute in node.attribute:
            for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
                tensor.ClearField("name")
    _drop_unused_sets(model)


def _drop_unused_sets(model: onnx.ModelProto) -> None:
    used = {"", "ai.onnx", *(node.domain for node in walk_model(model))}
    used.update(function.domain for function in model.functions)
    for holder in (model, *model.functions):
        for at in reversed(range(len(holder.opset_import))):
            if holder.opset_import[at].domain not in used:
                del holder.opset_import[at]


def plain_dims(subject: Subject) -> Subject:
    """Symbolic dims become d0, d1, …"""

    def edit(model: onnx.ModelProto) -> None:
        names: dict[str, str] = {}
        for message in messages(model):
            if isinstance(message, onnx.TensorShapeProto.Dimension) and message.dim_param:
                message.dim_param = names.setdefault(message.dim_param, f"d{len(names)}")

    return _edited(subject, edit)


def plain_domains(subject: Subject) -> Subject:
    """Foreign domains become custom0, …; their operators Op0, …; and the attributes of those a0, …"""

    def edit(model: onnx.ModelProto) -> None:
        functions = {(item.domain, item.name) for item in model.functions}
        foreign = [node for node in walk_model(model) if _is_foreign(node.domain, node.op_type, functions)]
        domains = _numbered((node.domain for node in foreign if node.domain not in OFFICIAL), "custom")
        kinds = _numbered((node.op_type for node in foreign), "Op")
        kinds |= _numbered((name for _, name in sorted(functions) if name not in kinds), "Unused")
        attributes = _numbered(_attribute_names(foreign, model.functions), "a")
        for node in foreign:
            for attribute in node.attribute:
                attribute.name = attributes[attribute.name]
        for node in foreign:
            node.op_type = kinds[node.op_type]
            node.ClearField("overload")
        for function in model.functions:
            _rename_function(function, kinds, attributes)
        for message in messages(model):
            if isinstance(message, Domained) and message.domain in domains:
                message.domain = domains[message.domain]

    return _edited(subject, edit)


def _is_foreign(domain: str, operator: str, functions: set[tuple[str, str]]) -> bool:
    """Whether an operator is the author's: of a domain of theirs, or a function of the model's own."""
    if domain not in OFFICIAL:
        return True
    return (domain, operator) in functions and not onnx.defs.has(operator, domain=domain)


def _attribute_names(nodes: Iterable[NodeProto], functions: Iterable[FunctionProto]) -> Iterator[str]:
    for function in functions:
        yield from (*function.attribute, *(item.name for item in function.attribute_proto))
    for node in nodes:
        yield from (attribute.name for attribute in node.attribute)


def _rename_function(function: FunctionProto, kinds: dict[str, str], attributes: dict[str, str]) -> None:
    if not onnx.defs.has(function.name, domain=function.domain):
        function.name = kinds[function.name]
    function.ClearField("overload")
    function.attribute[:] = [attributes[name] for name in function.attribute]
    for item in function.attribute_proto:
        item.name = attributes[item.name]
    for message in messages(function):
        if isinstance(message, onnx.AttributeProto) and message.ref_attr_name:
            message.ref_attr_name = attributes.get(message.ref_attr_name, message.ref_attr_name)


def _numbered(names: Iterable[str], prefix: str) -> dict[str, str]:
    return {name: f"{prefix}{number}" for number, name in enumerate(dict.fromkeys(names))}


def plain_functions(subject: Subject) -> Subject:
    """The tensors in functions become v0, v1, …"""

    def edit(model: onnx.ModelProto) -> None:
        for function in model.functions:
            names: dict[str, str] = {}

            def new(name: str, names: dict[str, str] = names) -> str:
                return names.setdefault(name, f"v{len(names)}")

            function.input[:] = [new(name) for name in function.input]
            for node in function.node:
                rename(node, new)
            function.output[:] = [new(name) for name in function.output]

    return _edited(subject, edit)


EDITS = (drop_remarks, plain_dims, plain_domains, plain_functions)
