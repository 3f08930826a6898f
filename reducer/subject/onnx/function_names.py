"""The names that model-local functions get: what they are called, their domains, parameters and tensors.

A function that has the name of an operator that onnx knows keeps it: a runtime may have a kernel of its own
for it, and the name says nothing of an author.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto

from corpus.onnx.graph import function_key, rename, walk_function, walk_model
from reducer.subject.onnx.opsets import rename_sets
from reducer.subject.onnx.remarks import messages

OFFICIAL = frozenset(
    (
        *("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training"),
        *("com.microsoft", "com.microsoft.nchwc", "com.microsoft.experimental", "com.microsoft.dml"),
        *("com.ms.internal.nhwc", "org.pytorch.aten", "pkg.onnxscript.torch_lib", "pkg.torch"),
    )
)
"""Domains that say nothing of a model's author."""

Key = tuple[str, str, str]


@dataclass(frozen=True)
class FunctionNames:
    """New domain and name by a function's key, and the new names of attributes that functions take."""

    functions: Mapping[Key, tuple[str, str]]
    attributes: Mapping[str, str]

    @staticmethod
    def of(model: ModelProto) -> FunctionNames:
        """local0.f0, local0.f1, … and attributes a0, a1, … in the model's order."""
        own = [each for each in model.functions if not onnx.defs.has(each.name, domain=each.domain)]
        keys = {function_key(each) for each in own}
        taken = {node.op_type for node in walk_model(model) if function_key(node) not in keys}
        free = (name for number in count() if (name := f"f{number}") not in taken)
        domains = numbered((each.domain for each in own if each.domain not in OFFICIAL), "local")
        named = {function_key(each): (domains.get(each.domain, each.domain), next(free)) for each in own}
        return FunctionNames(named, numbered(attribute_names(own), "a"))


def numbered(names: Iterable[str], prefix: str) -> dict[str, str]:
    """Map each name to the prefix and a number, in the order of first sight."""
    return {name: f"{prefix}{number}" for number, name in enumerate(dict.fromkeys(names))}


def attribute_names(functions: Iterable[FunctionProto]) -> list[str]:
    """Return the attributes that functions take, those with a default last."""
    return [
        name
        for each in functions
        for name in (*each.attribute, *(item.name for item in each.attribute_proto))
    ]


def plain_functions(model: ModelProto) -> None:
    """Rename the functions with all that is in them, in place."""
    names = FunctionNames.of(model)
    for function in model.functions:
        _plain_tensors(function)
        if function_key(function) in names.functions:
            _plain_attributes(function, names.attributes)
    called = [node for node in walk_model(model) if function_key(node) in names.functions]
    for node in called:
        for attribute in node.attribute:
            attribute.name = names.attributes.get(attribute.name, attribute.name)
        node.domain, node.op_type = names.functions[function_key(node)]
        node.ClearField("overload")
    for function in model.functions:
        if function_key(function) in names.functions:
            function.domain, function.name = names.functions[function_key(function)]
            function.ClearField("overload")
    rename_sets(model, {domain: new for (domain, _, _), (new, _) in names.functions.items()})


def _plain_attributes(function: FunctionProto, attributes: Mapping[str, str]) -> None:
    function.attribute[:] = [attributes[name] for name in function.attribute]
    for item in function.attribute_proto:
        item.name = attributes[item.name]
    for message in messages(function):
        if isinstance(message, AttributeProto) and message.ref_attr_name:
            message.ref_attr_name = attributes.get(message.ref_attr_name, message.ref_attr_name)


def _plain_tensors(function: FunctionProto) -> None:
    """v0, v1, … in the order in which they appear; nodes lose their names."""
    names = tensor_names(function)
    function.input[:] = [names[name] for name in function.input]
    for node in function.node:
        rename(node, lambda name: names.get(name, name))
    function.output[:] = [names[name] for name in function.output]
    for info in function.value_info:
        info.name = names.get(info.name, info.name)
    for node in walk_function(function):
        node.ClearField("name")


def tensor_names(function: FunctionProto) -> dict[str, str]:
    """Map each tensor, in bodies too, to its new name."""
    seen: list[str] = [*function.input]

    def see(name: str) -> str:
        seen.append(name)
        return name

    for node in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        rename(copy, see)
    return numbered([*seen, *function.output], "v")


def count_strange_functions(model: ModelProto) -> int:
    """Count the tensors, attributes, names and domains of functions that do not have plain names."""
    if not model.functions:
        return 0
    names = FunctionNames.of(model)
    pairs = [pair for each in model.functions for pair in tensor_names(each).items()]
    pairs += names.attributes.items()
    for (domain, name, overload), (new_domain, new_name) in names.functions.items():
        pairs += [(domain, new_domain), (name, new_name), (overload, "")]
    return sum(old != new for old, new in pairs)
