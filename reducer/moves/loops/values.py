"""Plainer expressions: a name gives way to what it stands for, an expression to a part of it or to a
constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from corpus.tir.names import substituted
from corpus.tir.tree import (
    Bind,
    BufferRef,
    Const,
    Expr,
    Let,
    Load,
    Text,
    literal,
    type_of,
)
from corpus.tir.types import is_bool, is_number
from corpus.tir.walk import children, replace_statements, statements, walk
from reducer.loop_searches import over_expressions, over_functions
from reducer.move import Hints, Move, Search
from reducer.subject.loops import LoopSubject
from reducer.subject.onnx import Subject


def inline_names(subject: Subject, hints: Hints) -> Search:
    """Put a bound value where its name stands."""
    assert isinstance(subject, LoopSubject)
    return (yield from over_functions(subject, _inlined))


def _inlined(subject: LoopSubject) -> Iterator[Callable[[], LoopSubject | None]]:
    for position, stmt in enumerate(statements(subject.main.body)):
        if isinstance(stmt, Bind):
            yield partial(_without_name, subject, position, stmt)


def _without_name(subject: LoopSubject, position: int, stmt: Bind) -> LoopSubject:
    body = replace_statements(subject.main.body, {position: ()})
    return subject.with_main(replace(subject.main, body=substituted(body, {stmt.var.name: stmt.value})))


def plain_expressions(subject: Subject, hints: Hints) -> Search:
    """Make each expression a constant, or a part of it of the same type; the outermost first."""
    assert isinstance(subject, LoopSubject)
    return (yield from over_expressions(subject, _plainer))


def _plainer(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Text | BufferRef):
        return
    dtype = type_of(expr)
    if isinstance(expr, Const):
        yield from _plainer_literals(expr)
        return
    if isinstance(expr, Let):
        yield substituted(expr.body, {expr.var.name: expr.value})
    if is_number(dtype):
        yield literal(0, dtype)
        yield literal(1, dtype)
    elif is_bool(dtype):
        yield literal(True, dtype)
        yield literal(False, dtype)
    if not isinstance(expr, Load):
        yield from _parts(expr, dtype)


def _parts(expr: Expr, dtype: str) -> Iterator[Expr]:
    """Expressions of the type inside it, the largest first."""
    inside = [item for child in children(expr) for item in walk(child) if isinstance(item, Expr)]
    seen = []
    for item in inside:
        if type_of(item) == dtype and not isinstance(item, Const | Text) and item not in seen:
            seen.append(item)
            yield item


def _plainer_literals(expr: Const) -> Iterator[Expr]:
    for value in (0, 1, 2):
        if expr.value != value and not is_bool(expr.dtype):
            yield literal(value, expr.dtype)


MOVES = (
    Move("inline names", 40, inline_names, subjects=(LoopSubject,)),
    Move("plain expressions", 50, plain_expressions, subjects=(LoopSubject,)),
)
