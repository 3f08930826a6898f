"""Relax programs by type, with functions, branches, closures and symbolic dims: only `tvm` runs them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from generators.language.profile import UNLIMITED, Budget
from generators.relax.programs import RelaxProgram, make_program


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[RelaxProgram]:
    """Yield a program a seed."""
    for seed in seeds:
        yield make_program(seed, nodes, budget=budget)
