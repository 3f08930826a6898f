"""The operators of Relax, one file a family. A file here that names `OPERATORS` is found by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from generators.relax.operator import Operator


@cache
def operators() -> tuple[Operator, ...]:
    """Return every operator that has an entry, by name."""
    found = [
        replace(each, family=info.name)
        for info in iter_modules(__path__)
        for each in import_module(f"{__name__}.{info.name}").OPERATORS
    ]
    return tuple(sorted(found, key=lambda each: each.name))
