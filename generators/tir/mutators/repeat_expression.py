"""An expression that stands elsewhere in the function already: what common subexpressions are made of."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Module, Store
from corpus.tir.values import Binary, Call, Expr, Load, Var, type_of
from corpus.tir.walk import expressions, replace_expressions
from generators.language.draws import Draws
from generators.tir.sites import Site, pick_site

NAME = "repeat an expression"


def mutate(draws: Draws, module: Module) -> Module | None:
    """Put an expression of the function in place of one of its type, if all its names are visible there."""
    site = pick_site(draws, module, lambda stmt: isinstance(stmt, Store))
    if site is None or not isinstance(site.stmt, Store):
        return None
    known = [each for each in expressions(site.function.body) if _is_visible(each, site)]
    if not known:
        return None
    new = draws.pick(known)
    places = [
        at
        for at, each in enumerate(expressions((site.stmt.value,)))
        if type_of(each) == type_of(new) and each != new
    ]
    if not places:
        return None
    value = replace_expressions(site.stmt.value, {draws.pick(places): new})
    return site.put(module, (replace(site.stmt, value=value),))


def _is_visible(expr: Expr, site: Site) -> bool:
    """Return whether it is computed, and every name in it can be read at the site."""
    if not isinstance(expr, Binary | Call):
        return False
    names = {known.var.name for known in site.frame.known}
    buffers = {buffer.name for buffer in site.frame.buffers}
    parts = list(expressions((expr,)))
    return all(part.name in names for part in parts if isinstance(part, Var)) and all(
        part.buffer in buffers for part in parts if isinstance(part, Load)
    )
