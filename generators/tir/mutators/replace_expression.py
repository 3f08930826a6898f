"""Another expression of the same type in place of one, within a store, a name or a condition."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Bind, If, Module, Store
from corpus.tir.types import is_bool, is_float, is_integer, lanes
from corpus.tir.values import Expr, type_of
from corpus.tir.walk import expressions, replace_expressions
from generators.language.random_source import RandomSource
from generators.tir.sites import pick_site
from generators.tir.values import Sampler

NAME = "replace an expression"


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Draw a new expression for one that the value of a statement is computed from."""
    site = pick_site(draws, module, lambda stmt: isinstance(stmt, Store | Bind | If))
    if site is None:
        return None
    stmt = site.stmt
    whole = stmt.condition if isinstance(stmt, If) else stmt.value if isinstance(stmt, Store | Bind) else None
    if whole is None:
        return None
    found = [(at, each) for at, each in enumerate(expressions((whole,))) if _is_scalar(each)]
    if not found:
        return None
    at, old = draws.pick(found)
    new = Sampler(draws, site.frame).value(type_of(old), draws.between(0, 4)).expr
    changed = replace_expressions(whole, {at: new})
    field = "condition" if isinstance(stmt, If) else "value"
    return site.put(module, (replace(stmt, **{field: changed}),))


def _is_scalar(expr: Expr) -> bool:
    dtype = type_of(expr)
    is_plain = dtype != "handle" and lanes(dtype) == 1
    return is_plain and (is_integer(dtype) or is_float(dtype) or is_bool(dtype))
