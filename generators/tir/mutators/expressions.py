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
    literal,
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
    pick_site,
)
from generators.tir.values import Sampler

_ON_FLOATS = ("add", "sub", "mul", "min", "max")

_ON_INTEGERS = (*_ON_FLOATS, "floordiv", "floormod")

_TIMES = (1, 1, 2, 3)
"""How often an expression is repeated: CSE is to meet some that stand three times, in lets and branches."""

_TWICE = ("mul", "add", "max")

_SELDOM = 0.15
"""How often `name beside an expression` applies: TVM fails on most of its results, which hides other bugs."""

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


@mutator("repeat an expression")
def repeat_expression(draws: RandomSource, module: Module) -> Module | None:
    """Put an expression of the function in place of others of its type: food for CSE."""
    found, new = None, None
    for _ in range(draws.pick(_TIMES)):
        site = pick_site(draws, found or module, Store)
        if site is None:
            break
        new = new or _drawn(draws, site)
        found = _with(draws, found or module, site, new) or found
    return found


def _drawn(draws: RandomSource, site: Site[Store]) -> Expr | None:
    """An operation of the function that can be computed at the site."""
    known = [each for each in expressions(site.function.body) if _is_visible(each, site)]
    return draws.pick(known) if known else None


def _with(draws: RandomSource, module: Module, site: Site[Store], new: Expr | None) -> Module | None:
    """The module with `new` in place of one expression of its type in the store; None if there is none."""
    if new is None or not _is_visible(new, site):
        return None
    value = site.stmt.value
    places = [
        at for at, each in enumerate(expressions((value,))) if type_of(each) == type_of(new) and each != new
    ]
    if not places:
        return None
    changed = replace_expressions(value, {draws.pick(places): new})
    return site.put(module, (replace(site.stmt, value=changed),))


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
    """Bind a part of the stored value before the store, or by a let around that part."""
    value = site.stmt.value
    found = [(at, each) for at, each in enumerate(expressions((value,))) if _is_scalar(each)]
    if not found:
        return None
    at, part = draws.pick(found)
    var = Var(site.maker.names.fresh("x"), type_of(part))
    if draws.chance(_BEFORE):
        changed = replace_expressions(value, {at: var})
        return (Bind(var, part), replace(site.stmt, value=changed))
    let = Let(var, part, var)
    # The value with a let around its part, or around one of the expressions that hold the part
    starts = [0]
    for place, each in enumerate(expressions((value,))):
        if place < at < place + len([*expressions((each,))]):
            starts.append(place)
    start = draws.pick([*starts, at])
    whole = next(each for place, each in enumerate(expressions((value,))) if place == start)
    body = replace_expressions(whole, {at - start: let.var})
    return (replace(site.stmt, value=replace_expressions(value, {start: replace(let, body=body)})),)


@mutator("name beside an expression")
def name_beside(draws: RandomSource, module: Module) -> Module | None:
    """Store an expression from within a let, then the same expression twice; CSE sees only the latter."""
    site = pick_site(draws, module, Store) if draws.chance(_SELDOM) else None
    if site is None:
        return None
    stmt, dtype = site.stmt, type_of(site.stmt.value)
    found = [each for each in expressions((stmt.value,)) if _is_apt(each, site)]
    if not found:
        return None
    part = draws.pick(found)
    name = Var(site.maker.names.fresh("x"), dtype)
    within = replace(stmt, value=Let(name, literal(1, dtype), part))
    twice = replace(stmt, value=Binary(draws.pick(_TWICE), part, part))
    return site.put(module, (within, twice))


def _is_apt(expr: Expr, site: Site[Store]) -> bool:
    """Whether it is an operation of the stored type, and reads nothing that the store changes."""
    if not isinstance(expr, Binary) or type_of(expr) != type_of(site.stmt.value):
        return False
    loads = [part for part in expressions((expr,)) if isinstance(part, Load)]
    return _knows_names(site, expr) and all(part.buffer != site.stmt.buffer for part in loads)
