"""Forward, by weights between classes of operators that each program draws for itself."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from generators.growth.grow import Program, grow
from generators.language.profile import UNLIMITED, Budget


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """Yield the programs that `fuzz` and `hunt` test."""
    for seed in seeds:
        yield grow(seed, nodes, budget=budget)
