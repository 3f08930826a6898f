"""A loop bound to virtual threads, which the host runs as well (domain: thread binding)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import For, Module, Thread
from corpus.tir.values import Const
from corpus.tir.walk import statements
from generators.language.random_source import RandomSource
from generators.tir.sites import is_independent, is_loop, pick_site

NAME = "bind a loop to virtual threads"

TAGS = ("vthread.x", "vthread.y", "vthread.z")


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Bind a loop whose rounds do not meet in memory to `vthread.x`."""
    site = pick_site(draws, module, lambda stmt: is_loop(stmt, "serial"))
    if site is None or not isinstance(site.stmt, For):
        return None
    loop = site.stmt
    fits = isinstance(loop.extent, Const) and loop.min == Const(0) and is_independent(loop)
    if not fits:
        return None
    used = {
        stmt.thread.tag for stmt in statements(site.function.body) if isinstance(stmt, For) and stmt.thread
    }
    free = [tag for tag in TAGS if tag not in used]  # one inside the other, two loops of a tag would be one
    return (
        site.put(module, (replace(loop, kind="thread", thread=Thread(draws.pick(free))),)) if free else None
    )
