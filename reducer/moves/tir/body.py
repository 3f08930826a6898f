"""Smaller functions: statements go, loops and branches give way to their bodies, expressions become plain."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from corpus.tir.forms import is_bool, is_number, lanes, with_lanes
from corpus.tir.scopes import defined_names
from corpus.tir.tree import (
    Alloc,
    Attr,
    Bind,
    Block,
    Body,
    Declare,
    Evaluate,
    For,
    If,
    Seq,
    Stmt,
    Store,
    Thread,
    While,
)
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
from corpus.tir.walk import (
    children,
    expressions,
    free_name,
    rebuilt,
    renamed,
    replace_statements,
    statements,
    substituted,
)
from reducer.move import Hints, Move, Search, SearchOf, first_valid, over_sets
from reducer.search import Items, drop_one_at_a_time, fewest_in_full
from reducer.subject.tir_subject import (
    TirSubject,
    if_smaller,
    unused_names,
    with_expression,
    with_statement,
    without_leftovers,
    without_uncalled,
)

_Part = TypeVar("_Part")
_New = TypeVar("_New")
Candidates: TypeAlias = Iterator[Callable[[], TirSubject | None]]
"""What a subject may become, the boldest first; None where a change does not apply."""
Changes: TypeAlias = Callable[[Stmt], Iterator[Body]]
"""What a statement may become, the boldest first."""


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
    best = subject
    for name in functions_of(subject):
        best, position = replace(best, at=name), 0
        while position < len(found := [*listed(best.main.body)]):
            part = found[position]
            news = changes(part) if part is not None else ()
            better = yield from first_valid(best, (partial(changed, best, position, new) for new in news))
            position += better is best
            best = better
    return replace(best, at="")


def functions_of(subject: TirSubject) -> tuple[str, ...]:
    """What `at` may be: nothing for the first function, the names of the others."""
    return ("", *[*subject.module.functions][1:])


def over_functions(subject: TirSubject, changes: Callable[[TirSubject], Candidates]) -> SearchOf[TirSubject]:
    """Try whole-function changes one after the other, from the start again after each that is kept."""
    best, before = subject, None
    while best is not before:
        before = best
        best = yield from first_valid(best, (partial(_checked, best, change) for change in changes(best)))
    return best


def _checked(subject: TirSubject, change: Callable[[], TirSubject | None]) -> TirSubject | None:
    found = change()
    return if_smaller(subject, found) if found is not None else None


def by_statements(changes: Changes) -> Callable[[TirSubject, Hints], Search]:
    """Try what each statement may become, the outermost first; a change is kept where it still fails."""
    return lambda subject, hints: _over_each(subject, statements, changes, with_statement)


def by_expressions(changes: Callable[[Expr], Iterator[Expr]]) -> Callable[[TirSubject, Hints], Search]:
    """Do what `by_statements` does, for expressions other than a loop's number of rounds."""
    return lambda subject, hints: _over_each(subject, _computed, changes, with_expression)


def by_functions(changes: Callable[[TirSubject], Candidates]) -> Callable[[TirSubject, Hints], Search]:
    """The search of a move that says what the whole subject may become."""
    return lambda subject, hints: over_functions(subject, changes)


FEW = 4
"""Up to so many statements, the search drops one at a time from the start."""


def drop_statements(subject: TirSubject, hints: Hints) -> Search:
    """Keep the statements without which it does not fail, and the loops and definitions around these."""
    best = subject
    for name in functions_of(subject):
        best = yield from _fewer_statements(replace(best, at=name))
    return replace(best, at="")


def _fewer_statements(subject: TirSubject) -> SearchOf[TirSubject]:
    unused = unused_names(subject.main)
    found = enumerate(statements(subject.main.body))
    actions = [place for place, stmt in found if _acts(stmt) or _is_one_of(stmt, unused)]
    if len(actions) < 2:
        return subject
    count = len(actions)
    search = fewest_in_full(count) if count > FEW else drop_one_at_a_time(range(count))
    return (yield from over_sets(subject, search, partial(_keep, subject, tuple(actions))))


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


def _keep(subject: TirSubject, actions: tuple[int, ...], keep: Items) -> TirSubject | None:
    gone: Mapping[int, Body] = {place: () for number, place in enumerate(actions) if number not in keep}
    function = replace(subject.main, body=replace_statements(subject.main.body, gone))
    found = subject.with_main(without_leftovers(function, unused_names(subject.main)))
    return found if found.is_valid else None


def unwrap(stmt: Stmt) -> Iterator[Body]:
    """Put the statements inside in place of what holds them."""
    match stmt:
        case For():
            yield substituted(stmt.body, {stmt.var.name: stmt.min})
        case While() | Seq():
            yield stmt.body
        case Attr(node=Thread() as thread):
            yield substituted(stmt.body, {thread.name: Const(0, thread.dtype)})
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
    yield (*allocs, *substituted(stmt.body, values))
    if stmt.init is not None:
        yield (*allocs, *substituted((*stmt.init, *stmt.body), values))


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
    in_order: dict[str, Any] = {"kind": "serial", "thread": None}
    plain: dict[str, Any] = {"step": None, "annotations": {}}
    for changes in ({**in_order, **plain}, in_order, *({key: value} for key, value in plain.items())):
        yield (replace(stmt, **changes),)
    if stmt.min != zero:
        yield (replace(stmt, min=zero),)
        if stmt.step is None:
            yield (substituted(replace(stmt, min=zero), {}),)


def inline_names(subject: TirSubject) -> Candidates:
    """Put a bound value where its name stands."""
    for position, stmt in enumerate(statements(subject.main.body)):
        if isinstance(stmt, Bind):
            yield partial(_without_name, subject, position, stmt)


def inline_calls(subject: TirSubject) -> Candidates:
    """Put what a function does where it is called, its numbers and addresses with it."""
    inlinable = {f"@{name}" for name, one in subject.module.functions.items() if not one.buffers}
    for position, stmt in enumerate(statements(subject.main.body)):
        match stmt:
            case Evaluate(Call(callee, args)) if callee in inlinable:
                yield partial(_inlined, subject, position, callee[1:], args)


def _inlined(subject: TirSubject, position: int, name: str, args: tuple[Expr, ...]) -> TirSubject:
    function = subject.module.functions[name]
    taken = {*defined_names(subject.main)}
    own = {each: free_name(taken, each) for each in dict.fromkeys(defined_names(function))}
    called = renamed(function, own)
    values = {param.name: arg for param, arg in zip(called.params, args, strict=True)}
    body: Body = substituted(called.body, values)
    main = replace(subject.main, body=replace_statements(subject.main.body, {position: body}))
    return without_uncalled(subject.with_main(main))


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
    inside = [item.value for item in direct if isinstance(item, Cast)]
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
    Move("drop statements", 10, drop_statements, on=TirSubject),
    Move("unwrap", 20, by_statements(unwrap), on=TirSubject),
    Move("shorten loops", 30, by_statements(shorten_loops), on=TirSubject),
    Move("plain loops", 90, by_statements(plain_loops), on=TirSubject),
    Move("fewer lanes", 45, by_statements(fewer_lanes), on=TirSubject),
    Move("inline calls", 16, by_functions(inline_calls), on=TirSubject),
    Move("inline names", 40, by_functions(inline_names), on=TirSubject),
    Move("narrow values", 12, by_statements(narrow_values), on=TirSubject),
    Move("plain expressions", 50, by_expressions(plain_expressions), on=TirSubject),
)
