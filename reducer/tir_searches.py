"""Searches of a TIR module: what each statement, each expression, the function may become, tried in
turn.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TypeAlias, TypeVar

from corpus.tir.tree import Body, For, Stmt
from corpus.tir.values import Const, Expr
from corpus.tir.walk import expressions, statements
from reducer.move import Hints, Search, SearchOf
from reducer.subject.tir_subject import TirSubject, if_smaller, with_expression, with_statement

_Part = TypeVar("_Part")
_New = TypeVar("_New")
Candidates: TypeAlias = Iterator[Callable[[], TirSubject | None]]
"""What a subject may become, the boldest first; None where a change does not apply."""
Changes: TypeAlias = Callable[[Stmt], Iterator[Body]]
"""What a statement may become, the boldest first."""


def over_statements(subject: TirSubject, changes: Changes) -> SearchOf[TirSubject]:
    """Try what each statement may become, the outermost first; a change is kept where it still fails."""
    return _over_each(subject, statements, changes, with_statement)


def over_expressions(subject: TirSubject, changes: Callable[[Expr], Iterator[Expr]]) -> SearchOf[TirSubject]:
    """Do what `over_statements` does, for expressions other than a loop's number of rounds."""
    return _over_each(subject, _computed, changes, with_expression)


def _computed(body: Body) -> Iterator[Expr | None]:
    """Yield every expression by its position; None for the number of rounds of a loop."""
    rounds = {id(stmt.extent) for stmt in statements(body) if isinstance(stmt, For)}
    for expr in expressions(body):
        yield None if isinstance(expr, Const) and id(expr) in rounds else expr


def _over_each(
    subject: TirSubject,
    listed: Callable[[Body], Iterator[_Part | None]],
    changes: Callable[[_Part], Iterator[_New]],
    changed: Callable[[TirSubject, int, _New], TirSubject | None],
) -> SearchOf[TirSubject]:
    best, position = subject, 0
    while position < len(found := [*listed(best.main.body)]):
        part = found[position]
        for new in changes(part) if part is not None else ():
            proposal = cache(partial(changed, best, position, new))
            if proposal() is not None and (yield proposal):
                best = proposal() or best
                break
        else:
            position += 1
    return best


def over_functions(subject: TirSubject, changes: Callable[[TirSubject], Candidates]) -> SearchOf[TirSubject]:
    """Try whole-function changes one after the other, from the start again after each that is kept."""
    best = subject
    while True:
        for change in changes(best):
            proposal = cache(partial(_checked, best, change))
            if proposal() is not None and (yield proposal):
                best = proposal() or best
                break
        else:
            return best


def _checked(subject: TirSubject, change: Callable[[], TirSubject | None]) -> TirSubject | None:
    found = change()
    return if_smaller(subject, found) if found is not None else None


def by_statements(changes: Changes) -> Callable[[TirSubject, Hints], Search]:
    """The search of a move that says what a statement may become."""
    return lambda subject, hints: over_statements(subject, changes)


def by_expressions(changes: Callable[[Expr], Iterator[Expr]]) -> Callable[[TirSubject, Hints], Search]:
    """The search of a move that says what an expression may become."""
    return lambda subject, hints: over_expressions(subject, changes)


def by_functions(
    changes: Callable[[TirSubject], Candidates],
) -> Callable[[TirSubject, Hints], Search]:
    """The search of a move that says what the whole subject may become."""
    return lambda subject, hints: over_functions(subject, changes)
