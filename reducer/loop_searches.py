"""Searches of a module of loops: what each statement, each expression, the function may become, tried in
turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TypeAlias

from corpus.tir.tree import Body, Stmt
from corpus.tir.values import Expr
from corpus.tir.walk import expressions, statements
from reducer.move import SearchOf
from reducer.subject.loops.edits import if_smaller, with_expression, with_statement
from reducer.subject.loops.subject import LoopSubject

Changes: TypeAlias = Callable[[Stmt], Iterator[Body]]
"""What a statement may become, the boldest first."""


def over_statements(subject: LoopSubject, changes: Changes) -> SearchOf[LoopSubject]:
    """Try what each statement may become, the outermost first; a change is kept where it still fails."""
    best, position = subject, 0
    while position < len(found := [*statements(best.main.body)]):
        for body in changes(found[position]):
            proposal = cache(partial(with_statement, best, position, body))
            if proposal() is not None and (yield proposal):
                best = proposal() or best
                break
        else:
            position += 1
    return best


def over_expressions(
    subject: LoopSubject, changes: Callable[[Expr], Iterator[Expr]]
) -> SearchOf[LoopSubject]:
    """Do what `over_statements` does, for expressions."""
    best, position = subject, 0
    while position < len(found := [*expressions(best.main.body)]):
        for expr in changes(found[position]):
            proposal = cache(partial(with_expression, best, position, expr))
            if proposal() is not None and (yield proposal):
                best = proposal() or best
                break
        else:
            position += 1
    return best


def over_functions(
    subject: LoopSubject, changes: Callable[[LoopSubject], Iterator[Callable[[], LoopSubject | None]]]
) -> SearchOf[LoopSubject]:
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


def _checked(subject: LoopSubject, change: Callable[[], LoopSubject | None]) -> LoopSubject | None:
    found = change()
    return if_smaller(subject, found) if found is not None else None
