"""The mutators: each turns a module into another one, or declines (Tzer, sections 3.2 and 3.3).

A module here is imported by itself; every `Mutator` that it defines counts.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from generators.tir.sites import Mutator


@cache
def all_mutators() -> tuple[Mutator, ...]:
    """Every mutator, by name."""
    modules = [import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Mutator)]
    return tuple(sorted(found, key=lambda each: each.name))
