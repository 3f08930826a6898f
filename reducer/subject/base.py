"""What every subject has, whatever its format; and what those have that are made of nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeAlias

import onnx

from corpus.case import Case
from corpus.values import Tensor, Value
from oracles.operators import arithmetic_of
from reducer.search import Items
from reducer.subject.tensors import Resize, shape_key

Size: TypeAlias = tuple[int, ...]
"""A subject's place in the total order, smallest first.

At least five: the nodes first, as fourth the elements that flow in, the program's bytes last.
"""


@dataclass(frozen=True)
class Facts:
    """Types and recorded values of tensors by name; a name keeps its meaning while nodes are only removed.

    `types` come from shape inference (symbolic dims kept) or from the value; `values` from one run of the
    un-optimised backend. Either may lack a name. `specified` are the inferred types of results that a kernel
    gave in another shape, on operands that were as inferred: what the model should declare for them.
    """

    types: Mapping[str, onnx.TypeProto] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    specified: Mapping[str, onnx.TypeProto] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Subject(ABC):
    """The smallest failing program so far: immutable, with its inputs by name and the facts about it.

    `origins` are the names that its tensors had in the original, by those they have now; None while all have
    kept theirs. `passes` are the case's own sequence.
    """

    inputs: Mapping[str, Value]
    facts: Facts = field(default_factory=Facts)
    origins: Mapping[str, str] | None = None
    passes: tuple[str, ...] = ()

    def origin(self, name: str) -> str:
        """The name that a tensor had in the original; empty for one that came later."""
        return name if self.origins is None else self.origins.get(name, "")

    @cached_property
    def size(self) -> Size:
        """The place in the total order, measured once: large weights take long."""
        return self.measured()

    @abstractmethod
    def measured(self) -> Size:
        """The place in the total order (`reducer/subject/order.py` says what counts)."""

    @property
    @abstractmethod
    def is_valid(self) -> bool:
        """Whether the format's own check accepts it, at no cost in verdicts."""

    @abstractmethod
    def case(self, like: Case) -> Case:
        """This subject as a case with the target, settings and origin of `like`."""

    @abstractmethod
    def embedded(self) -> Self:
        """The subject with what it needs from outside taken in, where that is not too large."""

    def plainest(self) -> Self:
        """The form by which candidates are told apart; the very object where it has that form."""
        return self

    @property
    def told_to_passes(self) -> bytes:
        """The program, if it decides in which order a backend can run passes; else empty."""
        return b""

    @property
    def computed(self) -> frozenset[str]:
        """The original's names of what the nodes of the main graph compute; empty of what has no nodes."""
        return frozenset()

    @property
    def operators(self) -> frozenset[str]:
        """The operators of its nodes, bodies and functions included; empty where nobody asks for these."""
        return frozenset()

    @property
    def operands(self) -> Mapping[str, tuple[str, ...]]:
        """What each node of the main graph reads, by its first result; empty of what has no nodes."""
        return {}

    def operator_of(self, name: str) -> str:
        """The operator of the node that makes a tensor; empty where there is no such node."""
        return ""

    def sequenced(self, case: Case) -> Case:
        """A case with the sequence of passes that is left."""
        return case.with_passes(self.passes)


