"""Bred on what reached new code of the target: programs that did are changed further.

A campaign that watches the code (`--native-coverage --strategy native`) knows which they are; it mixes these
with the programs of all other strategies, by what each reaches. Where nothing is known programs are fresh.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from generators.feedback import NOTHING, CoverageSnapshot
from generators.growth.grow import Program
from generators.language.profile import UNLIMITED, Budget
from generators.language.values import RandomSource
from generators.reach import DEEPEST, Lineage
from generators.strategies.mutate import mutate

_FRESH = "uniform"


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """Fresh programs."""
    return taught(seeds, nodes, NOTHING, budget)


def taught(
    seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """Each program is bred on one that reached something new."""
    for seed in seeds:
        yield made(lineage_of(seed, nodes, lesson), budget)


def lineage_of(seed: int, nodes: int, lesson: CoverageSnapshot) -> Lineage:
    """How the program of a seed is made."""
    root = lesson.reach.choose(seed)
    if root is None:
        return Lineage(_FRESH, seed, nodes)
    return replace(root.lineage, changes=(*root.lineage.changes[: DEEPEST - 1], seed))


def made(lineage: Lineage, budget: Budget = UNLIMITED) -> Program:
    """The program of a lineage: its parent, changed once more."""
    if not lineage.changes:
        strategy = import_module(f"generators.strategies.{lineage.strategy}")
        program: Program = next(strategy.programs([lineage.seed], lineage.nodes, None, budget))
        return program
    *before, last = lineage.changes
    parent = made(replace(lineage, changes=tuple(before)), budget)
    return mutate(parent.model, parent.inputs, RandomSource(f"native/change/{last}"), budget)
