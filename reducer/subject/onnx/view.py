"""An ONNX model as a subject, as far as it can be asked; what can be made of it, `subject.py` adds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import onnx

from corpus.case import Case, ExternalFile
from corpus.onnx.graph import free_names, tensors
from corpus.onnx.model_file import external_entry
from corpus.onnx.types import is_external, packed_bytes, tensor_type
from corpus.values import Tensor
from reducer.subject.base import NodeSubject, initializer, read_tensor, type_of

COUNT_ATTRIBUTES = {"group", "hidden_size", "num_heads", "q_num_heads", "kv_num_heads"}
"""Of which other dims are multiples: the gates of an LSTM, the channels of a group, a head's width."""


@dataclass(frozen=True)
class OnnxView(NodeSubject):
    """The smallest failing model so far.

    `is_sound` says that the checker accepts it, and so must accept every candidate made of it.
    """

    model: onnx.ModelProto
    external: tuple[ExternalFile, ...] = field(default=(), kw_only=True)
    is_sound: bool = field(default=True, kw_only=True)

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """The nodes of the main graph."""
        return tuple(self.model.graph.node)

    @cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """List by node the names it reads in a fixed order, with those that its bodies capture."""
        return tuple(_ordered_reads(node) for node in self.nodes)

    @cached_property
    def initializers(self) -> Mapping[str, onnx.TensorProto]:
        """The dense weights, by name."""
        return {tensor.name: tensor for tensor in self.model.graph.initializer}

    @cached_property
    def sparse_initializers(self) -> Mapping[str, onnx.SparseTensorProto]:
        """The sparse weights, by name."""
        return {sparse.values.name: sparse for sparse in self.model.graph.sparse_initializer}

    @cached_property
    def graph_inputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The inputs of the main graph, by name."""
        return {info.name: info for info in self.model.graph.input}

    @cached_property
    def graph_outputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The outputs of the main graph, by name."""
        return {info.name: info for info in self.model.graph.output}

    @cached_property
    def counts(self) -> frozenset[int]:
        """The dims that an attribute of a node counts, so that others are multiples of them."""
        attributes = (item for node in self.nodes for item in node.attribute)
        return frozenset(item.i for item in attributes if item.name in COUNT_ATTRIBUTES)

    def array(self, name: str) -> Tensor | None:
        """The values of an input or initializer; external weights are mapped, not read."""
        if name in self.initializers:
            return read_tensor(self.initializers[name], self.external)
        value = self.inputs.get(name)
        return None if isinstance(value, list) else value

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """A tensor's type, static where its value was recorded, declared or inferred elsewhere."""
        if name in self.initializers:
            return tensor_type(self.initializers[name])
        recorded = type_of(self.facts.values.get(name, self.inputs.get(name)))
        if recorded is None and name in self.graph_inputs:
            return self.graph_inputs[name].type
        return recorded or self.facts.types.get(name)

    def case(self, like: Case) -> Case:
        """This subject as a case with the target, settings and origin of `like`."""
        program = self.model.SerializeToString(deterministic=True)
        used = {external_entry(tensor, "location") for tensor in tensors(self.model) if is_external(tensor)}
        external = tuple(file for file in self.external if str(file.location) in used)
        return self.sequenced(replace(like, program=program, inputs=self.inputs, external=external))

    def embedded(self) -> Self:
        """The subject with the weights that it still needs inside the model, where they are not too large."""
        outside = [tensor for tensor in tensors(self.model) if is_external(tensor)]
        needed = sum(packed_bytes(tensor.data_type, tensor.dims) or 0 for tensor in outside)
        if not outside or needed > MOST_EMBEDDED:
            return self
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in tensors(model):
            if is_external(tensor):
                tensor.CopyFrom(initializer(tensor.name, read_tensor(tensor, self.external)))
        return replace(self, model=model)


MOST_EMBEDDED = 256 << 20
"""Weights up to this many bytes are taken into a reduced model."""


def _ordered_reads(node: onnx.NodeProto) -> tuple[str, ...]:
    direct = dict.fromkeys(name for name in node.input if name)
    captured: Iterable[str] = sorted(free_names(node).difference(direct))
    return (*direct, *captured)