@dataclass(frozen=True, kw_only=True)
class NodeSubject(Subject):
    """A subject made of nodes that hand tensors on: an ONNX model, or a graph of bindings seen as nodes.

    Its edits answer None where what they would make does not type, or a type that it takes is not known.
    """

    @property
    @abstractmethod
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """The nodes of the main graph."""

    @property
    @abstractmethod
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """List by node the names it reads in a fixed order, with those that its bodies capture."""

    @property
    @abstractmethod
    def initializers(self) -> Mapping[str, onnx.TensorProto]:
        """The dense weights, by name."""

    @property
    @abstractmethod
    def graph_inputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The inputs of the main graph, by name."""

    @property
    @abstractmethod
    def graph_outputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The outputs of the main graph, by name."""

    @property
    @abstractmethod
    def counts(self) -> frozenset[int]:
        """The dims that an attribute of a node counts, so that others are multiples of them."""

    @abstractmethod
    def array(self, name: str) -> Tensor | None:
        """The values of an input or weight; external weights are mapped, not read."""

    @abstractmethod
    def type_of(self, name: str) -> onnx.TypeProto | None:
        """A tensor's type, static where its value was recorded, declared or inferred elsewhere."""

    @abstractmethod
    def keep_nodes(self, keep: Items, *, link: bool = False) -> Self | None:
        """The program of the nodes `keep` (by index).

        *Cut*: a tensor whose node is gone becomes an input that carries its recorded value. With `link` its
        uses go to an operand of the same type that a kept node makes, where there is one.
        """

    @abstractmethod
    def assemble(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> Self | None:
        """A program of these nodes, in order, with these outputs, that may read any tensor of the subject."""

    @abstractmethod
    def with_tensors(
        self, changed: Mapping[str, Tensor], also: Callable[[onnx.ModelProto], None] | None = None
    ) -> Self | None:
        """The subject with these values for some of its inputs and weights.

        `also` is an edit that belongs to the same change, for those that are ONNX models.
        """

    @abstractmethod
    def resized(self, changed: Mapping[str, Tensor], choice: Resize) -> Self | None:
        """The subject with tensors cut to windows, the sizes that stand elsewhere carried along."""

    @property
    def computed(self) -> frozenset[str]:
        """The original's names of what the nodes of the main graph compute."""
        return frozenset(self.origin(name) for node in self.nodes for name in node.output)

    @property
    def operands(self) -> Mapping[str, tuple[str, ...]]:
        """What each node of the main graph reads, by its first result."""
        return {node.output[0]: tuple(node.input) for node in self.nodes if node.output}

    def operator_of(self, name: str) -> str:
        """The operator of the node of the main graph that makes a tensor; empty where there is none."""
        return self.nodes[self.producer[name]].op_type if name in self.producer else ""

    @cached_property
    def producer(self) -> Mapping[str, int]:
        """The index of the node of the main graph that makes each tensor."""
        return {name: index for index, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The names of the tensors that flow in: inputs with a tensor value, then weights."""
        tensors = [name for name, value in self.inputs.items() if value is not None]
        names = [name for name in tensors if not isinstance(self.inputs[name], list)]
        return tuple(dict.fromkeys([*names, *self.initializers]))

    @cached_property
    def arrays(self) -> tuple[Tensor, ...]:
        """List the arrays that flow in: the tensors of `sources`, and the members of sequences."""
        found = [array for name in self.sources if (array := self.array(name)) is not None]
        sequences = [value for value in self.inputs.values() if isinstance(value, list)]
        return (*found, *(member for value in sequences for member in value))

    @cached_property
    def dynamic(self) -> frozenset[str]:
        """The names whose value depends on a graph input, and is not fixed by constants and dims alone."""
        names = {name for name in self.graph_inputs if name not in self.initializers}
        for node, reads in zip(self.nodes, self.reads, strict=True):
            if arithmetic_of(node).asks_dims and all(self._has_fixed_dims(name) for name in reads):
                continue
            if any(name in names for name in reads) or arithmetic_of(node).is_random:
                names.update(name for name in node.output if name)
        return frozenset(names)

    def _has_fixed_dims(self, name: str) -> bool:
        """Whether the program itself says every dim of a tensor."""
        declared = self.graph_inputs[name].type if name in self.graph_inputs else self.facts.types.get(name)
        if declared is None or not declared.tensor_type.HasField("shape"):
            return name in self.initializers
        return all(dim.HasField("dim_value") for dim in declared.tensor_type.shape.dim)

    def kind(self, name: str) -> tuple[object, ...] | None:
        """The element type and dims that a replacement must share; None if unknown."""
        if name not in self._kinds:
            self._kinds[name] = shape_key(self.type_of(name))
        return self._kinds[name]

    @cached_property
    def _kinds(self) -> dict[str, tuple[object, ...] | None]:
        return {}

    def is_shape(self, name: str) -> bool:
        """Whether a tensor is read as a list of dims, axes or the like, so that its own length is no dim."""
        return name in self._shapes

    @cached_property
    def _shapes(self) -> frozenset[str]:
        """Small int64 vectors that are weights and read by nodes as shapes, axes, pads, starts or ends."""
        named = (name for node in self.nodes for name in _read_as_dims(node))
        return frozenset(name for name in named if _is_vector(self.initializers.get(name)))


def _read_as_dims(node: onnx.NodeProto) -> Sequence[str]:
    operator = arithmetic_of(node)
    if not operator.dims_at and not operator.reads_axes:
        return ()
    return list(node.input[:1] if 0 in operator.dims_at else node.input[1:])


def _is_vector(tensor: onnx.TensorProto | None) -> bool:
    return tensor is not None and tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) == 1
