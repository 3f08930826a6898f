"""Programs whose sizes a solver finds (NNSmith, section 3.2): one query for all operators of a program.

A program is drawn as any other, on sizes that note what is computed with them (`solved_dims.py`): the type
rules themselves are so the constraints that z3 gets. What leaves its range in the sizes that were found is
left out, with its users.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corpus.values import Tensor
from generators.growth.grow import Program, begin, finish, grow_to, leaning_choice
from generators.growth.steps import Bodies, new_scope, place
from generators.language.profile import BINNED, BINS, Budget, Profile, draw_profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from generators.solved_dims import Dim, Trace, TracedDraws, _compares, _computes, plain, sizes
from oracles.operators import find_operator
from oracles.relation.program import (
    MAX_ELEMENTS,
    Attribute,
    Call,
    DoesNotFit,
    DTypeFamily,
    Kind,
    Operand,
)
from oracles.relation.types import ANYTHING, I64, DType, Range, Shape, TensorType

for _name, _on_terms in {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.truediv,
    "mod": operator.mod,
}.items():
    _computes(f"__{_name}__", _on_terms, is_reflected=False)
    _computes(f"__r{_name}__", _on_terms, is_reflected=True)
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    _compares(f"__{_name}__")


_AMOUNTS = ((0, 0), (0, 1), (1, 2), (2, 3), (3, 5), (5, 9))


@dataclass(frozen=True)
class Created:
    """An operand with content of its own; its bounds may be sizes."""

    operand: Operand
    within: Range
    is_input: bool


@dataclass(frozen=True)
class Fixed:
    """An operand that steers, with its content or the sizes that it is made of."""

    operand: Operand
    content: Tensor | tuple[int, ...]


@dataclass(frozen=True)
class Used:
    """A call of an operator, the names of its results and the types that it gives."""

    name: str
    call: Call
    results: tuple[str, ...]
    types: tuple[TensorType, ...]


class SketchScope(Scope):
    """A scope in which sizes and numbers of attributes are free."""

    def __init__(self, draws: TracedDraws, profile: Profile, trace: Trace) -> None:
        super().__init__(draws, profile, Bodies())
        self.trace = trace
        self.sources: dict[str, Created | Fixed] = {}
        self.uses: list[Used] = []
        self.needs: dict[str, Range] = {}

    @property
    def _parts(self) -> tuple[list, ...]:  # type: ignore[type-arg]
        return *super()._parts, self.uses, self.trace.constraints, self.trace.free

    # Sizes

    def dim(self) -> int:
        """A free size."""
        return self._at_least(1, self.trace.unknown(super().dim(), self.draws.pick(BINS)))

    def shape(self, rank: int) -> Shape:
        """A shape of free sizes."""
        with self.trace.paused():
            drawn = super().shape(rank)
        return tuple(self._at_least(1, dim) if isinstance(dim, Dim) else dim for dim in drawn)

    def amount(self, usual: Sequence[int], most: int) -> int:
        """A free number for an attribute, no less than the usual ones."""
        least = min(usual)
        low, high = (max(end, least) for end in self.draws.pick(_AMOUNTS))
        found = self.trace.unknown(plain(super().amount(usual, most)), (low, high))
        if found > max(most, *usual):
            raise DoesNotFit("an amount")
        return self._at_least(least, found)

    @staticmethod
    def _at_least(least: int, size: Dim) -> Dim:
        if size and size < least:
            raise DoesNotFit("a size")
        return size

    # Operands

    def create(
        self,
        dtype: DType,
        shape: Shape,
        within: Range | None = None,
        *,
        as_input: bool = False,
        near: Sequence[float] = (),
    ) -> Operand:
        """A new operand of these sizes."""
        if math.prod(shape) > MAX_ELEMENTS:
            raise DoesNotFit(str(shape))
        before = len(self.inputs)
        with self.trace.paused():
            made = super().create(dtype, shape, within, as_input=as_input, near=near)
        made = made._replace(range=Range(*(plain(x) if isinstance(x, Dim) else x for x in made.range)))
        self.pool[-1] = made
        has_sizes = within is not None and any(isinstance(bound, Dim) for bound in within)
        bounds = within if has_sizes and within is not None else made.range
        self.needs.pop(made.name, None)
        self.sources[made.name] = Created(made, bounds, len(self.inputs) > before)
        return made

    def fix(self, array: Tensor, dtype: DType = I64) -> Operand:
        """An operand that steers; whoever reads more than a number of it has the sizes that it has."""
        made = super().fix(array, dtype)
        self.sources[made.name] = Fixed(made, np.asarray(array))
        return made

    def fix_ints(self, values: Iterable[int]) -> Operand:
        """A constant of sizes."""
        listed = tuple(values)
        made = super().fix(np.array([*map(plain, listed)], dtype=np.int64))
        self.sources[made.name] = Fixed(made, listed)
        return made._replace(content=np.array([*listed, None], dtype=object)[:-1])

    def fix_scalar(self, value: float, dtype: DType) -> Operand:
        """A fixed operand of rank 0."""
        return super().fix_scalar(int(value) if isinstance(value, Dim) else value, dtype)

    def reuse(self, dtype: DType, fits: Callable[[Shape], bool], within: Range = ANYTHING) -> Operand | None:
        """A value that is there already and suits, with what it must suit."""
        with self.trace.paused():
            found = super().reuse(dtype, fits, within)
        if found is not None and fits(found.shape) and within != ANYTHING:
            old = self.needs.get(found.name, ANYTHING)
            low, high, away = (plain(x) if isinstance(x, Dim) else x for x in within)
            self.needs[found.name] = Range(max(old.low, low), min(old.high, high), max(old.away, away))
        return found

    def emit(
        self,
        name: str,
        kind: Kind,
        call: Call,
        types: Iterable[TensorType],
        ranges: Iterable[Range],
        content: Tensor | None,
    ) -> tuple[Operand, ...]:
        """Add a node and keep its call; what was empty stays empty."""
        given = tuple(types)
        results = super().emit(name, kind, call, given, ranges, content)
        for result in results:  # a name that an attempt gave up is given anew
            self.sources.pop(result.name, None)
            self.needs.pop(result.name, None)
        for size in (size for result in results for size in result.shape):
            _ = size > 0 if size else None
        if any(self._is_stiff(operand) for operand in call.present):
            _ = [int(size) for operand in (*call.present, *results) for size in operand.shape]
        self.uses.append(Used(name, call, tuple(result.name for result in results), given))
        return results

    def _is_stiff(self, operand: Operand) -> bool:
        """Whether numbers that were drawn for these sizes stand in an operand."""
        source = self.sources.get(operand.name)
        return isinstance(source, Fixed) and not isinstance(source.content, tuple) and bool(operand.shape)


_NODES_AT_ONCE = 12
"""Operators in one query; the rest of a larger program grows forward."""
_APART = frozenset((DTypeFamily.CONTROL, DTypeFamily.CONTAINER, DTypeFamily.TEXT, DTypeFamily.ML))
"""Realms whose values have no sizes, bodies around them, or attributes as long as a size."""


def solved_program(seed: int, nodes: int, budget: Budget, z3: Any) -> Program:
    """A sketch with the sizes that were found, and forward growth for the rest."""
    name = f"smt/{seed}/{nodes}"
    draws = RandomSource(name)
    profile = replace(draw_profile(draws, budget), binned=BINNED)
    sketch = _sketched(f"{name}/sketch", min(nodes, _NODES_AT_ONCE), profile, Trace(z3))
    scope = new_scope(draws, replace(profile, extreme=0.0))
    Realising(scope, sketch, sketch.trace.solve()).place_all()
    if not scope.nodes:
        begin(scope)
    grow_to(scope, leaning_choice(draws), nodes)
    return finish(scope)


def _sketched(name: str, nodes: int, profile: Profile, trace: Trace) -> SketchScope:
    draws = TracedDraws(name)
    calm = replace(profile, realms=profile.realms - _APART, extreme=0.0, binned=0.0)
    scope = SketchScope(draws, calm, trace)
    choose = leaning_choice(draws)
    for part in (nodes // 2, nodes):
        begin(scope)
        grow_to(scope, choose, part)
    return scope


class Realising:
    """A sketch put into a scope, in other sizes."""

    def __init__(self, scope: Scope, sketch: SketchScope, size: Callable[[int], int]) -> None:
        self.scope, self.sketch, self.size = scope, sketch, size
        self.made: dict[str, Operand] = {}

    def place_all(self) -> None:
        """Put the operators in, in the order of the sketch."""
        for used in self.sketch.uses:
            mark, before = self.scope.mark(), dict(self.made)
            with suppress(DoesNotFit, ValueError):
                if self._placed(used):
                    continue
            self.scope.restore(mark)
            self.made = before

    def _placed(self, used: Used) -> bool:
        """Put one call in, if it gives the types that were sketched."""
        operator = find_operator(used.name)
        operands = tuple(None if each is None else self._operand(each) for each in used.call.operands)
        attributes = {key: self._number(value) for key, value in used.call.attributes.items()}
        call = Call(operands, attributes, used.call.results)
        wanted = [TensorType(dtype, sizes(self.size, dims)) for dtype, dims in used.types]
        domain = operator.domain
        is_defined = domain is None or any(each.range.is_within(domain) for each in call.present)
        if not is_defined or list(operator.infer(call)) != wanted:
            return False
        results = place(self.scope, operator, call)
        self.made.update(zip(used.results, results or (), strict=bool(results)))
        return results is not None

    def _operand(self, sketched: Operand) -> Operand:
        if sketched.name not in self.made:
            self.made[sketched.name] = self._source(sketched.name)
        found = self.made[sketched.name]
        if not found.range.is_within(self.sketch.needs.get(sketched.name, ANYTHING)):
            raise DoesNotFit("range")
        return found

    def _source(self, name: str) -> Operand:
        source = self.sketch.sources.get(name)
        if source is None:
            raise DoesNotFit("left out")
        if isinstance(source, Created):
            bounds = Range(*(self.size(x) if isinstance(x, int) else x for x in source.within))
            dims = sizes(self.size, source.operand.shape)
            return self.scope.create(source.operand.dtype, dims, bounds, as_input=source.is_input)
        if isinstance(source.content, tuple):
            return self.scope.fix_ints(sizes(self.size, source.content))
        return self.scope.fix(source.content, source.operand.dtype)

    def _number(self, value: Attribute) -> Attribute:
        """An attribute with the numbers that were found."""
        if isinstance(value, tuple):
            return tuple(self._number(each) for each in value)  # type: ignore[return-value]
        return self.size(value) if isinstance(value, int) else value
