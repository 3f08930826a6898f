"""Another kind of loop: unrolled, vectorised, parallel (domain: loop nesting)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import For, Module, Stmt, Store
from corpus.tir.values import Const
from corpus.tir.walk import statements
from generators.language.random_source import RandomSource
from generators.tir.sites import is_independent, is_loop, pick_site

NAME = "change a loop's kind"
_MOST_UNROLLED = 16


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Change the kind of a loop; in parallel or by lanes only where its rounds do not meet in memory."""
    site = pick_site(draws, module, _fits_lanes) if draws.chance(0.6) else None
    site = site or pick_site(draws, module, lambda stmt: is_loop(stmt, "serial", "unrolled"))
    if site is None or not isinstance(site.stmt, For) or not isinstance(site.stmt.extent, Const):
        return None
    loop = site.stmt
    kinds = ["serial", "unrolled"]
    if is_independent(loop):
        kinds += ["parallel"] if not site.frame.loops and not _has_parallel(loop) else []
        kinds += ["vectorized"] * 3 if _fits_lanes(loop) else []
    kind = draws.pick([each for each in kinds if each != loop.kind])
    return site.put(module, (replace(loop, kind=kind),))


def _fits_lanes(stmt: Stmt) -> bool:
    """Whether a loop of few rounds holds stores alone that do not meet: such are rare, and tried first."""
    if not isinstance(stmt, For) or stmt.kind not in ("serial", "unrolled"):
        return False
    rounds = int(stmt.extent.value) if isinstance(stmt.extent, Const) else 0
    is_flat = all(isinstance(each, Store) for each in stmt.body)
    return is_flat and 1 < rounds <= _MOST_UNROLLED and is_independent(stmt)


def _has_parallel(loop: For) -> bool:
    """Return whether a loop inside is parallel already: TVM's threads do not nest."""
    return any(is_loop(stmt, "parallel") for stmt in statements(loop.body))
