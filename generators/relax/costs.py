"""What a Relax program costs to run: an upper bound of its arithmetic, and the bytes of its values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from generators.language.budget import Budget
from generators.relax.types import Json

_ONE_TO_ONE = frozenset({"alias", "getitem", "match_cast", "function"})


class TooLarge(Exception):
    """A value, or all of them together, would exceed what programs may hold."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations of one run, and bytes of all its values together, none freed."""

    flops: int = 0
    memory: int = 0

    def plus(self, op: str, read: Sequence[Any], made: Any) -> Cost:
        """Add the cost of a binding: each result may read every element of the largest operand."""
        size = sum(each.size for each in arrays(made))
        most = max((each.size for value in read for each in arrays(value)), default=1)
        flops = 0 if op in _ONE_TO_ONE else 2 * max(size, 1) * max(most, 1)
        return Cost(self.flops + flops, self.memory + sum(each.nbytes for each in arrays(made)))


def arrays(value: Any) -> Iterator[Any]:
    """Yield the tensors in a value."""
    if isinstance(value, tuple):
        for each in value:
            yield from arrays(each)
    elif isinstance(value, np.ndarray):
        yield value


def fits(budget: Budget, value: Any) -> bool:
    """Return whether every dim of the value keeps the bound."""
    return all(budget.fits(each.shape) for each in arrays(value))


def names_of(item: Json) -> list[str]:
    """Return the names that arguments read."""
    if isinstance(item, list):
        return [name for each in item for name in names_of(each)]
    if isinstance(item, dict):
        return [item["ref"]] if set(item) == {"ref"} else names_of([*item.values()])
    return []
