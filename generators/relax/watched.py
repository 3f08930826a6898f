"""Running what has grown, in numpy, and refusing values that would make a result anybody's choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpus.graphs.program import Binding, is_loops, primfunc_of
from corpus.tir.tree import Function
from generators.language.profile import Budget
from generators.relax.operator import Json, Within
from oracles.tir.interpreter import NotDefined, called, is_steady
from oracles.worker.relax_reference.program import Evaluation, call_operator, computed, plain_attributes, wide

ONE_TO_ONE = frozenset({"alias", "getitem", "match_cast", "function"})
"""Bindings that compute nothing."""


class TooLarge(Exception):
    """A value, or all of them together, would exceed what programs may hold."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations of one run, bytes of all its values together, none freed, and operators that are run."""

    flops: int = 0
    memory: int = 0
    steps: int = 0

    def plus(self, op: str, read: Sequence[Any], made: Any) -> Cost:
        """Add the cost of a binding: each result may read every element of the largest operand."""
        size = sum(each.size for each in arrays(made))
        most = max((each.size for value in read for each in arrays(value)), default=1)
        flops = 0 if op in ONE_TO_ONE else 2 * max(size, 1) * max(most, 1)
        memory = self.memory + sum(each.nbytes for each in arrays(made))
        return Cost(self.flops + flops, memory, self.steps + (op not in ONE_TO_ONE))

    def and_also(self, other: Cost) -> Cost:
        """Add another cost."""
        return Cost(self.flops + other.flops, self.memory + other.memory, self.steps + other.steps)


def arrays(value: Any) -> Iterator[Any]:
    """Yield the tensors in a value."""
    if isinstance(value, tuple):
        for each in value:
            yield from arrays(each)
    elif isinstance(value, np.ndarray):
        yield value


def is_held(budget: Budget, cost: Cost, value: Any) -> bool:
    """Whether the budget holds the cost and every dim of the value."""
    return budget.holds(cost.flops, cost.memory, cost.steps) and fits(budget, value)


def fits(budget: Budget, value: Any) -> bool:
    """Whether every dim of the value keeps the bound."""
    return all(budget.fits(each.shape) for each in arrays(value))


def names_of(item: Json) -> list[str]:
    """The names that arguments read, and those that bodies among them give."""
    if isinstance(item, list):
        return [name for each in item for name in names_of(each)]
    if isinstance(item, dict):
        if set(item) == {"ref"}:
            return [item["ref"]]
        return [*names_of([*item.values()]), *(item["outputs"] if "bindings" in item else ())]
    return []


def deepened(depths: Mapping[str, int], op: str, args: Json) -> int:
    """The operators of the longest chain that ends in a binding, given those of what it reads."""
    longest = max((depths.get(name, 0) for name in names_of(args)), default=0)
    return longest + (op not in ONE_TO_ONE)


def depths_of(bindings: Iterable[Binding], outer: Mapping[str, int]) -> dict[str, int]:
    """The longest chain that ends in each of these bindings, and in those of their bodies."""
    found = dict(outer)
    for each in bindings:
        for body in each.bodies:
            found.update(depths_of(body.bindings, found))
        found[each.name] = deepened(found, each.op, list(each.args))
    return found


_MOST_STEPS = 3000
MOST_FLOAT, MOST_HALF, MOST_INTEGER = 1e5, 1e3, 1 << 20
"""Magnitudes beyond which a value is refused; of halves where a program holds any."""

COMPARISONS = frozenset(
    f"relax.{name}" for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
)
_CLOSE = 1e-4
"""Floats that differ by less, relative or absolute, and are not equal may compare either way."""
_EXACT = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "negative", "abs", "square", "sum", "prod", "cumsum", "cumprod"),
        *("matmul", "left_shift", "collapse_sum_to", "scatter_elements", "scatter_nd", "index_put", "outer"),
    )
)
"""Operators that leave their integers' range before numpy tells."""
_DIVISIONS = frozenset(f"relax.{name}" for name in ("floor_divide", "floor_mod", "mod"))
"""Operators for whose division of an integer by zero numpy gives 0, and for which compiled code dies."""


