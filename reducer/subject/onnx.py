"""What the moves work on: a model with its inputs, and what is known of every tensor in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import onnx

from corpus.case import Case, ExternalFile
from corpus.onnx.graph import free_names, tensors
from corpus.onnx.infer import is_external, tensor_type
from corpus.onnx.types import packed_bytes
from corpus.onnx.weights import external_entry
from corpus.values import Tensor, Value
from oracles.numerics.operators import operator_of
from reducer.subject.base import Facts
from reducer.subject.tensors import initializer, read_tensor, shape_key, type_of


@dataclass(frozen=True)
class Subject:
    """The smallest failing model so far: immutable, with its inputs by name and the facts about it.

    `is_sound` says that the checker accepts it, and so must accept every candidate made of it. `origins` are
    the names that its tensors had in the original, by those they have now; None while all have kept theirs.
    `passes` are the case's own sequence.
    """

    model: onnx.ModelProto
    inputs: Mapping[str, Value]
    facts: Facts = field(default_factory=Facts)
    external: tuple[ExternalFile, ...] = ()
    is_sound: bool = True
    origins: Mapping[str, str] | None = None
    passes: tuple[str, ...] = ()

    def origin(self, name: str) -> str:
        """The name that a tensor had in the original; empty for one that came later."""
        return name if self.origins is None else self.origins.get(name, "")

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """The nodes of the main graph."""
        return tuple(self.model.graph.node)

    @cached_property
    def producer(self) -> Mapping[str, int]:
        """The index of the node of the main graph that makes each tensor."""
        return {name: index for index, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """By node, the names it reads in a fixed order, its bodies' captured names included."""
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

    def array(self, name: str) -> Tensor | None:
        """The values of an input or initializer; external weights are mapped, not read."""
        if name in self.initializers:
            return read_tensor(self.initializers[name], self.external)
        value = self.inputs.get(name)
        return None if isinstance(value, list) else value

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The names of the tensors that flow in: inputs with a tensor value, then initializers."""
        tensors = [name for name, value in self.inputs.items() if value is not None]
        names = [name for name in tensors if not isinstance(self.inputs[name], list)]
        return tuple(dict.fromkeys([*names, *self.initializers]))

    @cached_property
    def dynamic(self) -> frozenset[str]:
        """The names whose value depends on a graph input, and is not fixed by constants and dims alone."""
        names = {name for name in self.graph_inputs if name not in self.initializers}
        for node, reads in zip(self.nodes, self.reads, strict=True):
            if operator_of(node).asks_dims and all(self._has_fixed_dims(name) for name in reads):
                continue
            if any(name in names for name in reads) or operator_of(node).is_random:
                names.update(name for name in node.output if name)
        return frozenset(names)

    def _has_fixed_dims(self, name: str) -> bool:
        """Whether the model itself says every dim of a tensor."""
        declared = self.graph_inputs[name].type if name in self.graph_inputs else self.facts.types.get(name)
        if declared is None or not declared.tensor_type.HasField("shape"):
            return name in self.initializers
        return all(dim.HasField("dim_value") for dim in declared.tensor_type.shape.dim)

    def kind(self, name: str) -> tuple[object, ...] | None:
        """What a tensor must share with another to stand in for it: element type and dims."""
        if name not in self._kinds:
            self._kinds[name] = shape_key(self.type_of(name))
        return self._kinds[name]

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """A tensor's type, static where its value was recorded, declared or inferred elsewhere."""
        if name in self.initializers:
            return tensor_type(self.initializers[name])
        recorded = type_of(self.facts.values.get(name, self.inputs.get(name)))
        if recorded is None and name in self.graph_inputs:
            return self.graph_inputs[name].type
        return recorded or self.facts.types.get(name)

    @cached_property
    def measures(self) -> dict[str, tuple[int, ...]]:
        """What was measured of the subject, by what asked: it never changes, and large weights take long."""
        return {}

    @cached_property
    def _kinds(self) -> dict[str, tuple[object, ...] | None]:
        return {}

    def case(self, like: Case) -> Case:
        """This subject as a case with the target, settings and origin of `like`."""
        program = self.model.SerializeToString(deterministic=True)
        used = {external_entry(tensor, "location") for tensor in tensors(self.model) if is_external(tensor)}
        external = tuple(file for file in self.external if str(file.location) in used)
        return self.sequenced(replace(like, program=program, inputs=self.inputs, external=external))

    def sequenced(self, case: Case) -> Case:
        """A case with the sequence of passes that is left."""
        return case.with_passes(self.passes)

    def embedded(self) -> Subject:
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
