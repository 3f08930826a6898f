"""The words of a grown program: operands, nodes, attributes, bodies, and what kinds and realms there are.

The generators' own scope has more; an operator sees nothing of it but this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpus.values import Tensor
from oracles.relation.types import ALL, ANYTHING, I64, NARROW, TEXT, DType, Range, Shape, TensorType

MAX_RANK = 5
RANKS, ALONG, FLAT = range(MAX_RANK + 1), range(1, MAX_RANK + 1), range(2, MAX_RANK + 1)
"""The ranks of everything, of what has an axis, and of what has two."""
VECTOR, MATRIX, CUBE, IMAGE = (range(rank, rank + 1) for rank in range(1, 5))
"""The ranks of what has just one axis, two, three or four."""

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
    ML = "ml"
    ATEN = "aten"


ONNX_REALMS = frozenset(DTypeFamily) - {DTypeFamily.ATEN}
"""What programs for any target may hold; the operators of torch itself only come where they are asked for."""
UNTYPED_REALMS = frozenset({DTypeFamily.CONTRIB, DTypeFamily.ML})
"""Of operators whose types onnx does not infer: they are declared, which only a main graph can do."""


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

    def floats_of(self, name: str) -> tuple[float, ...]:
        """An attribute that is a list or a tensor of floats; empty where it is left out."""
        value = self.attributes.get(name, ())
        if isinstance(value, np.ndarray):
            return tuple(value.reshape(-1).tolist())
        assert isinstance(value, tuple)
        return tuple(item for item in value if isinstance(item, float))

    def text_of(self, name: str, default: str) -> str:
        """An attribute that is a text, or the default."""
        return str(self.attributes.get(name, default))

    @property
    def present(self) -> list[Operand]:
        """The operands that are not left out."""
        return [value for value in self.operands if value is not None]


def require(claim: bool, what: str) -> None:
    """State what the operands of a call must satisfy; raises ValueError where they do not."""
    if not claim:
        raise ValueError(what)


MAX_ELEMENTS = 2048
"""No tensor of a program holds more."""


def volume(shape: Shape) -> int:
    """Count the elements against the budget; an empty dim counts as one."""
    return math.prod(max(dim, 1) for dim in shape)


def fits(*shapes: Shape) -> bool:
    """Whether no shape has more elements than programs may hold."""
    return all(volume(shape) <= MAX_ELEMENTS for shape in shapes)


T = TypeVar("T")


class DoesNotFit(Exception):
    """Something that was to be made leaves the budget: whatever it was for is declined."""


class RandomSource(Protocol):
    """The random source of one program."""

    def below(self, bound: int) -> int:
        """Draw a whole number from 0 on, below the bound."""

    def between(self, low: int, high: int) -> int:
        """Draw an integer between two, both included."""

    def chance(self, probability: float) -> bool:
        """Draw whether something of that probability happens."""

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items, each as likely."""

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """Draw one of the items, by their weights."""

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Draw different items, in the order drawn."""

    def words(self, count: int) -> NDArray[np.uint32]:
        """Draw uniform 32-bit words."""


class Leanings(Protocol):
    """What the whole program leans to: its usual element types, and rates."""

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The usual element types."""

    @property
    def reuse(self) -> float:
        """How often a value that is there is taken again."""

    @property
    def shared(self) -> float:
        """How often an inner value is an output too."""

    @property
    def binned(self) -> float:
        """How often a number comes from a bin between powers of two."""

    @property
    def extreme(self) -> float:
        """How often values are edges of the operator that reads them, or of their type."""


class Scope(Protocol):
    """The program so far: values to reuse, new operands, sizes and axes; the concrete one documents each."""

    opset: int
    pool: list[Operand]

    @property
    def draws(self) -> RandomSource:
        """The random source of the program."""

    @property
    def profile(self) -> Leanings:
        """What the whole program leans to."""

    @property
    def takes_inputs(self) -> bool:
        """Whether new operands may be inputs of the graph: not inside of a node."""

    def allows(self, dtype: DType) -> bool:
        """Whether the program may hold values of that element type."""

    def fresh_name(self) -> str:
        """A name that was not given before."""

    def create(
        self, dtype: DType, shape: Shape, within: Range | None = None, *, as_input: bool = False
    ) -> Operand:
        """A new operand with drawn content: an input of the graph, an initializer or a Constant."""

    def supply(self, dtype: DType, shape: Shape, within: Range | None = None) -> Operand:
        """A value of exactly this type: reused or created."""

    def partner(self, focus: Operand, within: Range | None = None, dtype: DType | None = None) -> Operand:
        """The other operand of an elementwise operator: broadcasts with the focus."""

    def reuse(self, dtype: DType, fits: Callable[[Shape], bool], within: Range = ANYTHING) -> Operand | None:
        """A value that is there already and suits, or None."""

    def fix(self, array: Tensor, dtype: DType = I64) -> Operand:
        """An operand that steers the operator (a shape, axes, a scale): nearly always a constant."""

    def fix_ints(self, values: Iterable[int]) -> Operand:
        """A constant of these int64 values, of rank 1."""

    def fix_scalar(self, value: float, dtype: DType) -> Operand:
        """A fixed operand of rank 0; what the type does not hold is brought to its nearest bound."""

    def constant(self, array: Tensor, dtype: DType) -> Operand:
        """An operand whose content decides the types of the results: never an input."""

    def content_of(self, operand: Operand) -> Tensor | None:
        """The known content of an operand; None for a node's result."""

    def broadcasting_shape(self, shape: Shape) -> Shape:
        """A shape that broadcasts with this one: equal, a suffix, with ones, rarely of higher rank."""

    def dim(self) -> int:
        """A size for a new shape."""

    def shape(self, rank: int) -> Shape:
        """A shape of this rank within the budget."""

    def amount(self, usual: Sequence[int], most: int) -> int:
        """Draw an attribute's number: a usual one, or by the profile's rate one of a bin up to `most`."""

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""

    def axes(self, rank: int, least: int = 1, most: int | None = None) -> tuple[int, ...]:
        """Different axes, each counted from either end, in any order."""

    def emit(
        self,
        name: str,
        kind: Kind,
        call: Call,
        types: Iterable[TensorType],
        ranges: Iterable[Range],
        content: Tensor | None,
    ) -> tuple[Operand, ...]:
        """Add a node of an operator of that name and class, and its results, which hold a content if any."""

    # Graphs inside of nodes

    def inside(self) -> Scope:
        """Make a scope for the graph inside a node. The inner graph may read the outer values."""

    def keep_names(self) -> None:
        """Keep the names that were given in here out of the outer graph."""

    def close(self, inputs: Iterable[Operand], outputs: Iterable[Operand], trips: int) -> Body:
        """End a body and return it; its names are not used again."""

    def grow(self, focus: Operand, nodes: int) -> list[Operand]:
        """Put some nodes one after another, from a value on; their results."""

    def wanted(self, wanted: TensorType) -> Operand:
        """A new result of the wanted type."""

    def use(self, name: str, call: Call) -> tuple[Operand, ...] | None:
        """Add a node of the operator of that name; None if a result leaves the budget."""


def node_of(name: str, call: Call, results: tuple[str, ...]) -> Node:
    """The node of a call."""
    names = tuple("" if value is None else value.name for value in call.operands)
    return Node(name, names, results, call.attributes)
