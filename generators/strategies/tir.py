"""TIR programs with sequences of passes, grown and mutated together: only `tvm` runs them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from generators.feedback import CoverageSnapshot
from generators.language.profile import UNLIMITED, Budget
from generators.tir.breeding import breed
from generators.tir.programs import TirProgram, make_program


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[TirProgram]:
    """Yield a program a seed; they start from the `.tir.json` files below `source`, if it is given."""
    for seed in seeds:
        yield make_program(seed, nodes, source=source, budget=budget)


def taught(
    seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget = UNLIMITED
) -> Iterator[TirProgram]:
    """Yield a program a seed, bred from what the campaign has found worth keeping."""
    for seed in seeds:
        yield breed(seed, nodes, lesson.pool, budget)
