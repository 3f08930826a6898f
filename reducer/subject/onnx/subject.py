"""An ONNX model that is being reduced, with the edits that moves are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from typing import Self, TypeVar

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, numpy_helper

from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import (
    body_weights,
    function_key,
    rename,
    subgraphs,
    walk_all_graphs,
    walk_function,
    walk_graphs,
    walk_model,
    walk_nodes,
)
from corpus.values import Tensor
from oracles.operators import arithmetic_of
from reducer.search import Items
from reducer.subject.base import Resize, Size, initializer
from reducer.subject.onnx.nodesets import COUNT_ATTRIBUTES, OnnxView, assemble, keep_nodes
from reducer.subject.onnx.retype import change_tensors, lowered, rename_sets, sum_of_versions
from reducer.subject.order import complexity, elements, strange_types

REMARKS = frozenset(
    (
        *("doc_string", "metadata_props", "producer_name", "producer_version", "model_version"),
        *("denotation", "device_configurations", "configuration", "training_info", "quantization_annotation"),
    )
)
"""Fields that no operator reads, in whatever message they are."""


def messages(message: Message) -> Iterator[Message]:
    """Yield a message and all in it, those of raw data and numbers left out."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from messages(inner)


def clear_remarks(message: Message) -> None:
    """Take the remarks out of a message and of all in it, in place."""
    for each in messages(message):
        for name in REMARKS & set(each.DESCRIPTOR.fields_by_name):
            each.ClearField(name)


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
    """The attributes that functions take, those with a default last."""
    taken = ([*each.attribute, *(item.name for item in each.attribute_proto)] for each in functions)
    return [name for names in taken for name in names]


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

    for node in map(deepcopy, function.node):
        rename(node, see)
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


def new_names(graph: onnx.GraphProto) -> dict[str, str]:
    """Inputs x0…, weights w0…, results y0… if they are outputs and t0… if not, in the order they appear."""
    outputs = {info.name for info in graph.output}
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for name, letter in _appearances(graph):
        if name and name not in names:
            letter = "y" if name in outputs and letter == "t" else letter
            counts[letter] = counts.get(letter, -1) + 1
            names[name] = f"{letter}{counts[letter]}"
    return names


def _appearances(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Yield every name with the letter for what it is, in reading order."""
    yield from ((info.name, "x") for info in graph.input)
    yield from ((tensor.name, "w") for tensor in graph.initializer)
    yield from ((sparse.values.name, "w") for sparse in graph.sparse_initializer)
    bodies = [body for node in graph.node for outer in subgraphs(node) for body in walk_graphs(outer)]
    yield from ((item.name, "b") for body in bodies for item in (*body.input, *body.initializer))
    yield from ((name, "t") for node in walk_nodes(graph) for name in (*node.input, *node.output))
    for inner in walk_graphs(graph):
        yield from ((info.name, "t") for info in (*inner.output, *inner.value_info))


def count_strange(model: onnx.ModelProto) -> int:
    """Count the tensors, dims and parts of functions that do not have plain names."""
    pairs = [*new_names(model.graph).items(), *dim_names(model).items()]
    return sum(old != new for old, new in pairs) + count_strange_functions(model)


def number_graphs(model: onnx.ModelProto) -> None:
    """Name the main graph g and the bodies g1, g2, … in place."""
    for number, graph in enumerate(walk_all_graphs(model)):
        graph.name = f"g{number}" if number else "g"


def number_dims(model: onnx.ModelProto) -> None:
    """Symbolic dims become d0, d1, … in place."""
    names = dim_names(model)
    for dim in _symbols(model):
        dim.dim_param = names[dim.dim_param]


def renamed_runs(
    earlier: Iterable[Mapping[str, int]], names: Mapping[str, str]
) -> tuple[Mapping[str, int], ...]:
    """Earlier runs with other names of dims; a dim that has none is gone."""
    return tuple({names[name]: size for name, size in run.items() if name in names} for run in earlier)


def dim_names(model: onnx.ModelProto) -> dict[str, str]:
    """Map each symbolic dim to its plain name."""
    return numbered((dim.dim_param for dim in _symbols(model)), "d")


def _symbols(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """Yield every symbolic dim that a model declares."""
    graphs = walk_all_graphs(model)
    declared = (info for each in graphs for info in (*each.input, *each.output, *each.value_info))
    for holder in (*declared, *(info for each in model.functions for info in each.value_info)):
        for message in messages(holder):
            if isinstance(message, onnx.TensorShapeProto.Dimension) and message.dim_param:
                yield message


PLAINNESS: Mapping[str, int] = {"Identity": 0, "Abs": 1, "Not": 1, "Cast": 1, "Add": 2, "And": 2}
"""Strangeness by operator of ONNX's own domain."""

OTHER = 3


def strangeness(node: NodeProto) -> int:
    """0 for what hands a value on, a little for the plainest operators, most for any other."""
    return OTHER if node.domain else PLAINNESS.get(node.op_type, OTHER)


def measured(subject: OnnxView) -> Size:
    """The sizes of a model, in the order of `size`."""
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
        scopes + len(inner) + sum(1 + len(sizes) for sizes in subject.earlier),
        sum(map(strangeness, walk_nodes(graph))),
        held + sum(map(elements, subject.inputs.values())),
        len(graph.input) + len(graph.output) + len(graph.initializer),
        sum(array.ndim for array in arrays),
        strange_types(arrays),
        attributes,
        sum(map(complexity, arrays)) + sum(sum(sizes.values()) for sizes in subject.earlier),
        len(subject.passes),
        count_strange(model),
        sum_of_versions(model),
        int(model.ByteSize()),
    )


