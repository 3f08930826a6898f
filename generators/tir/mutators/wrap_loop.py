"""A statement within a loop of its own (loop nesting)."""

from __future__ import annotations

from corpus.tir.tree import Alloc, Bind, Block, For, Module
from corpus.tir.values import Const, Var
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site

NAME = "wrap in a loop"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Let a statement that defines no name run some times."""
    site = pick_site(draws, module, lambda stmt: not isinstance(stmt, Alloc | Bind | Block))
    if site is None:
        return None
    kind = draws.pick(("serial", "serial", "unrolled"))
    loop = For(Var(site.maker.names.fresh("i")), Const(0), Const(draws.between(1, 3)), kind, (site.stmt,))
    return site.put(module, (loop,))
