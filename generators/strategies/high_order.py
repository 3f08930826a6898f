"""Patterns in what patterns have become: programs that ran and triggered their passes are contexts of others.

OATest's high order (§3.3). A campaign (`fuzz`, `hunt`) keeps those on which passes fired together for the
first time; where nothing is known yet programs are as those of `patterns`, of the shipped ones.
Sizes are drawn from bins between powers of two, as the solver's are (NNSmith).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from generators.feedback import NOTHING, CoverageSnapshot
from generators.growth.grow import Program
from generators.language.profile import UNLIMITED, Budget
from generators.patterns import bred_of, further_nodes, seeds_of
from generators.strategies.patterns import grown_on


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """Yield a program a seed, each of the first order."""
    return taught(seeds, nodes, NOTHING, budget)


def taught(
    seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """Yield a program a seed, in a context that the campaign knows."""
    for seed in seeds:
        bred = bred_of(seed, lesson.pool, "high_order")
        made = grown_on(seeds_of(bred), nodes, further_nodes(nodes), budget)
        yield replace(made, bred=bred)
