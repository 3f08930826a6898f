"""Sizes that know what they stand for: a number to compute with, and the solver's term of it.

A type rule that is evaluated on such sizes computes as on any others, and hands its relation to the solver
on the way: a sum of sizes has the sum of their terms, and each comparison becomes a constraint with the
outcome that it had. So whatever sizes satisfy the constraints take the same way through the rule. (NNSmith,
section 3.2, writes each operator's constraints by hand.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from generators.language.values import RandomSource

Term = Any
"""An integer term of the solver."""


_CHECKS = 12

_LIMIT = 100_000
"""The solver's own measure of work, which is the same on any machine; no clock."""


class Trace:
    """The constraints under which everything so far comes out as it did, and the sizes that are free."""

    def __init__(self, z3: Any) -> None:
        self.z3 = z3
        # What a solver answers depends on what its context has seen; a fresh one has seen nothing.
        self.context = z3.Context()
        self.constraints: list[Term] = []
        self.free: list[tuple[Term, tuple[int, int]]] = []
        self._names = 0
        self._is_paused = False

    def unknown(self, value: int, bin: tuple[int, int]) -> Dim:
        """A free size that is this number now, and should come out in that bin."""
        self._names += 1
        term = self.z3.Int(f"d{self._names}", self.context)
        self.free.append((term, bin))
        return Dim(value, term, self)

    def note(self, claim: Term, holds: bool) -> None:
        """Ask for a claim, or for its contrary if it does not hold now."""
        if not self._is_paused:
            self.constraints.append(claim if holds else self.z3.Not(claim))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Note nothing for a while."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def solve(self) -> Callable[[int], int]:
        """Find numbers for all sizes, with as many of the drawn bins as hold together; maps sizes to them."""
        solver = self.z3.SolverFor("QF_NIA", self.context)
        solver.set("random_seed", 0)
        solver.set("rlimit", _LIMIT)
        solver.add(*dict.fromkeys(self.constraints))
        groups, model, checks = [list(self.free)], None, 0
        while groups and checks < _CHECKS:
            group, checks = groups.pop(0), checks + 1
            solver.push()
            solver.add(*(bound for term, (low, high) in group for bound in (term >= low, term <= high)))
            if solver.check() == self.z3.sat:
                model = solver.model()
                continue
            solver.pop()
            half = len(group) // 2
            groups += [part for part in (group[:half], group[half:]) if part and half]
        return int if model is None else lambda size: _evaluated(model, size)


def _evaluated(model: Any, size: int) -> int:
    if not isinstance(size, Dim):
        return int(size)
    found: int = model.eval(size.term, model_completion=True).as_long()
    return found


class Dim(int):
    """A size: the number that it was drawn as, and its term; `int` pins it to that number."""

    term: Term
    trace: Trace

    def __new__(cls, value: int, term: Term, trace: Trace) -> Dim:
        """Make a size of a number and a term."""
        made = super().__new__(cls, value)
        made.term, made.trace = term, trace
        return made

    __hash__ = int.__hash__

    def __bool__(self) -> bool:
        """Whether it is not 0, which is noted."""
        return self != 0

    def __int__(self) -> int:
        """The plain number, for good."""
        self.trace.note(self.term == plain(self), True)
        return plain(self)

    def __neg__(self) -> Dim:
        """The negative size."""
        return Dim(int.__neg__(self), -self.term, self.trace)


def plain(size: int) -> int:
    """The number alone; nothing is noted."""
    return int.__add__(size, 0)


def _computes(name: str, on_terms: Callable[[Term, Term], Term], is_reflected: bool) -> None:
    on_numbers = getattr(int, name)

    def computed(self: Dim, other: Any) -> Any:
        value = on_numbers(self, other)
        if value is NotImplemented:
            return value
        terms = self.term, other.term if isinstance(other, Dim) else int(other)
        return Dim(value, on_terms(*(terms[::-1] if is_reflected else terms)), self.trace)

    setattr(Dim, name, computed)


def _compares(name: str) -> None:
    on_numbers, on_terms = getattr(int, name), getattr(operator, name)

    def compared(self: Dim, other: Any) -> Any:
        holds = on_numbers(self, other)
        if holds is not NotImplemented and other is not self:
            self.trace.note(on_terms(self.term, other.term if isinstance(other, Dim) else int(other)), holds)
        return holds

    setattr(Dim, name, compared)


class TracedDraws(RandomSource):
    """Draws whose numbers stay between the sizes that bound them."""

    def below(self, bound: int) -> int:
        """A whole number from 0 on, below the bound."""
        return self._within(0, super().below(bound), bound - 1)

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return self._within(low, super().between(low, high), high)

    def _within(self, low: int, drawn: int, high: int) -> int:
        number = plain(drawn)
        if low > number or number > high:
            raise AssertionError(f"{number} is not in {low} … {high}")
        return number


def sizes(size: Callable[[int], int], dims: Sequence[int]) -> tuple[int, ...]:
    """The numbers that were found for sizes."""
    return tuple(map(size, dims))