S = TypeVar("S", bound=OnnxView)

SHAPE_ATTRIBUTES = {"kernel_shape", "output_shape", "shape", "split"} | COUNT_ATTRIBUTES
"""Attributes whose integers are dims or count them."""


def resize(subject: S, changed: Mapping[str, Tensor], choice: Resize) -> S | None:
    """The model with these tensors, sizes carried along as far as they fit; None where nothing does."""
    if choice.only is not None:
        return change_tensors(subject, changed) if changed else None
    tried = (_carried(subject, choice, changed, *carry) for carry in product((True, False), repeat=2))
    return next((found for found in tried if found is not None), None)


def _carried(
    subject: S, choice: Resize, changed: Mapping[str, Tensor], constants: bool, attributes: bool
) -> S | None:
    resized = dict(changed)
    if constants:
        resized |= _resized_constants(subject, choice)
    if not resized:
        return None
    return change_tensors(subject, resized, partial(_resize, choice=choice, attributes=attributes))


def _resize(model: onnx.ModelProto, choice: Resize, attributes: bool) -> None:
    """Resize weights in bodies and attributes along with the tensors that flow in, in place."""
    for tensor in body_weights(model.graph):
        if any(choice.size_of(dim) != dim for dim in tensor.dims):
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(initializer(tensor.name, array[choice.index("", array.shape)]))
    if attributes:
        _resize_attributes(model, choice)


def _resized_constants(subject: OnnxView, choice: Resize) -> dict[str, Tensor]:
    """The elements of shape constants that equal a dim that changes."""
    found: dict[str, Tensor] = {}
    for node in subject.nodes:
        for position in arithmetic_of(node).dims_at:
            name = node.input[position] if position < len(node.input) else ""
            tensor = subject.initializers.get(name)
            array = subject.array(name) if tensor is not None else None
            if array is not None and array.dtype == "int64":
                fresh = array.copy()
                for index, value in enumerate(array.flat):
                    fresh.flat[index] = choice.size_of(int(value))
                found[name] = fresh
    return found


def _resize_attributes(model: onnx.ModelProto, choice: Resize) -> None:
    """The attributes that count dims, in place."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in SHAPE_ATTRIBUTES and attribute.type == onnx.AttributeProto.INT:
                attribute.i = choice.size_of(attribute.i)
            elif attribute.name in SHAPE_ATTRIBUTES and attribute.type == onnx.AttributeProto.INTS:
                attribute.ints[:] = [choice.size_of(value) for value in attribute.ints]
            elif attribute.s == b"bidirectional" and choice.size_of(2) == 1:
                attribute.s = b"forward"  # the first axis of a recurrent network's weights


@dataclass(frozen=True)
class OnnxSubject(OnnxView):
    """The smallest failing model so far, as moves change it."""

    def measured(self) -> Size:
        """The place in the total order."""
        return measured(self)

    @property
    def is_valid(self) -> bool:
        """Whether onnx's checker accepts the model, where it accepted the original."""
        return not self.is_sound or checker_complaint(self.model) is None

    @property
    def operators(self) -> frozenset[str]:
        """The operators of its nodes, bodies and functions included."""
        return frozenset(node.op_type for node in walk_model(self.model))

    def plainest(self) -> Self:
        """Without unused operator sets, the others in the least versions; itself where it has them."""
        return lowered(self)

    def keep_nodes(self, keep: Items, *, link: bool = False) -> Self | None:
        """The model of the nodes `keep` (by index); None where the type of a cut tensor is unknown."""
        return keep_nodes(self, keep, link=link)

    def assemble(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> Self | None:
        """A model of these nodes with these outputs that may read any tensor of this one."""
        return assemble(self, nodes, outputs)

    def with_tensors(
        self, changed: Mapping[str, Tensor], also: Callable[[onnx.ModelProto], None] | None = None
    ) -> Self | None:
        """The model with these values for some of its inputs and weights, and another edit."""
        return change_tensors(self, changed, also)

    def resized(self, changed: Mapping[str, Tensor], choice: Resize) -> Self | None:
        """The model with tensors cut to windows, sizes in constants and attributes carried along."""
        return resize(self, changed, choice)
