"""The operators of Relax, one file a family. A file here that names `OPERATORS` is found by itself."""

from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from pkgutil import iter_modules

from generators.relax.operator import Operator, Tensor

_MOST_TYPES = 4096
"""How many types the answers of all recognisers are kept for, the last ones asked about."""


@cache
def operators() -> tuple[Operator, ...]:
    """Every operator that has an entry, by name."""
    found = [
        replace(each, family=info.name)
        for info in iter_modules(__path__)
        for each in import_module(f"{__name__}.{info.name}").OPERATORS
    ]
    return tuple(sorted(found, key=lambda each: each.name))


@lru_cache(maxsize=_MOST_TYPES)
def recognising(target: Tensor) -> tuple[Operator, ...]:
    """The operators of which a call can have the type, by name.

    The answers are kept (the RFC's caching): recognisers see nothing but the type. Solutions are not: a
    solver draws.
    """
    return tuple(each for each in operators() if each.recognise(target))
