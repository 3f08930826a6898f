"""Plainer expressions: a name gives way to what it stands for, an expression to a part of it or to a
constant.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from corpus.tir.tree import Bind, Body, Stmt, Store
from corpus.tir.types import is_bool, is_number, lanes, with_lanes
from corpus.tir.values import (
    Broadcast,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Load,
    Ramp,
    Text,
    literal,
    type_of,
)
from corpus.tir.walk import children, expressions, rebuilt, replace_statements, statements, substituted
from reducer.move import Move
from reducer.subject.tir_subject import TirSubject
from reducer.tir_searches import (
    Candidates,
    by_expressions,
    by_functions,
    by_statements,
)


def inline_names(subject: TirSubject) -> Candidates:
    """Put a bound value where its name stands."""
    for position, stmt in enumerate(statements(subject.main.body)):
        if isinstance(stmt, Bind):
            yield partial(_without_name, subject, position, stmt)


def _without_name(subject: TirSubject, position: int, stmt: Bind) -> TirSubject:
    body = replace_statements(subject.main.body, {position: ()})
    return subject.with_main(replace(subject.main, body=substituted(body, {stmt.var.name: stmt.value})))


def narrow_values(stmt: Stmt) -> Iterator[Body]:
    """Store a part of what is stored, cast where it is of another type; the smallest that still fails."""
    if not isinstance(stmt, Store):
        return
    dtype = type_of(stmt.value)
    whole = stmt.value.value if isinstance(stmt.value, Cast) else stmt.value
    inside = [child for child in children(whole) if isinstance(child, Expr)]
    inside = [child for child in inside if _can_be_stored(child, dtype)]
    for part in sorted(inside, key=lambda child: -sum(1 for _ in expressions(child))):
        yield (replace(stmt, value=part if type_of(part) == dtype else Cast(dtype, part)),)


def _can_be_stored(expr: Expr, dtype: str) -> bool:
    """Whether it is a value with as many lanes that a cast takes to the type."""
    if isinstance(expr, Text | BufferRef):
        return False
    own = type_of(expr)
    return (is_number(own) or is_bool(own)) and lanes(own) == lanes(dtype)


def plain_expressions(expr: Expr) -> Iterator[Expr]:
    """Make each expression a constant, or a part of it of the same type; the outermost first."""
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
    elif is_bool(dtype):
        yield literal(True, dtype)
    if not isinstance(expr, Load):
        yield from _parts(expr, dtype)
    if is_bool(dtype):
        yield literal(False, dtype)


def _parts(expr: Expr, dtype: str) -> Iterator[Expr]:
    """Expressions of the type right inside it, or inside a cast there, the largest first."""
    direct = [item for item in children(expr) if isinstance(item, Expr)]
    inside = [child for item in direct if isinstance(item, Cast) for child in (item.value,)]
    found = [item for item in (*direct, *inside) if not isinstance(item, Const | Text | BufferRef)]
    same = [item for item in found if type_of(item) == dtype]
    yield from sorted(same, key=lambda item: -sum(1 for _ in expressions(item)))


def _plainer_literals(expr: Const) -> Iterator[Expr]:
    for value in (0, 1, 2):
        if expr.value != value and not is_bool(expr.dtype):
            yield literal(value, expr.dtype)


def fewer_lanes(stmt: Stmt) -> Iterator[Body]:
    """Store the first lane alone, the first two, or half of them."""
    if isinstance(stmt, Store) and (count := lanes(type_of(stmt.value))) > 1:
        for fewer in dict.fromkeys((1, 2, count // 2)):
            if fewer < count:
                yield (_with_fewer(stmt, count, fewer),)


def _with_fewer(stmt: Store, count: int, fewer: int) -> Store:
    def change(node: Any) -> Any:
        node = rebuilt(node, change)
        if isinstance(node, Ramp | Broadcast) and node.lanes == count:
            first = node.base if isinstance(node, Ramp) else node.value
            return replace(node, lanes=fewer) if fewer > 1 else first
        if isinstance(node, Cast | Load | Call) and lanes(node.dtype) == count:
            return replace(node, dtype=with_lanes(node.dtype, fewer))
        return node

    found: Store = change(stmt)
    return found


MOVES = (
    Move("fewer lanes", 45, by_statements(fewer_lanes), on=TirSubject),
    Move("inline names", 40, by_functions(inline_names), on=TirSubject),
    Move("narrow values", 12, by_statements(narrow_values), on=TirSubject),
    Move("plain expressions", 50, by_expressions(plain_expressions), on=TirSubject),
)
