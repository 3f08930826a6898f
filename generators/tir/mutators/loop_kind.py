"""Another kind of loop: unrolled, vectorised, parallel (domain: loop nesting)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import For, Module, Store
from corpus.tir.values import Const
from corpus.tir.walk import statements
from generators.language.draws import Draws
from generators.tir.sites import is_independent, is_loop, pick_site

NAME = "change a loop's kind"
_MOST_UNROLLED = 16


def mutate(draws: Draws, module: Module) -> Module | None:
    """Change the kind of a loop; in parallel or by lanes only where its rounds do not meet in memory."""
    site = pick_site(draws, module, lambda stmt: is_loop(stmt, "serial", "unrolled"))
    if site is None or not isinstance(site.stmt, For) or not isinstance(site.stmt.extent, Const):
        return None
    loop = site.stmt
    kinds = ["serial", "unrolled"]
    if is_independent(loop):
        kinds += ["parallel"] if not site.frame.loops and not _has_parallel(loop) else []
        is_flat = all(isinstance(stmt, Store) for stmt in loop.body)
        kinds += ["vectorized"] * 3 if is_flat and 1 < int(site.stmt.extent.value) <= _MOST_UNROLLED else []
    kind = draws.pick([each for each in kinds if each != loop.kind])
    return site.put(module, (replace(loop, kind=kind),))


def _has_parallel(loop: For) -> bool:
    """Whether a loop inside is parallel already: TVM's threads do not nest."""
    return any(is_loop(stmt, "parallel") for stmt in statements(loop.body))
