"""Shorter and plainer loops: fewer rounds, from zero, in order, without annotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from corpus.tir.names import substituted
from corpus.tir.tree import Body, For, Stmt
from corpus.tir.values import Const
from reducer.move import Hints, Move, Search
from reducer.subject.tir.subject import TirSubject
from reducer.tir_searches import over_statements


def shorten_loops(subject: TirSubject, hints: Hints) -> Search:
    """Give each loop one round, two, or half as many."""
    return (yield from over_statements(subject, _shorter))


def _shorter(stmt: Stmt) -> Iterator[Body]:
    if not isinstance(stmt, For) or not isinstance(stmt.extent, Const):
        return
    extent = int(stmt.extent.value)
    for fewer in dict.fromkeys((1, 2, 3, 4, extent // 2)):
        if 0 < fewer < extent:
            yield (replace(stmt, extent=Const(fewer, stmt.extent.dtype)),)


def plain_loops(subject: TirSubject, hints: Hints) -> Search:
    """Make each loop one from zero, in order, in steps of 1, and of no name to anybody."""
    return (yield from over_statements(subject, _plainer))


def _plainer(stmt: Stmt) -> Iterator[Body]:
    if not isinstance(stmt, For):
        return
    zero = Const(0, stmt.var.dtype)
    yield (replace(stmt, kind="serial", thread=None, step=None, annotations={}),)
    yield (replace(stmt, kind="serial", thread=None),)
    yield (replace(stmt, step=None),)
    yield (replace(stmt, annotations={}),)
    if stmt.min != zero:
        yield (replace(stmt, min=zero),)
        if stmt.step is None:
            yield (substituted(replace(stmt, min=zero), {}),)


MOVES = (
    Move("shorten loops", 30, shorten_loops, on=TirSubject),
    Move("plain loops", 90, plain_loops, on=TirSubject),
)
