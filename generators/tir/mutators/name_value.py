"""A part of a value under a name before the statement."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Bind, Module, Store
from corpus.tir.types import is_float, is_integer, lanes
from corpus.tir.values import Let, Var, type_of
from corpus.tir.walk import expressions, replace_expressions
from generators.language.draws import Draws
from generators.tir.sites import pick_site

NAME = "name a value"


def mutate(draws: Draws, module: Module) -> Module | None:
    """Bind a part of what is stored, or let it have a name within the expression."""
    site = pick_site(draws, module, lambda stmt: isinstance(stmt, Store))
    if site is None or not isinstance(site.stmt, Store):
        return None
    value = site.stmt.value
    found = [
        (at, each)
        for at, each in enumerate(expressions((value,)))
        if lanes(type_of(each)) == 1 and (is_integer(type_of(each)) or is_float(type_of(each)))
    ]
    if not found:
        return None
    at, part = draws.pick(found)
    var = Var(site.maker.names.fresh("x"), type_of(part))
    if draws.chance(0.5):
        changed = replace_expressions(value, {at: var})
        return site.put(module, (Bind(var, part), replace(site.stmt, value=changed)))
    changed = replace_expressions(value, {at: Let(var, part, var)})
    return site.put(module, (replace(site.stmt, value=changed),))
