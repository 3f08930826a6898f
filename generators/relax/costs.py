"""What a Relax program costs to run: an upper bound of its arithmetic, and the bytes of its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpus.graphs.program import Binding
from generators.language.budget import Budget
from generators.relax.types import Json

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
