"""Forward, by weights between classes of operators that each program draws for itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from generators.budget import UNLIMITED, Budget
from generators.grow import Program, grow


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """The programs that `fuzz` and `hunt` test."""
    for seed in seeds:
        yield grow(seed, nodes, budget=budget)
