"""What of an original a reduced case still tells: its words, and runs of its values."""

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import NodeProto, TensorProto

from corpus.case import Case
from corpus.onnx.graph import function_key, tensors, walk_all_graphs, walk_model
from corpus.values import Tensor, Value
from reducer.subject.onnx.retype import drop_unused_sets, rename_sets
from reducer.subject.onnx.subject import (
    OFFICIAL,
    OnnxSubject,
    clear_remarks,
    dim_names,
    number_dims,
    number_graphs,
    numbered,
    plain_functions,
    renamed_runs,
)

ENUMERATIONS = frozenset(
    (
        *("auto_pad", "mode", "direction", "activations", "activation", "reduction", "equation", "layout"),
        *("coordinate_transformation_mode", "nearest_mode", "padding_mode", "approximate", "format", "norm"),
        *("keep_aspect_ratio_policy", "case_change_action", "post_transform", "aggregate_function"),
        *("kernel_type", "nodes_modes", "rounding_mode", "pixel_format", "onnx_dtype", "cast_to"),
        *("map_form", "interpolation_mode", "qk_norm", "quant_type"),
    )
)
"""Attributes of official operators whose strings choose one of a few ways, or are structure."""


def placeholders(subject: OnnxSubject) -> dict[str, str]:
    """Map strings of data to plain ones: letters to letters, digits to digits, distinct to distinct.

    Strings of one pattern are numbered in sorted order, so that their order stays. A plain string maps to
    itself.
    """
    by_pattern: dict[str, list[str]] = {}
    for text in sorted(set(_strings(subject))):
        by_pattern.setdefault("".join(map(_blank, text)), []).append(text)
    return {
        text: _counted(pattern, number)
        for pattern, texts in by_pattern.items()
        for number, text in enumerate(texts)
    }


def _blank(char: str) -> str:
    if char.isdigit():
        return "0"
    if char.isalpha():
        return "A" if char.isupper() else "a"
    return char


def _counted(pattern: str, number: int) -> str:
    """The pattern with a number in its letters and digits, the last one counting fastest."""
    chars = list(pattern)
    for at in reversed(range(len(chars))):
        base = {"0": 10, "a": 26, "A": 26}.get(chars[at])
        if base is not None:
            number, digit = divmod(number, base)
            chars[at] = chr(ord(chars[at]) + digit)
    return "".join(chars)


def with_strings(subject: OnnxSubject, instead: Mapping[str, str]) -> OnnxSubject:
    """The subject with some strings replaced wherever they are: attributes, weights, inputs."""

    def edit(model: onnx.ModelProto) -> None:
        for node in walk_model(model):
            for attribute in _data_attributes(node):
                if attribute.type == onnx.AttributeProto.STRING:
                    attribute.s = _swap(attribute.s, instead)
                attribute.strings[:] = [_swap(text, instead) for text in attribute.strings]
        for tensor in tensors(model):
            tensor.string_data[:] = [_swap(text, instead) for text in tensor.string_data]

    inputs = {name: _swap_value(value, instead) for name, value in subject.inputs.items()}
    return replace(_edited(edit, subject), inputs=inputs)


def _strings(subject: OnnxSubject) -> Iterator[str]:
    for node in walk_model(subject.model):
        for attribute in _data_attributes(node):
            yield from (_text(each) for each in (attribute.s, *attribute.strings) if each)
    for tensor in tensors(subject.model):
        if tensor.data_type == TensorProto.STRING:
            yield from map(_text, tensor.string_data)
    yield from _texts_of(subject.inputs)


def _texts_of(inputs: Mapping[str, Value]) -> Iterator[str]:
    for value in inputs.values():
        for array in value if isinstance(value, list) else (value,):
            if isinstance(array, np.ndarray) and array.dtype.kind in "USO":
                yield from map(str, array.flat)


def _data_attributes(node: NodeProto) -> Iterator[onnx.AttributeProto]:
    """Yield the attributes whose strings are data."""
    is_official = node.domain in OFFICIAL
    for attribute in node.attribute:
        if (attribute.s or attribute.strings) and not (is_official and attribute.name in ENUMERATIONS):
            yield attribute


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="surrogateescape")


