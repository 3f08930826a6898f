"""The mutators, one idea a file: each turns a module into another one, or declines (Tzer, section 3.2).

A file here that names `mutate` is found by itself. `mutate(draws, module)` returns a module or None. It need
not be sound: the caller checks that the result is well-formed and defined.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from corpus.tir.tree import Module
from generators.language.random_source import RandomSource


class Mutator(Protocol):
    """A mutator's file."""

    NAME: str

    def mutate(self, draws: RandomSource, module: Module) -> Module | None:
        """Another module; None where it finds nothing to do."""


@cache
def all_mutators() -> tuple[Mutator, ...]:
    """Return every mutator, by name."""
    found = [cast(Mutator, import_module(f"{__name__}.{info.name}")) for info in iter_modules(__path__)]
    return tuple(sorted(found, key=lambda each: each.NAME))
