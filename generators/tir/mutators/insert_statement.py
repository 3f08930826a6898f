"""A new statement before an old one."""

from __future__ import annotations

from corpus.tir.tree import Module
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site

NAME = "insert a statement"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Grow a statement from the names visible at a place, and insert it there."""
    site = pick_site(draws, module)
    if site is None:
        return None
    made, _ = site.maker.some(site.frame, draws.between(1, 6), 1)
    return site.put(module, (*made, site.stmt))
