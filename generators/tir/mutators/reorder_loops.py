"""Two loops of a perfect nest the other way round (loop nesting)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import For, Module, Stmt
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site

NAME = "reorder loops"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Swap two loops of which the inner one is all that the outer one holds."""
    site = pick_site(draws, module, _is_nest)
    if site is None or not isinstance(site.stmt, For):
        return None
    outer, inner = site.stmt, site.stmt.body[0]
    assert isinstance(inner, For)
    return site.put(module, (replace(inner, body=(replace(outer, body=inner.body),)),))


def _is_nest(stmt: Stmt) -> bool:
    if not isinstance(stmt, For) or len(stmt.body) != 1 or not isinstance(stmt.body[0], For):
        return False
    return stmt.kind == stmt.body[0].kind == "serial"
