"""Another operator of the same typing rule, or the operands the other way round."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.tree import Module
from corpus.tir.types import is_float
from corpus.tir.values import BITWISE, COMPARISONS, LOGIC, Binary, type_of
from corpus.tir.walk import expressions, replace_expressions, with_function
from generators.language.random_source import RandomSource

NAME = "swap an operator"
_ON_FLOATS = ("add", "sub", "mul", "min", "max")
_ON_INTEGERS = (*_ON_FLOATS, "floordiv", "floormod")


def mutate(draws: RandomSource, module: Module) -> Module | None:
    """Change one binary operation."""
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
