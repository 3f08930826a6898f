"""Identities of numbers that TVM's analyser holds for floats by design, whatever they round or overflow to.

Its rules for types that are no indices say so (`rewrite_simplify.cc`: models should not meet NaN, and this
allows better simplification): a result that follows from them is nobody's mistake.
"""

from corpus.tir.forms import is_float
from corpus.tir.tree import Module
from corpus.tir.values import Binary, Const, Expr, literal, type_of
from corpus.tir.walk import map_expressions


def by_identities(module: Module) -> Module:
    """The module after every such rewrite; equal to the given one where none applies."""
    return Module({name: map_expressions(each, _simpler) for name, each in module.functions.items()})


def _simpler(expr: Expr) -> Expr:
    if not isinstance(expr, Binary) or not is_float(type_of(expr.a)):
        return expr
    match expr:
        case Binary("sub", a, b) if a == b:
            return literal(0, expr.dtype)
        case Binary("sub", Binary("add", a, b), c) if c in (a, b):
            return a if b == c else b
        case Binary("sub", a, Binary("add", b, c)) if a in (b, c):
            return Binary("sub", literal(0, expr.dtype), c if a == b else b)
        case Binary("mul", a, b) if _is_zero(a) or _is_zero(b):
            return literal(0, expr.dtype)
        case Binary("div", a, _) if _is_zero(a):
            return literal(0, expr.dtype)
        case Binary("eq", a, b) if a == b:
            return literal(True, expr.dtype)
    return expr


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 0
