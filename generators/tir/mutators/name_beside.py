"""An expression in the body of a name and twice in the next statement, where alone it is a common one."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Module, Store
from corpus.tir.values import Binary, Expr, Let, Load, Var, literal, type_of
from corpus.tir.walk import expressions
from generators.language.random_source import RandomSource
from generators.tir.sites import Site, pick_site

NAME = "name beside an expression"
_TWICE = ("mul", "add", "max")
_SELDOM = 0.15
"""How often it applies: TVM fails on most of what it makes, and other bugs are to be met as well."""


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Store an expression from within a let, and then the same one twice at the same place."""
    site = pick_site(draws, module, lambda stmt: isinstance(stmt, Store)) if draws.chance(_SELDOM) else None
    if site is None or not isinstance(site.stmt, Store):
        return None
    found = [each for each in expressions((site.stmt.value,)) if _is_apt(each, site.stmt.value, site)]
    if not found:
        return None
    part, dtype = draws.pick(found), type_of(site.stmt.value)
    name = Var(site.maker.names.fresh("x"), dtype)
    within = replace(site.stmt, value=Let(name, literal(1, dtype), part))
    twice = replace(site.stmt, value=Binary(draws.pick(_TWICE), part, part))
    return site.put(module, (within, twice))


def _is_apt(expr: Expr, value: Expr, site: Site) -> bool:
    """Return whether it is computed, of the stored type, and reads nothing that the store before changes."""
    assert isinstance(site.stmt, Store)
    if not isinstance(expr, Binary) or type_of(expr) != type_of(value):
        return False
    known = {each.var.name for each in site.frame.known}
    parts = list(expressions((expr,)))
    is_kept = all(part.buffer != site.stmt.buffer for part in parts if isinstance(part, Load))
    return is_kept and all(part.name in known for part in parts if isinstance(part, Var))
