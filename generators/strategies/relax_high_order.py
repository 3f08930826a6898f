"""Patterns of TVM's passes in what patterns have become: `high_order`, on Relax.

A campaign keeps programs that ran and on which passes fired together for the first time; further patterns are
put into those. Where nothing is known yet programs are those of `relax_patterns`, of the shipped ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpus.graphs.pattern import FOLDER
from generators.feedback import NOTHING, CoverageSnapshot
from generators.language.profile import UNLIMITED, Budget
from generators.patterns import bred_of, further_nodes, seeds_of
from generators.relax.programs import RelaxProgram, make_program
from generators.strategies.relax_patterns import patterns_of, policy_of


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[RelaxProgram]:
    """Yield a program a seed, each of the first order."""
    return taught(seeds, nodes, NOTHING, budget)


def taught(
    seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget = UNLIMITED
) -> Iterator[RelaxProgram]:
    """Yield a program a seed, in a context that the campaign knows."""
    policy = policy_of(patterns_of(FOLDER))
    for seed in seeds:
        bred = bred_of(seed, lesson.pool, "relax_high_order")
        first, *then = seeds_of(bred)
        made = make_program(first, nodes, policy, budget, then, further_nodes(nodes))
        yield replace(made, bred=bred)
