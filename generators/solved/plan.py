"""Operators over symbolic shapes, what their dims and attributes must satisfy, and the query for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from generators.language.operator import Operator
from generators.language.profile import BINS
from generators.language.program import MAX_RANK, Call, DTypeFamily, Operand
from generators.language.random_source import RandomSource
from generators.language.scope import MAX_ELEMENTS, DoesNotFit, Scope
from generators.language.types import DType, Range
from generators.ops import all_operators

_AMOUNTS = ((0, 0), (0, 1), (1, 2), (2, 3), (3, 5), (5, 9))
_LIMIT = 200_000
"""The solver's own measure of work, which is the same on any machine; no clock."""

Term = Any
"""An integer, or an integer term of the solver."""
Dims = tuple[Term, ...]


class Value(NamedTuple):
    """A value of which the dims are terms; `node` made it, as its `result`, or it is an input."""

    dtype: DType
    dims: Dims
    node: int = -1
    result: int = 0

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.dims)


@dataclass(frozen=True)
class Use:
    """A planned operator while it is put into the program; `get` gives an operand, and makes an input."""

    scope: Scope
    operator: Operator
    get: Callable[..., Operand]
    size: Callable[[Term], int]

    def sizes(self, terms: Sequence[Term]) -> tuple[int, ...]:
        """Return the numbers that were found for terms."""
        return tuple(self.size(term) for term in terms)

    def ints(self, terms: Sequence[Term]) -> Operand:
        """These numbers as an operand that steers."""
        return self.scope.fix_ints(self.sizes(terms))

    def focus(self, within: Range | None = None) -> Operand:
        """Return the first operand, within the operator's domain where it is made for it."""
        return self.get(0, self.operator.domain or within)


class Planned(NamedTuple):
    """An operator with its operands; the first of `names` whose call gives the planned dims is taken."""

    names: tuple[str, ...]
    operands: tuple[Value, ...]
    make: Callable[[Use], Call | None]
    results: tuple[tuple[DType, Dims], ...]


class Plan:
    """Operators over symbolic shapes, and the constraints on their dims."""

    def __init__(
        self,
        draws: RandomSource,
        z3: Any,
        opset: int,
        dtypes: Sequence[DType],
        realms: frozenset[DTypeFamily],
    ) -> None:
        self.draws = draws
        self.z3 = z3
        self.opset = opset
        self.dtypes = dtypes
        # What a solver answers depends on what its context has seen; a fresh one has seen nothing.
        self.context = z3.Context()
        self.constraints: list[Term] = []
        self.free: list[tuple[Term, tuple[int, int]]] = []
        self.nodes: list[Planned] = []
        self.values: list[Value] = []
        self.operators = [each for each in all_operators() if each.belongs(realms)]

    # Terms

    def dim(self) -> Term:
        """Return a new unknown size."""
        return self._unknown(1, BINS)

    def amount(self, least: int = 0) -> Term:
        """Return a new unknown attribute, such as a pad or a window, not below `least`."""
        return self._unknown(least, _AMOUNTS)

    def _unknown(self, least: int, bins: Sequence[tuple[int, int]]) -> Term:
        made = self.z3.Int(f"d{len(self.free)}", self.context)
        low, high = self.draws.pick(bins)
        self.free.append((made, (max(low, least), max(high, least))))
        self.constraints.append(made >= least)
        return made

    def must(self, *terms: Term) -> None:
        """Ask for constraints."""
        self.constraints += terms

    def fits(self, dims: Sequence[Term]) -> None:
        """Ask for no more elements than programs may hold."""
        if any(not isinstance(dim, int) for dim in dims):
            self.must(self.z3.Product(*dims) <= MAX_ELEMENTS)

    def equal(self, left: Sequence[Term], right: Sequence[Term]) -> None:
        """Ask for equal sizes, dim by dim."""
        self.must(*(a == b for a, b in zip(left, right, strict=True) if a is not b))

    # Values

    def input(self, dtype: DType, dims: Sequence[Term] | int) -> Value:
        """Return a new input: of these dims, or of unknown ones of that rank."""
        shape = tuple(self.dim() for _ in range(dims)) if isinstance(dims, int) else tuple(dims)
        made = Value(dtype, shape, result=len(self.values))
        self.values.append(made)
        self.fits(shape)
        return made

    def focus(self, least: int, most: int = MAX_RANK, dtypes: Sequence[DType] | None = None) -> Value:
        """Return a value that is there, mostly the latest; raises `DoesNotFit` where none has such a type."""
        found = [
            value
            for value in self.values
            if least <= value.rank <= most and (dtypes is None or value.dtype in dtypes)
        ]
        if not found:
            raise DoesNotFit("rank")
        return found[-1] if self.draws.chance(0.5) else self.draws.pick(found)

    def other(self, dtype: DType, rank: int) -> Value:
        """Another value of this dtype and rank: one that is there or a new input."""
        found = [value for value in self.values if value.rank == rank and value.dtype is dtype]
        return self.draws.pick(found) if found and self.draws.chance(0.7) else self.input(dtype, rank)

    # Operators

    def taking(self, value: Value, *names: str) -> list[Operator]:
        """Those of the operators (of all where none is named) that take the value into their focus."""
        known = [each for each in self.operators if not names or each.name in names]
        return [each for each in known if each.takes(value.dtype, value.rank, self.opset)]

    def one_of(self, value: Value, *names: str) -> str:
        """Return the name of one of these operators that takes the value; raises `DoesNotFit`."""
        found = self.taking(value, *names)
        if not found:
            raise DoesNotFit(names[0])
        return self.draws.pick(found).name

    def add(
        self,
        names: str | Sequence[str],
        operands: Sequence[Value],
        make: Callable[[Use], Call | None],
        *results: tuple[DType, Sequence[Term]],
    ) -> None:
        """Plan a node."""
        shown = tuple((dtype, tuple(dims)) for dtype, dims in results)
        tried = (names,) if isinstance(names, str) else tuple(names)
        self.nodes.append(Planned(tried, tuple(operands), make, shown))
        at = len(self.nodes) - 1
        self.values += [Value(dtype, dims, at, index) for index, (dtype, dims) in enumerate(shown)]
        for _, dims in shown:
            self.fits(dims)

    # The query

    def solve(self) -> Callable[[Term], int] | None:
        """Numbers for the terms, with as many of the drawn bins as hold together; None where nothing does."""
        solver = self.z3.SolverFor("QF_NIA", self.context)
        solver.set("random_seed", 0)
        solver.set("rlimit", _LIMIT)
        solver.add(*self.constraints)
        solver.push()
        wanted = [(term >= low, term <= high) for term, (low, high) in self.free]
        while wanted:
            solver.add(*(term for pair in wanted for term in pair))
            if solver.check() == self.z3.sat:
                break
            solver.pop()
            solver.push()
            wanted = wanted[: len(wanted) // 2]
        if not wanted and solver.check() != self.z3.sat:
            return None
        model = solver.model()
        return lambda term: (
            term if isinstance(term, int) else model.eval(term, model_completion=True).as_long()
        )
