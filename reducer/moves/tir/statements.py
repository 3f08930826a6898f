"""Fewer statements and plainer loops: statements are dropped, loops and branches give way to their bodies."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from corpus.tir.tree import Alloc, Attr, Bind, Block, Body, Declare, For, If, Seq, Stmt, Thread, While
from corpus.tir.values import Const, Expr
from corpus.tir.walk import children, replace_statements, statements, substituted
from reducer.move import Hints, Move, Search, over_sets
from reducer.search import Items, SetSearch, drop_one_at_a_time, find_essentials
from reducer.subject.tir_subject import TirSubject, unused_names, without_leftovers
from reducer.tir_searches import by_statements

FEW = 4
"""Up to so many statements, the search drops one at a time from the start."""


def drop_statements(subject: TirSubject, hints: Hints) -> Search:
    """Keep the statements without which it does not fail, and the loops and definitions around these."""
    unused = unused_names(subject.main)
    found = enumerate(statements(subject.main.body))
    actions = [place for place, stmt in found if _acts(stmt) or _is_one_of(stmt, unused)]
    if len(actions) < 2:
        return subject
    return (yield from over_sets(subject, _search(len(actions)), partial(_keep, subject, tuple(actions))))


def _acts(stmt: Stmt) -> bool:
    """Whether it does something by itself: no definition, and nothing inside."""
    return not isinstance(stmt, Bind | Alloc | Declare | Block) and not any(
        isinstance(child, Stmt) for child in children(stmt)
    )


def _is_one_of(stmt: Stmt, unused: frozenset[str]) -> bool:
    """Whether it defines what nothing uses, so that it may matter by itself."""
    if isinstance(stmt, Bind):
        return stmt.var.name in unused
    return isinstance(stmt, Alloc | Declare) and stmt.buffer.name in unused


def _search(count: int) -> SetSearch:
    if count <= FEW:
        return (yield from drop_one_at_a_time(range(count)))
    kept = yield from find_essentials(range(count), patience=count)
    return (yield from drop_one_at_a_time(sorted(kept)))


def _keep(subject: TirSubject, actions: tuple[int, ...], keep: Items) -> TirSubject | None:
    gone: Mapping[int, Body] = {place: () for number, place in enumerate(actions) if number not in keep}
    function = replace(subject.main, body=replace_statements(subject.main.body, gone))
    found = subject.with_main(without_leftovers(function, unused_names(subject.main)))
    return found if found.is_valid else None


def unwrap(stmt: Stmt) -> Iterator[Body]:
    """Put the statements inside in place of what holds them."""
    match stmt:
        case For():
            yield _substituted(stmt.body, {stmt.var.name: stmt.min})
        case While() | Seq():
            yield stmt.body
        case Attr(node=Thread() as thread):
            yield _substituted(stmt.body, {thread.name: Const(0, thread.dtype)})
        case Attr():
            yield stmt.body
        case If():
            yield stmt.then
            if stmt.other is not None:
                yield stmt.other
        case Block():
            yield from _unblocked(stmt)


def _unblocked(stmt: Block) -> Iterator[Body]:
    """A block as its statements, with its first statement or without; its memory is allocated before them."""
    if stmt.matches:
        return
    values = {axis.var.name: axis.value for axis in stmt.axes}
    allocs: Body = tuple(Alloc(buffer) for buffer in stmt.allocs)
    yield (*allocs, *_substituted(stmt.body, values))
    if stmt.init is not None:
        yield (*allocs, *_substituted((*stmt.init, *stmt.body), values))


def _substituted(body: Body, values: dict[str, Expr]) -> Body:
    found: Body = substituted(body, values)
    return found


def shorten_loops(stmt: Stmt) -> Iterator[Body]:
    """Give each loop one round, two, or half as many."""
    if not isinstance(stmt, For) or not isinstance(stmt.extent, Const):
        return
    extent = int(stmt.extent.value)
    for fewer in dict.fromkeys((1, 2, 3, 4, extent // 2)):
        if 0 < fewer < extent:
            yield (replace(stmt, extent=Const(fewer, stmt.extent.dtype)),)


def plain_loops(stmt: Stmt) -> Iterator[Body]:
    """Make each loop one from zero, in order, in steps of 1, and of no name to anybody."""
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
    Move("drop statements", 10, drop_statements, on=TirSubject),
    Move("unwrap", 20, by_statements(unwrap), on=TirSubject),
    Move("shorten loops", 30, by_statements(shorten_loops), on=TirSubject),
    Move("plain loops", 90, by_statements(plain_loops), on=TirSubject),
)