class Unsound(Exception):
    """A value is not finite, too large, or wrapped around."""


class Watched(Evaluation):
    """A run that ends with `Unsound` at the first value that no program may hold."""

    def __init__(self, document: Mapping[str, Any], most: float) -> None:
        super().__init__(document, outside)
        self.most = most
        self.inside = Cost()
        """What the bindings of functions cost that were called."""
        self._level = 0

    def value(
        self,
        name: str,
        op: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        known: dict[str, Any],
        sizes: dict[str, int],
    ) -> Any:
        """Compute a binding as the golden reference does. Raises if the value is anybody's choice."""
        self._level += 1
        try:
            found = super().value(name, op, args, kwargs, known, sizes)
        except (
            ZeroDivisionError
        ) as error:  # in a function that is called with another value than it grew with
            raise Unsound("an integer is divided by zero") from error
        self._level -= 1
        if self._level:
            self.inside = self.inside.plus(
                op, [known[each] for each in names_of(list(args)) if each in known], found
            )
        check(found, self.most)
        if op in _DIVISIONS and found.dtype.kind in "iu" and not np.all(self.argument(args[1], known, sizes)):
            raise Unsound("an integer is divided by zero")
        if op in COMPARISONS and is_close(*(self.argument(each, known, sizes) for each in args)):
            raise Unsound("rounding decides a comparison")
        if op in _EXACT and is_narrow(found):
            given = [widened(self.argument(each, known, sizes)) for each in args]
            if not np.array_equal(call_operator(op, given, plain_attributes(kwargs)), found):
                raise Unsound("an integer wrapped around")
        return found


def outside(item: Any) -> Callable[..., Any]:
    """A callable for a PrimFunc; one that is told as a tree is interpreted."""
    return interpreted(primfunc_of(item).function) if is_loops(item) else computed(item)


def interpreted(function: Function) -> Callable[..., Any]:
    """A callable for a PrimFunc; Unsound where a result is not defined or hangs on rounding."""

    def call(*operands: Any) -> Any:
        try:
            found = called(function, operands, _MOST_STEPS)
            is_sound = is_steady(function, operands, found, _MOST_STEPS)
        except NotDefined as error:
            raise Unsound(str(error)) from error
        if not is_sound:
            raise Unsound("a result that hangs on rounding")
        results = tuple(map(wide, found))
        return results[0] if len(results) == 1 else results

    return call


def is_close(left: Any, right: Any, slack: float = _CLOSE) -> bool:
    """Whether two floats, or elements of two tensors of floats, differ by no more than rounding."""
    if "f" not in (np.asarray(left).dtype.kind, np.asarray(right).dtype.kind):
        return False
    apart = np.abs(np.subtract(left, right))
    most = slack * np.maximum(1.0, np.maximum(np.abs(left), np.abs(right)))
    return bool(np.any((apart > 0) & (apart <= most)))


def is_narrow(value: Any) -> bool:
    """Say whether a value is an array of integers."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def widened(value: Any) -> Any:
    """Hold integers as int64, so that an overflow of their own dtype is seen."""
    if isinstance(value, tuple):
        return tuple(widened(each) for each in value)
    return value.astype(np.int64) if is_narrow(value) else value


def check(value: Any, most: float) -> None:
    """Raise `Unsound` for a value that is not finite or too large."""
    if isinstance(value, tuple):
        for each in value:
            check(each, most)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiu" and value.size:
        limit = most if value.dtype.kind == "f" else MOST_INTEGER
        magnitude = np.abs(value.astype(np.float64)).max()
        if not magnitude <= limit:
            raise Unsound(f"a value of {magnitude}")


def lies_within(value: Any, within: Within) -> bool:
    """Whether every element keeps the bounds."""
    if within.is_open or not isinstance(value, np.ndarray) or not value.size:
        return True
    numbers = value.astype(np.float64)
    low, high = within.low, within.high
    is_inside = (low is None or numbers.min() >= low) and (high is None or numbers.max() <= high)
    return bool(is_inside and not (within.is_nonzero and np.abs(numbers).min() < 0.01))
