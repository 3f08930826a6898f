"""A loop in two stages, which the compiler lets run at the same time (attributes: software pipeline)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Alloc, Block, Body, For, Module
from corpus.tir.values import Buffer
from corpus.tir.walk import walk
from generators.language.random_source import RandomSource
from generators.tir.blocks import rooted
from generators.tir.regions import accessed
from generators.tir.sites import Site, pick_site
from generators.tir.staging import is_staged_loop, staged

NAME = "pipeline a loop"
_ORDERS = ([0, 1], [0, 1], [1, 0])
"""In which order the stages stand in a round: the second one, of the round before, may come first."""


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Let the rounds of a loop first copy a buffer that it only reads, as blocks of a software pipeline."""
    site = pick_site(draws, module, _fits)
    found = staged(draws, site) if site is not None else None
    if site is None or found is None or not isinstance(site.stmt, For):
        return None
    outside = {buffer.name: buffer for buffer in site.frame.buffers}
    known = {**outside, found.copy.name: found.copy}
    stages = (_stage(site, found.filling, known), _stage(site, found.body, known))
    whole = replace(_block(site, stages, outside), allocs=(found.copy,))
    notes = {"software_pipeline_stage": [0, 1], "software_pipeline_order": draws.pick(_ORDERS)}
    loop = replace(site.stmt, body=(whole,), annotations={**site.stmt.annotations, **notes})
    return rooted(site.put(module, (loop,)))


def _fits(stmt: object) -> bool:
    """Return whether a loop can be staged and holds no block or memory of its own."""
    is_plain = is_staged_loop(stmt) and isinstance(stmt, For)
    return is_plain and not any(isinstance(each, Block | Alloc) for each in walk(stmt))


def _stage(site: Site, body: Body, known: dict[str, Buffer]) -> Block:
    """Return a block of one statement: the pass takes each of several for a stage."""
    return _block(site, body if len(body) == 1 else (_block(site, body, known),), known)


def _block(site: Site, body: Body, known: dict[str, Buffer]) -> Block:
    reads, writes = accessed(body, known)
    return Block(site.maker.names.fresh("stage"), (), reads, writes, body)
