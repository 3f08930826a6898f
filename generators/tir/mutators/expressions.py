"""Expressions replaced, repeated and named."""

from dataclasses import replace

from corpus.tir.forms import is_bool, is_float, is_integer, lanes
from corpus.tir.tree import Bind, Body, If, Module, Stmt, Store
from corpus.tir.values import (
    BITWISE,
    COMPARISONS,
    LOGIC,
    Binary,
    Call,
    Expr,
    Let,
    Load,
    Var,
    type_of,
)
from corpus.tir.walk import (
    expressions,
    replace_expressions,
    with_function,
)
from generators.language.values import RandomSource
from generators.tir.sites import (
    Site,
    at_site,
    mutator,
)
from generators.tir.values import Sampler

_ON_FLOATS = ("add", "sub", "mul", "min", "max")

_ON_INTEGERS = (*_ON_FLOATS, "floordiv", "floormod")

_BEFORE = 0.4
"""How often a value is named before the statement, and not by a let within it."""


def _computes(stmt: Stmt) -> bool:
    return isinstance(stmt, Store | Bind | If)


@at_site("replace an expression", Stmt, _computes)
def replace_expression(draws: RandomSource, site: Site[Stmt]) -> Body | None:
    """Draw a new expression for one within a store, a binding or a condition."""
    field = "condition" if isinstance(site.stmt, If) else "value"
    whole: Expr = getattr(site.stmt, field)
    found = [
        (at, each) for at, each in enumerate(expressions((whole,))) if _is_scalar(each) or _is_truth(each)
    ]
    if not found:
        return None
    at, old = draws.pick(found)
    new = Sampler(draws, site.frame).value(type_of(old), draws.between(0, 4)).expr
    return (replace(site.stmt, **{field: replace_expressions(whole, {at: new})}),)


def _is_scalar(expr: Expr) -> bool:
    dtype = type_of(expr)
    return lanes(dtype) == 1 and (is_integer(dtype) or is_float(dtype))


def _is_truth(expr: Expr) -> bool:
    return lanes(type_of(expr)) == 1 and is_bool(type_of(expr))


@mutator("swap an operator")
def swap_operator(draws: RandomSource, module: Module) -> Module | None:
    """Change one binary operation: another operator of the same typing rule, or its operands swapped."""
    function = module.main
    found = [(at, each) for at, each in enumerate(expressions(function.body)) if isinstance(each, Binary)]
    if not found:
        return None
    at, old = draws.pick(found)
    new = replace(old, a=old.b, b=old.a) if draws.chance(0.3) else replace(old, op=draws.pick(_alike(old)))
    body = replace_expressions(function.body, {at: new})
    return with_function(module, module.entry, replace(function, body=body))


def _alike(old: Binary) -> tuple[str, ...]:
    for kind in (COMPARISONS, LOGIC, BITWISE - {"shl", "shr"}):
        if old.op in kind:
            return tuple(sorted(kind))
    return _ON_FLOATS if is_float(type_of(old.a)) else _ON_INTEGERS


@at_site("repeat an expression", Store)
def repeat_expression(draws: RandomSource, site: Site[Store]) -> Body | None:
    """Put an expression of the function in place of another one of its type: food for CSE."""
    known = [each for each in expressions(site.function.body) if _is_visible(each, site)]
    if not known:
        return None
    new, value = draws.pick(known), site.stmt.value
    places = [
        at for at, each in enumerate(expressions((value,))) if type_of(each) == type_of(new) and each != new
    ]
    if not places:
        return None
    return (replace(site.stmt, value=replace_expressions(value, {draws.pick(places): new})),)


def _is_visible(expr: Expr, site: Site[Store]) -> bool:
    buffers = {buffer.name for buffer in site.frame.buffers}
    loads = [part for part in expressions((expr,)) if isinstance(part, Load)]
    return (
        isinstance(expr, Binary | Call)
        and _knows_names(site, expr)
        and all(part.buffer in buffers for part in loads)
    )


def _knows_names(site: Site[Store], expr: Expr) -> bool:
    names = {known.var.name for known in site.frame.known}
    return all(part.name in names for part in expressions((expr,)) if isinstance(part, Var))


@at_site("name a value", Store)
def name_value(draws: RandomSource, site: Site[Store]) -> Body | None:
    """Bind a part of the stored value before the store, or by a let around that value."""
    value = site.stmt.value
    found = [(at, each) for at, each in enumerate(expressions((value,))) if _is_scalar(each)]
    if not found:
        return None
    at, part = draws.pick(found)
    var = Var(site.maker.names.fresh("x"), type_of(part))
    if draws.chance(_BEFORE):
        changed = replace_expressions(value, {at: var})
        return (Bind(var, part), replace(site.stmt, value=changed))
    return (replace(site.stmt, value=Let(var, part, replace_expressions(value, {at: var}))),)
