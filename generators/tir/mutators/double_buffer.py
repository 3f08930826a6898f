"""A copy that a loop fills anew in each round, in two halves by turns (attributes: double buffering)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Alloc, Attr, For, Module
from corpus.tir.types import pointer_to
from corpus.tir.values import BufferRef, Call, Const
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site
from generators.tir.staging import is_staged_loop, staged

NAME = "double a buffer"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Copy a buffer that a loop only reads at the start of each round, into a copy marked as double."""
    site = pick_site(draws, module, is_staged_loop)
    found = staged(draws, site) if site is not None else None
    if site is None or found is None or not isinstance(site.stmt, For) or len(found.copy.shape) > 1:
        return None  # the pass takes buffers of one dim
    pointer = Call(
        "buffer_data", (BufferRef(found.copy.name),), pointer_to(found.copy.dtype, found.copy.scope)
    )
    filled = Attr(pointer, "double_buffer_scope", Const(1), found.filling)
    return site.put(module, (Alloc(found.copy), replace(site.stmt, body=(filled, *found.body))))
