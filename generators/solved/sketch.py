"""A program drawn as any other, but in free sizes: what it was made of is kept, to make it anew in others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from corpus.values import Tensor
from generators.growth.bodies import Bodies
from generators.language.profile import BINS, Profile
from generators.language.scope import Scope
from generators.solved.dims import Dim, Trace, TracedDraws, plain
from oracles.relation.program import Call, Kind, Operand
from oracles.relation.scope import MAX_ELEMENTS, DoesNotFit
from oracles.relation.types import ANYTHING, I64, DType, Range, Shape, TensorType

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
        self, dtype: DType, shape: Shape, within: Range | None = None, *, as_input: bool = False
    ) -> Operand:
        """A new operand of these sizes."""
        if math.prod(shape) > MAX_ELEMENTS:
            raise DoesNotFit(str(shape))
        before = len(self.inputs)
        with self.trace.paused():
            made = super().create(dtype, shape, within, as_input=as_input)
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