def _swap(content: bytes, instead: Mapping[str, str]) -> bytes:
    text = _text(content)
    return instead.get(text, text).encode("utf-8", errors="surrogateescape")


def _swap_value(value: Value, instead: Mapping[str, str]) -> Value:
    if isinstance(value, list):
        return [_swap_array(array, instead) for array in value]
    return _swap_array(value, instead) if isinstance(value, np.ndarray) else value


def _swap_array(array: Tensor, instead: Mapping[str, str]) -> Tensor:
    if array.dtype.kind not in "USO":
        return array
    swapped = [instead.get(str(each), str(each)) for each in array.flat]
    return np.array(swapped, dtype=array.dtype).reshape(array.shape)


def _edited(edit: Callable[[onnx.ModelProto], None], subject: OnnxSubject) -> OnnxSubject:
    model = deepcopy(subject.model)
    edit(model)
    return replace(subject, model=model)


def _drop_remarks(model: onnx.ModelProto) -> None:
    """Documentation, metadata, producers, names of nodes and graphs, operator sets that are not used."""
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


def _plain_dims(subject: OnnxSubject) -> OnnxSubject:
    """Symbolic dims become d0, d1, …"""
    named = replace(subject, earlier=renamed_runs(subject.earlier, dim_names(subject.model)))
    return _edited(number_dims, named)


def _plain_domains(model: onnx.ModelProto) -> None:
    """Foreign domains become custom0, …; their operators Op0, …; and the attributes of those a0, …"""
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


EDITS = (
    partial(_edited, _drop_remarks),
    _plain_dims,
    partial(_edited, plain_functions),
    partial(_edited, _plain_domains),
)
"""No remarks, plain dims, functions and what they take under plain names, plain domains."""


SHORTEST_WORD = 4
PLAIN = re.compile(r"[a-z]\d+|graph\d*|(?:custom|local|Op)\d+|ai\.onnx.*|com\.microsoft.*")
"""The names that the reducer gives by itself, and domains of everyone's."""


def words_left(original: Case, case: Case) -> tuple[str, ...]:
    """The reduced case's strings that hold a word of the original, four characters or longer."""
    own = {text for text in _all_words(case) if len(text) >= SHORTEST_WORD and not PLAIN.fullmatch(text)}
    if not own:
        return ()
    words = {text for text in _all_words(original) if len(text) >= SHORTEST_WORD}
    return tuple(sorted(text for text in own if text in words or any(word in text for word in words)))


def _all_words(case: Case) -> Iterator[str]:
    model: onnx.ModelProto = case.parsed
    yield from _words(model, _vocabulary(model))
    yield from case.inputs
    yield from _texts_of(case.inputs)


def _words(message: Message, known: frozenset[str]) -> Iterator[str]:
    """Yield every text in a message, weights left out, that is not of the operators' own vocabulary."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.message_type is not None:
            for inner in values:
                yield from _words(inner, known)
        elif field.cpp_type == field.CPPTYPE_STRING and field.name != "raw_data":
            for text in values:
                plain = text if isinstance(text, str) else text.decode("utf-8", errors="replace")
                if plain not in known:
                    yield plain


def _vocabulary(model: onnx.ModelProto) -> frozenset[str]:
    """Official operators, domains, attribute names and enumerated values that the model uses."""
    found = set(OFFICIAL)
    for node in walk_model(model):
        if node.domain in MICROSOFT or onnx.defs.has(node.op_type, domain=node.domain):
            found.add(node.op_type)
            for attribute in node.attribute:
                found.add(attribute.name)
                if attribute.name in ENUMERATIONS:
                    texts = (attribute.s, *attribute.strings)
                    found.update(text.decode("utf-8", errors="replace") for text in texts)
    return frozenset(found)


MICROSOFT = frozenset(domain for domain in OFFICIAL if domain.startswith("com."))
