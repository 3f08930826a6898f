"""Another statement in place of one."""

from __future__ import annotations

from corpus.tir.tree import Alloc, Bind, Block, Module
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site

NAME = "replace a statement"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Grow a statement in place of one that defines no name."""
    site = pick_site(draws, module, lambda stmt: not isinstance(stmt, Alloc | Bind | Block))
    if site is None:
        return None
    made, _ = site.maker.some(site.frame, draws.between(1, 6), 1)
    return site.put(module, made)
