"""Buffers cached, double-buffered, pipelined and moved to another storage scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from corpus.tir.tree import Alloc, Attr, Block, Body, Break, Continue, For, Module, Stmt, Store
from corpus.tir.types import is_float, pointer_to
from corpus.tir.values import Binary, Buffer, BufferRef, Call, Cast, Const, Expr, Load, Var, literal
from corpus.tir.walk import renamed_in, walk, with_buffer, with_function
from generators.language.random_source import RandomSource
from generators.tir.blocks import accessed, rooted
from generators.tir.frame import static_shape
from generators.tir.sites import Site, allocates_nothing, at_site, is_serial, mutator, pick_site
from generators.tir.statements import nested
from generators.tir.values import usable

_ORDERS = ([0, 1], [0, 1], [1, 0])
"""The order of the stages in a round: the second stage, of the round before, may come first."""


@mutator("change the storage of a buffer")
def change_storage(draws: RandomSource, module: Module) -> Module | None:
    """Give allocated memory another scope of the host, or another alignment."""
    site = pick_site(draws, module, Alloc)
    if site is None:
        return None
    buffer = site.stmt.buffer
    if draws.chance(0.5):
        changed = replace(buffer, scope="local" if buffer.scope == "global" else "global")
    else:
        changed = replace(buffer, align=draws.pick((16, 32, 64, 128)))
    return with_function(module, module.entry, with_buffer(site.function, changed))


@dataclass(frozen=True, slots=True)
class _Cached:
    """A buffer, its row-major copy, the loops that fill the copy, and the statements that read the copy."""

    source: Buffer
    copy: Buffer
    filling: Body
    body: Body


def _cached(
    draws: RandomSource, site: Site[Any], body: Body, value: Callable[[Load], Expr]
) -> _Cached | None:
    """Copy a buffer that the statements only read; None if there is no such buffer.

    `value` says what the copy holds for an element of the buffer.
    """
    stored = {item.buffer for item in walk(body) if isinstance(item, Store)}
    read = {item.buffer for item in walk(body) if isinstance(item, Load)} - stored
    known = [each for each in site.frame.buffers if each.name in read and usable(each)]
    if not known:
        return None
    source, names = draws.pick(known), site.maker.names
    copy = Buffer(names.fresh("T"), source.shape, source.dtype, scope=draws.pick(("global", "local")))
    loops = tuple(Var(names.fresh("i")) for _ in source.shape)
    store = Store(copy.name, loops, value(Load(source.name, loops, source.dtype)))
    filling = nested(loops, static_shape(source) or (), (store,))
    return _Cached(source, copy, filling, renamed_in(body, {source.name: copy.name}))


@at_site("cache a buffer", Stmt, allocates_nothing)
def cache_buffer(draws: RandomSource, site: Site[Stmt]) -> Body | None:
    """Copy a buffer that a statement only reads into fresh memory of the same layout, and read that."""
    found = _cached(draws, site, (site.stmt,), lambda load: load)
    if found is None:
        return None
    copy = replace(found.source, name=found.copy.name, scope=found.copy.scope)
    return (Alloc(copy), *found.filling, *found.body)


def _can_be_staged(loop: For) -> bool:
    """Whether it is a serial loop of several rounds that nothing leaves early."""
    if not is_serial(loop) or not isinstance(loop.extent, Const):
        return False
    return loop.extent.value > 1 and not any(isinstance(each, Break | Continue) for each in walk(loop.body))


def _staged(draws: RandomSource, site: Site[For]) -> _Cached | None:
    """Copy a buffer in each round of a loop; floats are sometimes moved by the number of the round."""

    def value(load: Load) -> Expr:
        if not is_float(load.dtype) or draws.chance(0.5):
            return load
        moved = Binary("mul", Cast(load.dtype, site.stmt.var), literal(0.25, load.dtype))
        return Binary("add", load, moved)

    return _cached(draws, site, site.stmt.body, value)


@at_site("double a buffer", For, _can_be_staged)
def double_buffer(draws: RandomSource, site: Site[For]) -> Body | None:
    """Fill a copy at the start of each round, marked for `InjectDoubleBuffer`, which takes one dim only."""
    found = _staged(draws, site)
    if found is None or len(found.copy.shape) > 1:
        return None
    copy = found.copy
    pointer = Call("buffer_data", (BufferRef(copy.name),), pointer_to(copy.dtype, copy.scope))
    filled = Attr(pointer, "double_buffer_scope", Const(1), found.filling)
    return (Alloc(copy), replace(site.stmt, body=(filled, *found.body)))


def _can_be_pipelined(loop: For) -> bool:
    return _can_be_staged(loop) and not any(isinstance(each, Block | Alloc) for each in walk(loop))


@mutator("pipeline a loop")
def pipeline_loop(draws: RandomSource, module: Module) -> Module | None:
    """Fill a copy in each round as the first of two stages of a software pipeline."""
    site = pick_site(draws, module, For, _can_be_pipelined)
    found = _staged(draws, site) if site is not None else None
    if site is None or found is None:
        return None
    outside = {buffer.name: buffer for buffer in site.frame.buffers}
    known = {**outside, found.copy.name: found.copy}
    stages = (_stage(site, found.filling, known), _stage(site, found.body, known))
    whole = replace(_block(site, stages, outside), allocs=(found.copy,))
    notes = {"software_pipeline_stage": [0, 1], "software_pipeline_order": draws.pick(_ORDERS)}
    loop = replace(site.stmt, body=(whole,), annotations={**site.stmt.annotations, **notes})
    return rooted(site.put(module, (loop,)))


def _stage(site: Site[For], body: Body, known: dict[str, Buffer]) -> Block:
    """A block of one statement: the pass takes each statement of a longer block for a stage."""
    return _block(site, body if len(body) == 1 else (_block(site, body, known),), known)


def _block(site: Site[For], body: Body, known: dict[str, Buffer]) -> Block:
    reads, writes = accessed(body, known)
    return Block(site.maker.names.fresh("stage"), (), reads, writes, body)
