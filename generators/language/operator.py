"""What an operator is to the generator: its type rule, its sampler, its numeric domain and its opsets.

Forward: `sample` takes the operand in focus and picks the rest; `infer` gives the results' types and `bound`
their ranges. All three see nothing but a `Call`, so a type rule can be asked about any call, also one that
no sampler made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from corpus.values import Tensor
from generators.language.types import ALL, NARROW, SEQUENCES, TEXT, DType, Range, Shape, TensorType

if TYPE_CHECKING:
    from generators.language.scope import Scope

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


class Realm(StrEnum):
    """What only some programs hold, and then more than once."""

    CONTRIB = "contrib"
    CONTROL = "control"
    CONTAINER = "container"
    TEXT = "text"
    NARROW = "narrow"
    ATEN = "aten"


ONNX_REALMS = frozenset(Realm) - {Realm.ATEN}
"""What programs for any target may hold; the operators of torch itself only come where they are asked for."""


def realm_of(dtype: DType) -> Realm | None:
    """What lets an element type in; None where every program may hold it."""
    if dtype in NARROW:
        return Realm.NARROW
    if dtype is TEXT:
        return Realm.TEXT
    return None if dtype in ALL else Realm.CONTAINER


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
        return len(self.shape)

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape)


class Node(NamedTuple):
    """A node before it is written."""

    op: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: Mapping[str, Attribute]

    @property
    def op_type(self) -> str:
        return self.op.rpartition(".")[2]

    @property
    def domain(self) -> str:
        """The operator set; empty for ONNX's own."""
        return self.op.rpartition(".")[0]

    @property
    def uses(self) -> tuple[str, ...]:
        """The operands, and what the bodies take from outside."""
        bodies = [value for value in self.attributes.values() if isinstance(value, Body)]
        return (*self.operands, *(name for body in bodies for name in body.captures))


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
        """What it takes from outside, in the order of use."""
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
        return self.operands[index] if index < len(self.operands) else None

    def ints(self, index: int) -> tuple[int, ...] | None:
        """The known content of an operand that steers, or None where it is left out."""
        value = self.optional(index)
        if value is None or value.content is None:
            return None
        return tuple(int(item) for item in value.content.reshape(-1).tolist())

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        assert isinstance(value, int)
        return value

    def body(self, name: str) -> Body:
        value = self.attributes[name]
        assert isinstance(value, Body)
        return value

    def tuple_of(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        value = self.attributes.get(name, default)
        assert isinstance(value, tuple)
        return tuple(int(item) for item in value)

    @property
    def present(self) -> list[Operand]:
        return [value for value in self.operands if value is not None]


Sampler = Callable[["Scope", Operand], Call | None]
Recogniser = Callable[["Operator", TensorType, int], bool]
Solver = Callable[["Operator", "Scope", TensorType], Call | None]
TypeRule = Callable[[Call], tuple[TensorType, ...]]
RangeRule = Callable[[Call], tuple[Range, ...]]
ContentRule = Callable[[Call], Tensor]


def sample_alone(scope: Scope, focus: Operand) -> Call:
    """The sampler of an operator with one operand and no attribute."""
    return Call((focus,))


def same_type(call: Call) -> tuple[TensorType, ...]:
    return (call.operand(0).type,)


def same_range(call: Call) -> tuple[Range, ...]:
    return (call.operand(0).range,)


def averaged_range(call: Call) -> tuple[Range, ...]:
    """The bounds of a mean: it may come closer to zero than what it is the mean of."""
    return (call.operand(0).range._replace(away=0.0),)


class Inverse(NamedTuple):
    """The way back from a result: the RFC's recogniser and solver ("A type-directed Relay fuzzing library").

    `recognise` says whether the first result can have a type at an opset; `solve` then finds a call for it.
    """

    recognise: Recogniser
    solve: Solver


def _takes_wanted(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return operator.takes(wanted.dtype, len(wanted.shape), opset)


def _sample_wanted(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
    return operator.sample(scope, scope.supply(*wanted, operator.domain))


SAME = Inverse(_takes_wanted, _sample_wanted)
"""Of operators whose first result has the type of the focus, whatever else is drawn."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator. `sample` may decline a focus (None).

    `dtypes` and `ranks` are those of the operand in focus; `later` adds element types from an opset on.
    `domain` is where the focus's values must lie for the results to be finite. `content` gives the first
    result where it follows from the operands' types. `realm` lets it in; a source looks at no operand, and
    only grows backwards. A name with dots is of the operator set before the last.
    """

    name: str
    kind: Kind
    dtypes: tuple[DType, ...]
    sample: Sampler = sample_alone
    infer: TypeRule = same_type
    bound: RangeRule = same_range
    ranks: range = range(MAX_RANK + 1)
    domain: Range | None = None
    since: int = FIRST_OPSET
    until: int = LAST_OPSET
    later: Mapping[int, tuple[DType, ...]] = field(default_factory=dict)
    inverse: Inverse = SAME
    content: ContentRule | None = None
    realm: Realm | None = None
    is_source: bool = False

    def belongs(self, realms: frozenset[Realm]) -> bool:
        """Whether a program of these realms may hold it."""
        realm = self.realm or (None if self.is_standard else Realm.CONTRIB)
        return realm is None or realm in realms

    @property
    def is_standard(self) -> bool:
        """Whether it is one of ONNX's own."""
        return "." not in self.name

    def recognises(self, wanted: TensorType, opset: int) -> bool:
        """Whether its first result can have this type; then `solve` finds a call."""
        return self.since <= opset <= self.until and self.inverse.recognise(self, wanted, opset)

    def solve(self, scope: Scope, wanted: TensorType) -> Call:
        """A call whose first result has the wanted type; the scope supplies its operands.

        Raises ValueError for a type that is not recognised.
        """
        call = self.inverse.solve(self, scope, wanted)
        if call is None:
            raise ValueError(f"{self.name} cannot give {wanted}")
        return call

    def dtypes_at(self, opset: int) -> tuple[DType, ...]:
        """The element types of its focus at an opset."""
        added = (dtype for first, more in self.later.items() if opset >= first for dtype in more)
        return (*self.dtypes, *added)

    def takes(self, dtype: DType, rank: int, opset: int) -> bool:
        """Whether a value of this type may come into its focus."""
        if not (self.since <= opset <= self.until and rank in self.ranks):
            return False
        if dtype in SEQUENCES and not rank:
            return False
        return dtype in self.dtypes or any(
            opset >= first and dtype in added for first, added in self.later.items()
        )
