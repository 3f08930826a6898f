"""Loops split, reordered, annotated, and given another kind."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Body, For, If, Module, Store, Thread
from corpus.tir.values import Binary, Const, Expr, Var
from corpus.tir.walk import statements, substituted
from generators.language.random_source import RandomSource
from generators.tir.sites import Site, at_site, is_independent, is_ordered, is_serial, mutator, pick_site

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
