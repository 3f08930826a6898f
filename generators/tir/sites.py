"""What a mutator is, and the statement of the first function that most of them work on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

from corpus.tir.tree import Alloc, Bind, Block, Body, For, Function, Module, Stmt, Store
from corpus.tir.values import Expr, Load
from corpus.tir.walk import expressions, replace_statements, walk, with_function
from generators.language.values import RandomSource
from generators.tir.frame import Frame, Names, places
from generators.tir.statements import USUAL, WIDE, Maker

Kind = TypeVar("Kind", bound=Stmt)
Mutate: TypeAlias = Callable[[RandomSource, Module], Module | None]


@dataclass(frozen=True, slots=True)
class Mutator:
    """A named change of a module. It declines with None; its result need not be sound, the caller checks."""

    name: str
    mutate: Mutate


_WIDE = 0.15
"""How often what is grown at a site has loops and memory of a few hundred elements."""


def mutator(name: str) -> Callable[[Mutate], Mutator]:
    """Register a change of a whole module."""
    return lambda mutate: Mutator(name, mutate)


@dataclass(frozen=True, slots=True)
class Site(Generic[Kind]):
    """A statement: its position in the function, what is visible before it, and a maker of new ones."""

    function: Function
    position: int
    stmt: Kind
    frame: Frame
    maker: Maker

    def put(self, module: Module, body: Body) -> Module:
        """The module with these statements in place of this one."""
        changed = replace_statements(self.function.body, {self.position: body})
        return with_function(module, module.entry, replace(self.function, body=changed))


def anywhere(stmt: Any) -> bool:
    """True: each statement of the kind will do."""
    return True


def pick_site(
    draws: RandomSource, module: Module, kind: type[Kind], fits: Callable[[Kind], bool] = anywhere
) -> Site[Kind] | None:
    """One of the fitting statements of a kind; None if there is none."""
    function = module.main
    found = [
        (position, stmt, frame)
        for position, stmt, frame in places(function)
        if isinstance(stmt, kind) and fits(stmt)
    ]
    if not found:
        return None
    position, stmt, frame = draws.pick(found)
    limits = WIDE if draws.chance(_WIDE) else USUAL
    return Site(function, position, stmt, frame, Maker(draws, Names.of(function), limits))


def at_site(
    name: str, kind: type[Kind], fits: Callable[[Kind], bool] = anywhere
) -> Callable[[Callable[[RandomSource, Site[Kind]], Body | None]], Mutator]:
    """Register a change of one statement: the function says what replaces it, or declines with None."""

    def registered(change: Callable[[RandomSource, Site[Kind]], Body | None]) -> Mutator:
        def mutate(draws: RandomSource, module: Module) -> Module | None:
            site = pick_site(draws, module, kind, fits)
            body = change(draws, site) if site is not None else None
            return site.put(module, body) if site is not None and body is not None else None

        return Mutator(name, mutate)

    return registered


def allocates_nothing(stmt: Stmt) -> bool:
    """Whether no later statement needs this one's memory."""
    return not isinstance(stmt, Alloc | Block)


def defines_nothing(stmt: Stmt) -> bool:
    """Whether no later statement needs a name that this one defines."""
    return not isinstance(stmt, Alloc | Bind | Block)


def is_serial(loop: For) -> bool:
    """Whether the loop runs in order, one round after the other."""
    return loop.kind == "serial"


def is_ordered(loop: For) -> bool:
    """Whether the loop runs in order, as a loop or unrolled."""
    return loop.kind in ("serial", "unrolled")


def is_independent(loop: For) -> bool:
    """Whether no two rounds touch the same element.

    Then each store is indexed by the loop's variable, at one place for each buffer, and a buffer that is
    stored to is read at that place alone.
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
