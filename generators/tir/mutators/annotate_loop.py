"""A pragma on a loop: how far to unroll, whether to partition (attributes)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import For, Module
from generators.language.random_source import RandomSource
from generators.tir.sites import is_loop, pick_site

NAME = "annotate a loop"
_PRAGMAS = (
    ("pragma_auto_unroll_max_step", (2, 8, 16, 64)),
    ("pragma_unroll_explicit", (0, 1)),
    ("pragma_loop_partition_hint", (1,)),
)


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Put one of TVM's pragmas on a loop."""
    site = pick_site(draws, module, lambda stmt: is_loop(stmt, "serial", "unrolled"))
    if site is None or not isinstance(site.stmt, For):
        return None
    name, values = draws.pick(_PRAGMAS)
    notes = {**site.stmt.annotations, name: draws.pick(values)}
    return site.put(module, (replace(site.stmt, annotations=notes),))
