"""The record of an operator: its arithmetic, its type rule, its ranges, its sampler and solver, its opsets.

`sample` takes the operand in focus and picks the rest; `infer` gives the results' types and `bound` their
ranges. A rule sees nothing but a `Call`, so it can be asked about any call. It is written once: the
generators evaluate `infer` on numbers, and the strategy `smt` on sizes that hand what is computed with them
to z3 (`generators/solved.py`); so a rule compares and computes sizes as they are, and converts none by
`int`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from corpus.values import Tensor
from oracles.relation.arithmetic import Arithmetic
from oracles.relation.edges import TYPE, Edges
from oracles.relation.program import FIRST_OPSET, LAST_OPSET, RANKS, Call, DTypeFamily, Kind, Operand, Scope
from oracles.relation.types import SEQUENCES, DType, Range, Shape, TensorType, is_filled

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
    """The type of the first operand."""
    return (call.operand(0).type,)


def same_range(call: Call) -> tuple[Range, ...]:
    """The range of the first operand."""
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
    """One operator.

    `dtypes` and `ranks` are those of the operand in focus; `later` adds element types from an opset on.
    `filled`: neither the focus nor the first result may be without elements.
    `domain` is where the focus's values must lie for the results to be finite. `content` gives the first
    result where it follows from the operands' types. `realm` lets it in; a source looks at no operand, and
    only grows backwards, an operator without `inverse` only forwards. A name with dots is of the operator set
    before the last. `edges` are values at which it changes its character.
    """

    name: str
    kind: Kind
    arithmetic: Arithmetic
    dtypes: tuple[DType, ...]
    sampler: Sampler = sample_alone
    infer: TypeRule = same_type
    bound: RangeRule = same_range
    ranks: range = RANKS
    inverse: Inverse | None = SAME
    domain: Range | None = None
    filled: bool = False
    since: int = FIRST_OPSET
    until: int = LAST_OPSET
    later: Mapping[int, tuple[DType, ...]] = field(default_factory=dict)
    content: ContentRule | None = None
    realm: DTypeFamily | None = None
    is_source: bool = False
    edges: Edges = TYPE

    def by(
        self,
        sampler: Sampler = sample_alone,
        infer: TypeRule = same_type,
        bound: RangeRule = same_range,
        inverse: Inverse | None = SAME,
        content: ContentRule | None = None,
    ) -> Operator:
        """The operator with these rules."""
        return replace(self, sampler=sampler, infer=infer, bound=bound, inverse=inverse, content=content)

    @property
    def is_wide(self) -> bool:
        """Whether finite operands of any magnitude are safe: it moves or compares them, or says so."""
        return self.edges.is_wide or self.arithmetic.defines_nonfinite

    def belongs(self, realms: frozenset[DTypeFamily]) -> bool:
        """Whether a program of these realms may hold it."""
        realm = self.realm or (None if self.is_standard else DTypeFamily.CONTRIB)
        return realm is None or realm in realms

    @property
    def is_standard(self) -> bool:
        """Whether it is one of ONNX's own."""
        return "." not in self.name

    def sample(self, scope: Scope, focus: Operand) -> Call | None:
        """A call on the focus; None if it declines the focus."""
        return self.sampler(scope, focus) if self.has_elements(focus.shape) else None

    def has_elements(self, shape: Shape) -> bool:
        """Whether there are elements, where there must be."""
        return not self.filled or is_filled(shape)

    def recognises(self, wanted: TensorType, opset: int) -> bool:
        """Whether its first result can have this type; then `solve` finds a call."""
        known = self.since <= opset <= self.until and self.has_elements(wanted.shape)
        return known and self.inverse is not None and self.inverse.recognise(self, wanted, opset)

    def solve(self, scope: Scope, wanted: TensorType) -> Call:
        """A call whose first result has the wanted type; the scope supplies its operands.

        Raises ValueError for a type that is not recognised.
        """
        call = self.inverse.solve(self, scope, wanted) if self.inverse is not None else None
        if call is None:
            raise ValueError(f"{self.name} cannot give {wanted}")
        return call

    def dtypes_at(self, opset: int) -> tuple[DType, ...]:
        """The element types of its focus at an opset."""
        added = (dtype for first, more in self.later.items() if opset >= first for dtype in more)
        return (*self.dtypes, *added)

    def types_in(self, scope: Scope) -> list[DType]:
        """The element types of its focus that the scope's program may hold."""
        return [dtype for dtype in self.dtypes_at(scope.opset) if scope.allows(dtype)]

    def emit(
        self, scope: Scope, call: Call, types: Iterable[TensorType], ranges: Iterable[Range]
    ) -> tuple[Operand, ...]:
        """Add a call as a node with results of these types and ranges."""
        content = None if self.content is None else self.content(call)
        return scope.emit(self.name, self.kind, call, types, ranges, content)

    def takes(self, dtype: DType, rank: int, opset: int) -> bool:
        """Whether a value of this type may come into its focus."""
        if not (self.since <= opset <= self.until and rank in self.ranks):
            return False
        if dtype in SEQUENCES and not rank:
            return False
        return dtype in self.dtypes or any(
            opset >= first and dtype in added for first, added in self.later.items()
        )
