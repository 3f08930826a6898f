"""Blocks without buffers that are regions of others: what they hold is read and written where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from corpus.tir.tree import Block, Body, Match, Stmt, Store
from corpus.tir.values import Binary, Expr, Load, Region
from corpus.tir.walk import rebuilt
from reducer.move import Hints, Move, Search
from reducer.subject.tir.subject import TirSubject
from reducer.tir_searches import over_statements


def drop_matches(subject: TirSubject, hints: Hints) -> Search:
    """Use the buffer itself instead of each that is matched to a region of it."""
    return (yield from over_statements(subject, _without))


def _without(stmt: Stmt) -> Iterator[Body]:
    if isinstance(stmt, Block):
        for place, match in enumerate(stmt.matches):
            if len(match.buffer.shape) == len(match.source.ranges):
                others = (*stmt.matches[:place], *stmt.matches[place + 1 :])
                yield (_in_place(replace(stmt, matches=others), match),)


def _in_place(stmt: Block, match: Match) -> Stmt:
    source, starts = match.source.buffer, [each.min for each in match.source.ranges]

    def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(Binary("add", start, index) for start, index in zip(starts, indices, strict=True))

    def change(node: Any) -> Any:
        node = rebuilt(node, change)
        if isinstance(node, Load | Store) and node.buffer == match.buffer.name:
            return replace(node, buffer=source, indices=moved(node.indices))
        if isinstance(node, Region) and node.buffer == match.buffer.name:
            return match.source
        return node

    found: Stmt = change(stmt)
    return found


MOVES = (Move("drop matched buffers", 18, drop_matches, on=TirSubject),)
