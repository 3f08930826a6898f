"""What holds statements gives way to them: a loop to one round, an if to a branch, a block to its body."""

from __future__ import annotations

from collections.abc import Iterator

from corpus.tir.names import substituted
from corpus.tir.tree import Alloc, Attr, Block, Body, For, If, Seq, Stmt, Thread, While
from corpus.tir.values import Const, Expr
from reducer.move import Hints, Move, Search
from reducer.subject.tir.subject import TirSubject
from reducer.tir_searches import over_statements


def unwrap(subject: TirSubject, hints: Hints) -> Search:
    """Put the statements inside in place of what holds them."""
    return (yield from over_statements(subject, _bodies))


def _bodies(stmt: Stmt) -> Iterator[Body]:
    match stmt:
        case For():
            yield _with(stmt.body, {stmt.var.name: stmt.min})
        case While() | Seq():
            yield stmt.body
        case Attr(node=Thread() as thread):
            yield _with(stmt.body, {thread.name: Const(0, thread.dtype)})
        case Attr():
            yield stmt.body
        case If():
            yield stmt.then
            if stmt.other is not None:
                yield stmt.other
        case Block():
            yield from _plain(stmt)


def _plain(stmt: Block) -> Iterator[Body]:
    """A block as its statements, with its first statement or without; its memory is allocated before them."""
    if stmt.matches:
        return
    values = {axis.var.name: axis.value for axis in stmt.axes}
    allocs: Body = tuple(Alloc(buffer) for buffer in stmt.allocs)
    yield (*allocs, *_with(stmt.body, values))
    if stmt.init is not None:
        yield (*allocs, *_with((*stmt.init, *stmt.body), values))


def _with(body: Body, values: dict[str, Expr]) -> Body:
    found: Body = substituted(body, values)
    return found


MOVES = (Move("unwrap", 20, unwrap, on=TirSubject),)
