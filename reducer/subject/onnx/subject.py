"""An ONNX model that is being reduced, with the edits that moves are made of."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

import onnx
from onnx import NodeProto, numpy_helper

from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import body_weights, subgraphs, walk_model, walk_nodes
from corpus.values import Tensor
from oracles.operators import arithmetic_of
from reducer.search import Items
from reducer.subject.base import Resize, Size, initializer
from reducer.subject.onnx.naming import count_strange
from reducer.subject.onnx.nodesets import COUNT_ATTRIBUTES, OnnxView, assemble, keep_nodes
from reducer.subject.onnx.retype import change_tensors, lowered, sum_of_versions
from reducer.subject.order import complexity, elements, strange_types

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


S = TypeVar("S", bound=OnnxView)

SHAPE_ATTRIBUTES = {"kernel_shape", "output_shape", "shape", "split"} | COUNT_ATTRIBUTES
"""Attributes whose integers are dims or count them."""


def resize(subject: S, changed: Mapping[str, Tensor], choice: Resize) -> S | None:
    """The model with these tensors, sizes carried along as far as they fit; None where nothing does."""
    if choice.only is not None:
        return change_tensors(subject, changed) if changed else None
    for carry in ((True, True), (True, False), (False, True), (False, False)):
        found = _carried(subject, choice, changed, *carry)
        if found is not None:
            return found
    return None


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
