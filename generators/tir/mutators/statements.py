"""Statements inserted, deleted, replaced and wrapped."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from corpus.tir.forms import is_float, pointer_to
from corpus.tir.tree import Alloc, Attr, Block, Body, For, If, Module, Stmt, Store, Thread, is_jump
from corpus.tir.values import (
    Binary,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Var,
    literal,
)
from corpus.tir.walk import (
    renamed_in,
    statements,
    substituted,
    walk,
    with_buffer,
    with_function,
)
from generators.language.values import RandomSource
from generators.tir.blocks import accessed, rooted
from generators.tir.calls import outlined
from generators.tir.frame import static_shape
from generators.tir.sites import (
    Site,
    allocates_nothing,
    at_site,
    defines_nothing,
    is_independent,
    is_ordered,
    is_serial,
    mutator,
    pick_site,
)
from generators.tir.statements import nested
from generators.tir.values import usable


@at_site("delete a statement", Stmt, allocates_nothing)
def delete_statement(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Leave out a statement that declares no memory."""
    return ()


@at_site("insert a statement", Stmt)
def insert_statement(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Grow a statement from the names visible at a place, and insert it there."""
    made, _ = site.maker.some(site.frame, draws.between(1, 6), 1)
    return (*made, site.stmt)


@at_site("replace a statement", Stmt, defines_nothing)
def replace_statement(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Grow a statement in place of one that defines no name."""
    made, _ = site.maker.some(site.frame, draws.between(1, 6), 1)
    return made


@at_site("wrap in a branch", Stmt, defines_nothing)
def wrap_in_branch(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Put a condition around a statement, sometimes with another statement as its else."""
    other = (site.maker.store(site.frame),) if draws.chance(0.4) else None
    return (If(site.maker.truth(site.frame), (site.stmt,), other),)


outline = mutator("outline a statement")(outlined)


@at_site("wrap in a loop", Stmt, defines_nothing)
def wrap_in_loop(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Run a statement one to three times."""
    kind = draws.pick(("serial", "serial", "unrolled"))
    var = Var(site.maker.names.fresh("i"))
    return (For(var, Const(0), Const(draws.between(1, 3)), kind, (site.stmt,)),)


_PRAGMAS = (
    ("pragma_auto_unroll_max_step", (2, 8, 16, 64)),
    ("pragma_unroll_explicit", (0, 1)),
    ("pragma_loop_partition_hint", (1,)),
)
_MOST_UNROLLED = 16
_TAGS = ("vthread.x", "vthread.y", "vthread.z")


@at_site("annotate a loop", For, is_ordered)
def annotate_loop(draws: RandomSource, site: Site[For]) -> Body:
    """Put one of TVM's pragmas on a loop: how far to unroll, whether to partition."""
    name, values = draws.pick(_PRAGMAS)
    notes = {**site.stmt.annotations, name: draws.pick(values)}
    return (replace(site.stmt, annotations=notes),)


@mutator("change a loop's kind")
def change_kind(draws: RandomSource, module: Module) -> Module | None:
    """Unroll a loop, or run it in parallel or by lanes if no two rounds touch the same element."""
    site = pick_site(draws, module, For, _fits_lanes) if draws.chance(0.6) else None
    site = site or pick_site(draws, module, For, is_ordered)
    if site is None or not isinstance(site.stmt.extent, Const):
        return None
    loop = site.stmt
    kinds = ["serial", "unrolled"]
    if is_independent(loop):
        kinds += ["parallel"] if not site.frame.loops and not _has_parallel(loop) else []
        kinds += ["vectorized"] * 3 if _fits_lanes(loop) else []
    kind = draws.pick([each for each in kinds if each != loop.kind])
    return site.put(module, (replace(loop, kind=kind),))


def _fits_lanes(loop: For) -> bool:
    """Whether a short loop holds only independent stores: such loops are rare, and tried first."""
    if not is_ordered(loop):
        return False
    rounds = int(loop.extent.value) if isinstance(loop.extent, Const) else 0
    is_flat = all(isinstance(each, Store) for each in loop.body)
    return is_flat and 1 < rounds <= _MOST_UNROLLED and is_independent(loop)


def _has_parallel(loop: For) -> bool:
    """Whether a loop inside is parallel already: TVM's threads do not nest."""
    return any(isinstance(stmt, For) and stmt.kind == "parallel" for stmt in statements(loop.body))


def _is_nest(loop: For) -> bool:
    inner = loop.body[0] if len(loop.body) == 1 else None
    return isinstance(inner, For) and is_serial(loop) and is_serial(inner)


@at_site("reorder loops", For, _is_nest)
def reorder_loops(draws: RandomSource, site: Site[For]) -> Body:
    """Swap two loops of a perfect nest."""
    outer, inner = site.stmt, site.stmt.body[0]
    assert isinstance(inner, For)
    return (replace(inner, body=(replace(outer, body=inner.body),)),)


@at_site("split a loop", For, is_ordered)
def split_loop(draws: RandomSource, site: Site[For]) -> Body | None:
    """Split a loop by a factor; a condition cuts off the rounds of a factor that does not divide."""
    loop = site.stmt
    extent = int(loop.extent.value) if isinstance(loop.extent, Const) else 0
    if extent < 2 or loop.var.dtype != "int32" or loop.step is not None:
        return None
    factor = draws.pick((2, 3, 4, 8))
    outer, inner = Var(site.maker.names.fresh("o")), Var(site.maker.names.fresh("i"))
    number: Expr = Binary("add", Binary("mul", outer, Const(factor)), inner)
    body = substituted(loop.body, {loop.var.name: Binary("add", number, loop.min)})
    if extent % factor:
        body = (If(Binary("lt", number, Const(extent)), body),)
    nested = For(inner, Const(0), Const(factor), "serial", body)
    return (replace(loop, var=outer, min=Const(0), extent=Const(-(-extent // factor)), body=(nested,)),)


@at_site("bind a loop to virtual threads", For, is_serial)
def bind_virtual_threads(draws: RandomSource, site: Site[For]) -> Body | None:
    """Bind an independent loop to a `vthread`, which the host runs as well.

    A tag is used once: TVM takes two loops of one tag, one inside the other, for one loop.
    """
    loop = site.stmt
    if not isinstance(loop.extent, Const) or loop.min != Const(0) or not is_independent(loop):
        return None
    threads = [stmt.thread for stmt in statements(site.function.body) if isinstance(stmt, For)]
    used = {thread.tag for thread in threads if thread is not None}
    free = [tag for tag in _TAGS if tag not in used]
    return (replace(loop, kind="thread", thread=Thread(draws.pick(free))),) if free else None


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
    return loop.extent.value > 1 and not any(map(is_jump, walk(loop.body)))


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
