"""The words of a grown program: operands, nodes, attributes, bodies, and what kinds and realms there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from corpus.values import Tensor
from oracles.relation.types import ALL, NARROW, TEXT, DType, Range, Shape, TensorType

MAX_RANK = 5

FIRST_OPSET, LAST_OPSET = 13, 23


class Kind(StrEnum):
    """The classes of operators; weights and affinities are between classes, never between operators."""

    ACTIVATION = "activation"
    MATH = "math"
    ARITHMETIC = "arithmetic"
    COMPARE = "compare"
    LOGIC = "logic"
    REDUCE = "reduce"
    LINEAR = "linear"
    POOL = "pool"
    NORM = "norm"
    LAYOUT = "layout"
    PAD = "pad"
    PART = "part"
    CAST = "cast"
    QUANTISE = "quantise"
    RECURRENT = "recurrent"
    RESAMPLE = "resample"
    CONTROL = "control"
    CONTAINER = "container"
    TEXT = "text"


class DTypeFamily(StrEnum):
    """A rare group of element types: a program that has one uses it more than once."""

    CONTRIB = "contrib"
    CONTROL = "control"
    CONTAINER = "container"
    TEXT = "text"
    NARROW = "narrow"
    ATEN = "aten"


ONNX_REALMS = frozenset(DTypeFamily) - {DTypeFamily.ATEN}
"""What programs for any target may hold; the operators of torch itself only come where they are asked for."""


def dtype_family_of(dtype: DType) -> DTypeFamily | None:
    """The realm of an element type; None if every program may hold the type."""
    if dtype in NARROW:
        return DTypeFamily.NARROW
    if dtype is TEXT:
        return DTypeFamily.TEXT
    return None if dtype in ALL else DTypeFamily.CONTAINER


class Operand(NamedTuple):
    """A value in the graph: its type and range, its producer's class, and its content where it is known.

    An operand that steers its operator has a known content even where it is an input of the graph.
    """

    name: str
    dtype: DType
    shape: Shape
    range: Range
    producer: Kind | None = None
    content: Tensor | None = None
    is_constant: bool = False

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def type(self) -> TensorType:
        """The element type with the shape."""
        return TensorType(self.dtype, self.shape)


class Node(NamedTuple):
    """A node before it is written."""

    op: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: Mapping[str, Attribute]

    @property
    def op_type(self) -> str:
        """The operator's name without its domain."""
        return self.op.rpartition(".")[2]

    @property
    def domain(self) -> str:
        """The operator set; empty for ONNX's own."""
        return self.op.rpartition(".")[0]

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The graphs inside it."""
        return tuple(value for value in self.attributes.values() if isinstance(value, Body))

    @property
    def uses(self) -> tuple[str, ...]:
        """The operands, and what the bodies take from outside."""
        return (*self.operands, *(name for body in self.bodies for name in body.captures))

    def reading(self, old: str, new: str) -> Node:
        """The node with another operand in the place of one."""
        return self._replace(operands=tuple(new if name == old else name for name in self.operands))


@dataclass(frozen=True, slots=True)
class Body:
    """The graph inside a node. `trips` is how often it runs, `cost` the operations of one trip, at most."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    nodes: tuple[Node, ...]
    initializers: tuple[tuple[str, Tensor], ...]
    constants: tuple[tuple[str, Tensor], ...]
    trips: int = 1
    cost: int = 0

    @property
    def captures(self) -> tuple[str, ...]:
        """List the outer names that a body uses, in the order of use."""
        own = {operand.name for operand in self.inputs}
        own |= {name for name, _ in (*self.initializers, *self.constants)}
        own |= {name for node in self.nodes for name in node.results}
        used = dict.fromkeys(name for node in self.nodes for name in node.uses if name)
        return tuple(name for name in used if name not in own)


Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Tensor | Body


class Call(NamedTuple):
    """One use of an operator: operands (None where an optional one is left out) and attributes."""

    operands: tuple[Operand | None, ...]
    attributes: Mapping[str, Attribute] = {}
    results: int = 1

    def operand(self, index: int) -> Operand:
        """The operand at an index where one must be."""
        value = self.operands[index]
        if value is None:
            raise ValueError(f"operand {index} is left out")
        return value

    def optional(self, index: int) -> Operand | None:
        """The operand at a place; None where it is left out."""
        return self.operands[index] if index < len(self.operands) else None

    def ints(self, index: int) -> tuple[int, ...] | None:
        """The known content of an operand that steers, or None where it is left out."""
        value = self.optional(index)
        if value is None or value.content is None:
            return None
        return tuple(value.content.reshape(-1).tolist())

    def integer(self, name: str, default: int) -> int:
        """An integer attribute, or the default."""
        value = self.attributes.get(name, default)
        assert isinstance(value, int)
        return value

    def body(self, name: str) -> Body:
        """An attribute that is a graph."""
        value = self.attributes[name]
        assert isinstance(value, Body)
        return value

    def tuple_of(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """An attribute that is a list of integers, or the default."""
        value = self.attributes.get(name, default)
        assert isinstance(value, tuple)
        return tuple(item for item in value if isinstance(item, int))

    @property
    def present(self) -> list[Operand]:
        """The operands that are not left out."""
        return [value for value in self.operands if value is not None]


def require(claim: bool, what: str) -> None:
    """State what the operands of a call must satisfy; raises ValueError where they do not."""
    if not claim:
        raise ValueError(what)
