"""A part of a value under a name: before the statement, or for a part of the value around it."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Bind, Module, Store
from corpus.tir.types import is_float, is_integer, lanes
from corpus.tir.values import Expr, Let, Var, type_of
from corpus.tir.walk import expressions, replace_expressions
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site

NAME = "name a value"
_BEFORE = 0.4
"""How often the name stands before the statement, and not within the value."""


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Bind a part of what is stored, or let it have a name within an expression around it."""
    site = pick_site(draws, module, lambda stmt: isinstance(stmt, Store))
    if site is None or not isinstance(site.stmt, Store):
        return None
    value = site.stmt.value
    found = [(at, each) for at, each in enumerate(expressions((value,))) if _is_scalar(each)]
    if not found:
        return None
    at, part = draws.pick(found)
    var = Var(site.maker.names.fresh("x"), type_of(part))
    if draws.chance(_BEFORE):
        changed = replace_expressions(value, {at: var})
        return site.put(module, (Bind(var, part), replace(site.stmt, value=changed)))
    changed = _with_let(draws, value, at, Let(var, part, var))
    return site.put(module, (replace(site.stmt, value=changed),))


def _with_let(draws: RandomSource, value: Expr, at: int, let: Let) -> Expr:
    """Return the value with its part named in one of the expressions that hold the part, or in itself."""
    starts = [0]
    for place, each in enumerate(expressions((value,))):
        if place < at < place + len([*expressions((each,))]):
            starts.append(place)
    start = draws.pick([*starts, at])
    whole = next(each for place, each in enumerate(expressions((value,))) if place == start)
    body = replace_expressions(whole, {at - start: let.var})
    return replace_expressions(value, {start: replace(let, body=body)})


def _is_scalar(expr: Expr) -> bool:
    dtype = type_of(expr)
    return lanes(dtype) == 1 and (is_integer(dtype) or is_float(dtype))
