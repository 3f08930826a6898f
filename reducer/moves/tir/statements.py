"""Fewer statements: those that do something are dropped; what only they needed goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from corpus.tir.tree import Alloc, Bind, Block, Body, Declare, Stmt
from corpus.tir.walk import children, replace_statements, statements
from reducer.move import Hints, Move, Search, over_sets
from reducer.search import Items, SetSearch, drop_one_at_a_time, find_essentials
from reducer.subject.tir.edits import unused_names, without_leftovers
from reducer.subject.tir.subject import TirSubject

FEW = 4
"""So many statements are dropped one at a time at once."""


def drop_statements(subject: TirSubject, hints: Hints) -> Search:
    """Keep the statements without which it does not fail, and the loops and definitions around these."""
    unused = unused_names(subject.main)
    found = enumerate(statements(subject.main.body))
    actions = [place for place, stmt in found if _acts(stmt) or _is_one_of(stmt, unused)]
    if len(actions) < 2:
        return subject
    return (yield from over_sets(subject, _search(len(actions)), partial(_keep, subject, tuple(actions))))


def _acts(stmt: Stmt) -> bool:
    """Return whether it does something by itself: no definition, and nothing inside."""
    return not isinstance(stmt, Bind | Alloc | Declare | Block) and not any(
        isinstance(child, Stmt) for child in children(stmt)
    )


def _is_one_of(stmt: Stmt, unused: frozenset[str]) -> bool:
    """Return whether it defines what nothing uses, so that it may matter by itself."""
    if isinstance(stmt, Bind):
        return stmt.var.name in unused
    return isinstance(stmt, Alloc | Declare) and stmt.buffer.name in unused


def _search(count: int) -> SetSearch:
    if count <= FEW:
        return (yield from drop_one_at_a_time(range(count)))
    kept = yield from find_essentials(range(count), patience=count)
    return (yield from drop_one_at_a_time(kept))


def _keep(subject: TirSubject, actions: tuple[int, ...], keep: Items) -> TirSubject | None:
    gone: Mapping[int, Body] = {place: () for number, place in enumerate(actions) if number not in keep}
    function = replace(subject.main, body=replace_statements(subject.main.body, gone))
    found = subject.with_main(without_leftovers(function, unused_names(subject.main)))
    return found if found.is_valid else None


MOVES = (Move("drop statements", 10, drop_statements, on=TirSubject),)
