"""A statement under a condition."""

from __future__ import annotations

from corpus.tir.tree import Alloc, Bind, Block, If, Module
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site

NAME = "wrap in a branch"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Put a condition around a statement that defines no name, sometimes with another one as its else."""
    site = pick_site(draws, module, lambda stmt: not isinstance(stmt, Alloc | Bind | Block))
    if site is None:
        return None
    other = (site.maker.store(site.frame),) if draws.chance(0.4) else None
    return site.put(module, (If(site.maker.truth(site.frame), (site.stmt,), other),))
