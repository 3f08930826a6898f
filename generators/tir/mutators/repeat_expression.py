"""An expression that stands elsewhere in the function already: what common subexpressions are made of."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Module, Store
from corpus.tir.values import Binary, Call, Expr, Load, Var, type_of
from corpus.tir.walk import expressions, replace_expressions
from generators.language.random_source import RandomSource
from generators.tir.sites import Site, pick_site

NAME = "repeat an expression"
_TIMES = (1, 1, 2, 3)
"""How often: the pass looks for what stands three times as well, within names and branches."""


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Put an expression of the function in place of some of its type, if all its names are visible there."""
    found, new = None, None
    for _ in range(draws.pick(_TIMES)):
        site = pick_site(draws, found or module, lambda stmt: isinstance(stmt, Store))
        if site is None or not isinstance(site.stmt, Store):
            break
        new = new or _drawn(draws, site)
        found = _with(draws, found or module, site, site.stmt, new) or found
    return found


def _drawn(draws: RandomSource, site: Site) -> Expr | None:
    """Return an expression of the function that can be computed at the site."""
    known = [each for each in expressions(site.function.body) if _is_visible(each, site)]
    return draws.pick(known) if known else None


def _with(draws: RandomSource, module: Module, site: Site, stmt: Store, new: Expr | None) -> Module | None:
    """Return the module with the expression in place of one of the site's; None if none is of its type."""
    if new is None or not _is_visible(new, site):
        return None
    places = [
        at
        for at, each in enumerate(expressions((stmt.value,)))
        if type_of(each) == type_of(new) and each != new
    ]
    if not places:
        return None
    value = replace_expressions(stmt.value, {draws.pick(places): new})
    return site.put(module, (replace(stmt, value=value),))


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
