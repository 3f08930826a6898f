"""A statement left out."""

from __future__ import annotations

from corpus.tir.tree import Alloc, Block, Module
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site

NAME = "delete a statement"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Leave out a statement that declares no memory."""
    site = pick_site(draws, module, lambda stmt: not isinstance(stmt, Alloc | Block))
    return site.put(module, ()) if site else None
