"""A loop whose rounds first copy a buffer that they only read: what pipelines and double buffers work on."""

from __future__ import annotations

from dataclasses import dataclass

from corpus.tir.names import renamed_in
from corpus.tir.tree import Block, Body, Break, Continue, For, Module, Store
from corpus.tir.types import is_float
from corpus.tir.values import Binary, Buffer, Cast, Const, Expr, Load, Var, literal
from corpus.tir.walk import statements, walk
from generators.language.random_source import RandomSource
from generators.tir.frame import static_shape
from generators.tir.sites import Site, is_loop
from generators.tir.values import usable


@dataclass(frozen=True, slots=True)
class Staged:
    """A copy of a buffer, the statements that fill it, and the loop's body with the copy in its place."""

    copy: Buffer
    filling: Body
    body: Body


def is_staged_loop(stmt: object) -> bool:
    """Return whether it is a serial loop of some rounds that nothing leaves early."""
    if not isinstance(stmt, For) or not is_loop(stmt, "serial") or not isinstance(stmt.extent, Const):
        return False
    return stmt.extent.value > 1 and not any(isinstance(each, Break | Continue) for each in walk(stmt.body))


def staged(draws: RandomSource, site: Site) -> Staged | None:
    """Return the parts of a staged loop; None if it only reads no buffer."""
    assert isinstance(site.stmt, For)
    body = site.stmt.body
    stored = {item.buffer for item in walk(body) if isinstance(item, Store)}
    read = {item.buffer for item in walk(body) if isinstance(item, Load)} - stored
    known = [each for each in site.frame.buffers if each.name in read and usable(each)]
    if not known:
        return None
    source = draws.pick(known)
    names = site.maker.names
    scope = draws.pick(("global", "local"))
    copy = Buffer(names.fresh("T"), source.shape, source.dtype, scope=scope)
    loops = tuple(Var(names.fresh("i")) for _ in source.shape)
    filling: Body = (Store(copy.name, loops, _copied(draws, site.stmt.var, source, loops)),)
    for var, extent in zip(loops[::-1], (static_shape(source) or ())[::-1], strict=True):
        filling = (For(var, Const(0), Const(extent), "serial", filling),)
    changed = tuple(renamed_in(stmt, {source.name: copy.name}) for stmt in body)
    return Staged(copy, filling, changed)


def _copied(draws: RandomSource, round: Var, source: Buffer, loops: tuple[Var, ...]) -> Expr:
    """Return an element of the buffer, of a float now and then another one in each round."""
    load = Load(source.name, loops, source.dtype)
    if not is_float(source.dtype) or draws.chance(0.5):
        return load
    moved = Binary("mul", Cast(source.dtype, round), literal(0.25, source.dtype))
    return Binary("add", load, moved)


def is_rightly_staged(module: Module) -> bool:
    """Return whether each loop that is annotated as a pipeline has its stages, and nothing leaves it."""
    return all(_has_its_stages(stmt) for stmt in statements(module.main.body) if isinstance(stmt, For))


def _has_its_stages(loop: For) -> bool:
    stages = loop.annotations.get("software_pipeline_stage")
    if stages is None:
        return True
    whole = loop.body[0] if len(loop.body) == 1 and loop.kind == "serial" else None
    if not isinstance(whole, Block) or len(whole.body) != len(stages):
        return False
    is_left = any(isinstance(each, Break | Continue) for each in walk(whole))
    return not is_left and all(isinstance(each, Block) and len(each.body) == 1 for each in whole.body)
