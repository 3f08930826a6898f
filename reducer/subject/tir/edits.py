"""Changes of a TIR module at one place; what only the changed part needed goes with it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from corpus.tir.forms import FORMS
from corpus.tir.tree import (
    Alloc,
    Attr,
    Bind,
    Block,
    Body,
    Declare,
    For,
    Function,
    If,
    Seq,
    Stmt,
    Store,
    While,
)
from corpus.tir.values import BufferRef, Expr, Load, Region, Var
from corpus.tir.walk import (
    expressions,
    map_statements,
    replace_expressions,
    replace_statements,
    statements,
    walk,
)
from reducer.subject.order import size
from reducer.subject.tir.subject import TirSubject


def used_names(node: Any) -> set[str]:
    """The variables and buffers that a node reads, writes or names in a region."""
    found = set()
    for item in walk(node):
        if isinstance(item, Var):
            found.add(item.name)
        elif isinstance(item, Load | Store | BufferRef | Region):
            found.add(item.buffer)
    return found


def accessed_buffers(node: Any) -> set[str]:
    """The buffers that a node reads, writes or takes the address of."""
    return {item.buffer for item in walk(node) if isinstance(item, Load | Store | BufferRef)}


def unused_names(function: Function) -> frozenset[str]:
    """The names that the function defines but does not use: one of them may be the point."""
    defined = {name for stmt in statements(function.body) if (name := _defines(stmt)) is not None}
    blocks = (stmt for stmt in statements(function.body) if isinstance(stmt, Block))
    defined |= {one.name for stmt in blocks for one in stmt.allocs}
    return frozenset(defined - _uses(function))


def _uses(function: Function) -> set[str]:
    """The used names as `used_names` does, without places of definition."""
    found = set()
    for item in expressions(function.body):
        if isinstance(item, Var):
            found.add(item.name)
    return found | {
        item.buffer for item in walk(function.body) if isinstance(item, Load | Store | BufferRef | Region)
    }


def without_leftovers(function: Function, kept: frozenset[str] = frozenset()) -> Function:
    """The function without definitions that nothing uses but for those kept, and loops that do nothing."""
    before = None
    while before is not function:
        before = function
        function = map_statements(function, partial(_tidied, always=kept))
        function = replace(function, body=_without_unused(function.body, kept))
        function = function if function != before else before
    return function


def _tidied(stmt: Stmt, always: frozenset[str]) -> Stmt | Body:
    """A statement that holds nothing any more is none; memory that `always` names stays in its block."""
    match stmt:
        case For(body=()) | While(body=()) | Attr(body=()) | Seq(body=()):
            return ()
        case If(then=(), other=None | ()):
            return ()
        case If(other=()):
            return replace(stmt, other=None)
        case Block(body=(), init=None | ()):
            return ()
        case Block():
            inside = accessed_buffers((stmt.body, stmt.init or ()))
            kept = {one.buffer.name for one in stmt.matches if one.buffer.name in inside}
            matches = tuple(one for one in stmt.matches if one.buffer.name in kept)
            inside |= {one.source.buffer for one in matches}
            return replace(
                stmt,
                init=stmt.init or None,
                reads=tuple(region for region in stmt.reads if region.buffer in inside),
                writes=tuple(region for region in stmt.writes if region.buffer in inside),
                allocs=tuple(one for one in stmt.allocs if one.name in inside or one.name in always),
                matches=matches,
            )
    return stmt


def _without_unused(body: Body, always: frozenset[str]) -> Body:
    """A body without definitions of what the statements after them do not name."""
    kept: list[Stmt] = []
    for stmt in reversed(body):
        inner = _inside(stmt, always)
        name = _defines(inner)
        if name is None or name in always or name in used_names(tuple(kept)):
            kept.append(inner)
    found = tuple(reversed(kept))
    same = len(found) == len(body) and all(a is b for a, b in zip(found, body, strict=True))
    return body if same else found


def _inside(stmt: Stmt, always: frozenset[str]) -> Stmt:
    changed: dict[str, Body] = {}
    for each in FORMS[type(stmt)].bodies:
        inner = getattr(stmt, each.name)
        if inner and (after := _without_unused(inner, always)) is not inner:
            changed[each.name] = after
    return replace(stmt, **changed) if changed else stmt


def _defines(stmt: Stmt) -> str | None:
    if isinstance(stmt, Bind):
        return stmt.var.name
    return stmt.buffer.name if isinstance(stmt, Alloc | Declare) else None


def with_statement(subject: TirSubject, position: int, body: Body) -> TirSubject | None:
    """The subject with the statement at a position replaced; None where that is no smaller."""
    function = replace(subject.main, body=replace_statements(subject.main.body, {position: body}))
    return if_smaller(subject, subject.with_main(without_leftovers(function, unused_names(subject.main))))


def with_expression(subject: TirSubject, position: int, expr: Expr) -> TirSubject | None:
    """The subject with the expression at a position replaced; None where that is no smaller."""
    function = replace(subject.main, body=replace_expressions(subject.main.body, {position: expr}))
    return if_smaller(subject, subject.with_main(without_leftovers(function, unused_names(subject.main))))


def if_smaller(subject: TirSubject, found: TirSubject) -> TirSubject | None:
    """The candidate, where it is smaller than the subject and valid."""
    return found if size(found) < size(subject) and found.is_valid else None
