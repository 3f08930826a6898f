"""What every subject has, whatever its format; and what those have that are made of nodes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

from corpus.case import Case, ExternalFile
from corpus.onnx.model_file import map_weight
from corpus.onnx.types import element_type
from corpus.values import Tensor, Value
from oracles.operators import arithmetic_of
from reducer.search import Items


def type_of(value: Value) -> onnx.TypeProto | None:
    """The static type of a value; None for an absent optional, an empty sequence and one of maps."""
    if isinstance(value, list):
        if not value or not all(isinstance(member, np.ndarray) for member in value):
            return None
        return helper.make_sequence_type_proto(_member_type(value))
    if value is None:
        return None
    return helper.make_tensor_type_proto(element_type(value.dtype), value.shape)


def farthest(array: Tensor) -> int:
    """The flat index of the value farthest from zero, the first of several; NaN is farther than any."""
    is_complex = array.dtype.kind == "c"
    wide = np.abs(np.asarray(array).astype(np.complex128 if is_complex else np.float64)).ravel()
    return int(np.argmax(np.where(np.isnan(wide), np.inf, wide)))


def real_parts(array: Tensor) -> Tensor:
    """The numbers of a tensor in a row; of a complex one both parts of each."""
    row = np.ascontiguousarray(array).ravel()
    return row.view(row.real.dtype) if row.dtype.kind == "c" else row


def agrees(declared: onnx.TypeProto, value: Value) -> bool:
    """Whether a tensor has the dims of a type; symbolic dims agree with any, and what is no tensor agrees."""
    if not isinstance(value, np.ndarray) or not declared.tensor_type.HasField("shape"):
        return True
    dims = declared.tensor_type.shape.dim
    fixed = (
        (dim.dim_value, size)
        for dim, size in zip(dims, value.shape, strict=False)
        if dim.HasField("dim_value")
    )
    return len(dims) == value.ndim and all(wanted == size for wanted, size in fixed)


def _member_type(members: list[Tensor]) -> onnx.TypeProto:
    """The common type of a sequence's members; dims or ranks that differ are left open."""
    ranks = {member.ndim for member in members}
    if len(ranks) > 1:
        return helper.make_tensor_type_proto(element_type(members[0].dtype), None)
    dims = [set(sizes) for sizes in zip(*(member.shape for member in members), strict=True)]
    shape = [sizes.pop() if len(sizes) == 1 else None for sizes in dims]
    return helper.make_tensor_type_proto(element_type(members[0].dtype), shape)


def initializer(name: str, array: Tensor) -> onnx.TensorProto:
    """An initializer that holds `array`."""
    if array.dtype.kind in "US":
        array = array.astype(object)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def read_tensor(tensor: onnx.TensorProto, external: Iterable[ExternalFile]) -> Tensor:
    """The array of an initializer; one kept outside the model is a view of its file, never read whole."""
    return map_weight(tensor, {file.location: file for file in external})


def shape_key(type_proto: onnx.TypeProto | None) -> tuple[object, ...] | None:
    """The element type and dims, with symbols, that a stand-in must share; None if unknown."""
    if type_proto is None:
        return None
    kind = type_proto.WhichOneof("value")
    if kind != "tensor_type":
        return (kind, type_proto.SerializeToString(deterministic=True))
    tensor = type_proto.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = tuple(_dim_key(dim) for dim in tensor.shape.dim)
    return None if None in dims else (tensor.elem_type, dims)


def _dim_key(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or None


Window: TypeAlias = tuple[int, int]
"""The first position kept, and the one after the last."""


@dataclass(frozen=True)
class Resize:
    """Windows by old dim: every axis of that size is cut to its window.

    `only` is the tensor and axis that is cut alone, whatever else is as long.
    """

    windows: tuple[tuple[int, Window], ...]
    only: tuple[str, int] | None = None

    def window(self, name: str, axis: int, dim: int) -> Window | None:
        """The part of a dim that is left, for the axis that is being shrunk; None for the whole."""
        if self.only is not None and self.only != (name, axis):
            return None
        return dict(self.windows).get(dim)

    def size_of(self, dim: int) -> int:
        """The size that a dim has under these windows."""
        low, high = dict(self.windows).get(dim, (0, dim))
        return high - low

    def index(self, name: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """The slices that cut a tensor of this name and shape."""
        windows = [self.window(name, axis, dim) or (0, dim) for axis, dim in enumerate(shape)]
        return tuple(slice(low, high) for low, high in windows)


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

    @cached_property
    def is_filled(self) -> bool:
        """Whether tensors were recorded, and none of them is without elements."""
        tensors = [value for value in self.values.values() if isinstance(value, np.ndarray)]
        return bool(tensors) and all(tensor.size for tensor in tensors)


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

    @property
    def is_emptied(self) -> bool:
        """Whether data has come to be without elements, where all had some: that is another cause."""
        return False

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
    def data(self) -> Mapping[str, Tensor]:
        """The tensors that flow in and whose values are data, not dims or axes."""
        found = {name: self.array(name) for name in self.sources if not self.is_shape(name)}
        return {name: array for name, array in found.items() if array is not None}

    @cached_property
    def arrays(self) -> tuple[Tensor, ...]:
        """List the arrays that flow in: the tensors of `sources`, and the members of sequences."""
        found = [array for name in self.sources if (array := self.array(name)) is not None]
        sequences = [value for value in self.inputs.values() if isinstance(value, list)]
        return (*found, *(member for value in sequences for member in value))

    @cached_property
    def is_emptied(self) -> bool:
        """Whether data has come to be without elements, where all had some: that is another cause."""
        if not self.facts.is_filled:
            return False
        declared = (output.type.tensor_type.shape.dim for output in self.graph_outputs.values())
        is_empty = not all(array.size for array in self.data.values())
        return is_empty or any(
            dim.HasField("dim_value") and not dim.dim_value for dims in declared for dim in dims
        )

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
        named = {name for node in self.nodes for name in _read_as_dims(node)} & self.initializers.keys()
        kinds = {
            name: (self.initializers[name].data_type, len(self.initializers[name].dims)) for name in named
        }
        return frozenset(name for name, kind in kinds.items() if kind == (onnx.TensorProto.INT64, 1))


def _read_as_dims(node: onnx.NodeProto) -> Sequence[str]:
    operator = arithmetic_of(node)
    if not operator.dims_at and not operator.reads_axes:
        return ()
    return list(node.input[:1] if 0 in operator.dims_at else node.input[1:])
