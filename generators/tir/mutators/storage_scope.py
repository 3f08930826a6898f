"""Another storage scope or alignment of allocated memory (attributes)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.names import with_buffer
from corpus.tir.tree import Alloc, Module
from corpus.tir.walk import with_function
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site

NAME = "change the storage of a buffer"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Give allocated memory another scope of the host, or another alignment."""
    site = pick_site(draws, module, lambda stmt: isinstance(stmt, Alloc))
    if site is None or not isinstance(site.stmt, Alloc):
        return None
    buffer = site.stmt.buffer
    if draws.chance(0.5):
        changed = replace(buffer, scope="local" if buffer.scope == "global" else "global")
    else:
        changed = replace(buffer, align=draws.pick((16, 32, 64, 128)))
    return with_function(module, module.entry, with_buffer(site.function, changed))
