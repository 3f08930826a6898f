"""Where a mutator works: a statement of the first function, what is visible there, another in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from corpus.tir.tree import Body, For, Function, Module, Stmt, Store
from corpus.tir.values import Expr, Load
from corpus.tir.walk import expressions, replace_statements, walk, with_function
from generators.language.random_source import RandomSource
from generators.tir.frame import Frame, Names, places
from generators.tir.statements import Maker

Kind = TypeVar("Kind", bound=Stmt)


@dataclass(frozen=True, slots=True)
class Site:
    """A statement of a function: its position, what is visible before it, and a maker of new ones."""

    function: Function
    position: int
    stmt: Stmt
    frame: Frame
    maker: Maker

    def put(self, module: Module, body: Body) -> Module:
        """Return the module with these statements in place of this one."""
        changed = replace_statements(self.function.body, {self.position: body})
        return with_function(module, module.entry, replace(self.function, body=changed))


def pick_site(
    draws: RandomSource, module: Module, wanted: Callable[[Stmt], bool] = lambda stmt: True
) -> Site | None:
    """One of the statements that are wanted; None where there is none."""
    function = module.main
    found = [each for each in places(function) if wanted(each[1])]
    if not found:
        return None
    position, stmt, frame = draws.pick(found)
    return Site(function, position, stmt, frame, Maker(draws, Names.of(function)))


def is_loop(stmt: Stmt, *kinds: str) -> bool:
    """Return whether it is a loop of one of these kinds."""
    return isinstance(stmt, For) and stmt.kind in kinds


def is_independent(loop: For) -> bool:
    """Whether the loop's rounds do not meet in memory: every store is indexed by its variable, at one place,
    and what is stored to is read at that place alone.
    """
    places_of: dict[str, set[tuple[Expr, ...]]] = {}
    for item in walk(loop.body):
        if isinstance(item, Store):
            places_of.setdefault(item.buffer, set()).add(item.indices)
    for indices in places_of.values():
        if len(indices) > 1 or loop.var not in next(iter(indices)):
            return False
    loads = [item for item in expressions(loop.body) if isinstance(item, Load)]
    return all(item.indices in places_of[item.buffer] for item in loads if item.buffer in places_of)
