"""What an operator is to the generator: its type rule, its sampler, its numeric domain and its opsets.

Forward: `sample` takes the operand in focus and picks the rest; `infer` gives the results' types and `bound`
their ranges. All three see nothing but a `Call`, so a type rule can be asked about any call, also one that
no sampler made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from corpus.values import Tensor
from generators.language.program import (
    FIRST_OPSET,
    LAST_OPSET,
    MAX_RANK,
    Attribute,
    Call,
    DTypeFamily,
    Kind,
    Operand,
)
from generators.language.scope import Scope
from generators.language.types import SEQUENCES, DType, Range, TensorType

Sampler = Callable[["Scope", Operand], Call | None]
Recogniser = Callable[["Operator", TensorType, int], bool]
Solver = Callable[["Operator", "Scope", TensorType], Call | None]
TypeRule = Callable[[Call], tuple[TensorType, ...]]
RangeRule = Callable[[Call], tuple[Range, ...]]
ContentRule = Callable[[Call], Tensor]


def sample_alone(scope: Scope, focus: Operand) -> Call:
    """Return the sampler of an operator with one operand and no attribute."""
    return Call((focus,))


def same_type(call: Call) -> tuple[TensorType, ...]:
    """Return the type of the first operand."""
    return (call.operand(0).type,)


def same_range(call: Call) -> tuple[Range, ...]:
    """Return the range of the first operand."""
    return (call.operand(0).range,)


def averaged_range(call: Call) -> tuple[Range, ...]:
    """The bounds of a mean: it may come closer to zero than what it is the mean of."""
    return (call.operand(0).range._replace(away=0.0),)


class Joins(NamedTuple):
    """What is known of an operator of two operands that broadcast, whether it says yes or no of each pair.

    `second` are the values that the second operand may have, `attributes` draws its attributes.
    """

    is_truth: bool
    second: Callable[[DType], Range]
    attributes: Callable[[Scope, DType], Mapping[str, Attribute]]


class Inverse(NamedTuple):
    """The way back from a result: the RFC's recogniser and solver ("A type-directed Relay fuzzing library").

    `recognise` says whether the first result can have a type at an opset; `solve` then finds a call for it.
    What both rest on is told to whoever plans with dims that are not known yet: the result has the type of
    the focus (`keeps`, with values `within`), or its dims with one of the dtypes `gives`, or those to which
    two operands broadcast (`joins`), or fewer axes, which are an operand from opset `axes_since` on.
    """

    recognise: Recogniser
    solve: Solver
    keeps: bool = False
    within: Range | None = None
    gives: tuple[DType, ...] = ()
    joins: Joins | None = None
    axes_since: int = 0


def _takes_wanted(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return operator.takes(wanted.dtype, len(wanted.shape), opset)


def _sample_wanted(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
    return operator.sample(scope, scope.supply(*wanted, operator.domain))


SAME = Inverse(_takes_wanted, _sample_wanted, keeps=True)
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
    realm: DTypeFamily | None = None
    is_source: bool = False

    def belongs(self, realms: frozenset[DTypeFamily]) -> bool:
        """Return whether a program of these realms may hold it."""
        realm = self.realm or (None if self.is_standard else DTypeFamily.CONTRIB)
        return realm is None or realm in realms

    @property
    def is_standard(self) -> bool:
        """Whether it is one of ONNX's own."""
        return "." not in self.name

    def recognises(self, wanted: TensorType, opset: int) -> bool:
        """Return whether its first result can have this type; then `solve` finds a call."""
        return self.since <= opset <= self.until and self.inverse.recognise(self, wanted, opset)

    def solve(self, scope: Scope, wanted: TensorType) -> Call:
        """Return a call whose first result has the wanted type; the scope supplies its operands.

        Raises ValueError for a type that is not recognised.
        """
        call = self.inverse.solve(self, scope, wanted)
        if call is None:
            raise ValueError(f"{self.name} cannot give {wanted}")
        return call

    def dtypes_at(self, opset: int) -> tuple[DType, ...]:
        """Return the element types of its focus at an opset."""
        added = (dtype for first, more in self.later.items() if opset >= first for dtype in more)
        return (*self.dtypes, *added)

    def types_in(self, scope: Scope) -> list[DType]:
        """Return the element types of its focus that the scope's program may hold."""
        return [dtype for dtype in self.dtypes_at(scope.opset) if scope.allows(dtype)]

    def emit(
        self, scope: Scope, call: Call, types: Iterable[TensorType], ranges: Iterable[Range]
    ) -> tuple[Operand, ...]:
        """Add a call as a node with results of these types and ranges."""
        content = None if self.content is None else self.content(call)
        return scope.emit(self.name, self.kind, call, types, ranges, content)

    def takes(self, dtype: DType, rank: int, opset: int) -> bool:
        """Return whether a value of this type may come into its focus."""
        if not (self.since <= opset <= self.until and rank in self.ranks):
            return False
        if dtype in SEQUENCES and not rank:
            return False
        return dtype in self.dtypes or any(
            opset >= first and dtype in added for first, added in self.later.items()
        )
