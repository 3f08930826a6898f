"""One loop as two, one inside the other (loop nesting)."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.names import substituted
from corpus.tir.tree import For, If, Module
from corpus.tir.values import Binary, Const, Expr, Var
from generators.language.random_source import RandomSource
from generators.tir.sites import is_loop, pick_site

NAME = "split a loop"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Split a loop by a factor; what does not divide is cut off by a condition."""
    site = pick_site(draws, module, lambda stmt: is_loop(stmt, "serial", "unrolled"))
    if site is None or not isinstance(site.stmt, For) or not isinstance(site.stmt.extent, Const):
        return None
    loop, extent = site.stmt, int(site.stmt.extent.value)
    if extent < 2 or loop.var.dtype != "int32" or loop.step is not None:
        return None
    factor = draws.pick((2, 3, 4, 8))
    outer, inner = Var(site.maker.names.fresh("o")), Var(site.maker.names.fresh("i"))
    number: Expr = Binary("add", Binary("mul", outer, Const(factor)), inner)
    body = substituted(loop.body, {loop.var.name: Binary("add", number, loop.min)})
    if extent % factor:
        body = (If(Binary("lt", number, Const(extent)), body),)
    nested = For(inner, Const(0), Const(factor), "serial", body)
    count = Const(-(-extent // factor))
    return site.put(module, (replace(loop, var=outer, min=Const(0), extent=count, body=(nested,)),))
