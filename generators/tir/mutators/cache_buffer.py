"""A copy of a buffer that a statement reads instead (domain: memory operation)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.names import renamed_in
from corpus.tir.tree import Alloc, Block, Body, For, Module, Store
from corpus.tir.values import Const, Load, Var
from corpus.tir.walk import walk
from generators.language.random_source import RandomSource
from generators.tir.frame import static_shape
from generators.tir.sites import pick_site
from generators.tir.values import usable

NAME = "cache a buffer"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Copy a buffer that a statement only reads into fresh memory, and read that."""
    site = pick_site(draws, module, lambda stmt: not isinstance(stmt, Alloc | Block))
    if site is None:
        return None
    stored = {item.buffer for item in walk((site.stmt,)) if isinstance(item, Store)}
    read = {item.buffer for item in walk((site.stmt,)) if isinstance(item, Load)} - stored
    known = [each for each in site.frame.buffers if each.name in read and usable(each)]
    if not known:
        return None
    source = draws.pick(known)
    copy = replace(source, name=site.maker.names.fresh("T"), scope=draws.pick(("global", "local")))
    loops = [Var(site.maker.names.fresh("i")) for _ in source.shape]
    body: Body = (Store(copy.name, tuple(loops), Load(source.name, tuple(loops), source.dtype)),)
    for var, extent in zip(loops[::-1], (static_shape(source) or ())[::-1], strict=True):
        body = (For(var, Const(0), Const(extent), "serial", body),)
    return site.put(module, (Alloc(copy), *body, renamed_in(site.stmt, {source.name: copy.name})))
