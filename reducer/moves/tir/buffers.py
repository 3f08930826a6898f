"""Smaller and plainer buffers: shorter dims, fewer of them, no views, row-major, of the usual types."""

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from corpus.tir.tree import Alloc, Block, Body, Declare, Match, Stmt, Store, Thread
from corpus.tir.types import element, is_float, is_integer, lanes, with_lanes
from corpus.tir.values import (
    PLAIN_BUFFER,
    Binary,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Region,
    Var,
    plain_offset,
)
from corpus.tir.walk import (
    buffers,
    map_buffers,
    map_statements,
    rebuilt,
    renamed_in,
    replace_statements,
    statements,
    walk,
    with_buffer,
)
from corpus.values import Value
from reducer.move import Move
from reducer.subject.tir_subject import TirSubject
from reducer.tir_searches import Candidates, by_functions, by_statements


def shorten_buffers(subject: TirSubject) -> Candidates:
    """Give each dim one element, two, or half as many; the values kept are the first ones."""
    for buffer in buffers(subject.main):
        for place, dim in enumerate(buffer.shape):
            if not isinstance(dim, Const):
                continue
            for fewer in dict.fromkeys((1, 2, 4, int(dim.value) // 2, int(dim.value) - 1)):
                if 0 < fewer < dim.value:
                    yield partial(_with_dim, subject, buffer, place, Const(fewer, dim.dtype))


def _with_dim(subject: TirSubject, buffer: Buffer, place: int, dim: Const) -> TirSubject:
    shape = (*buffer.shape[:place], dim, *buffer.shape[place + 1 :])
    function = map_buffers(
        subject.main, lambda one: replace(one, shape=shape) if one.name == buffer.name else one
    )
    inputs: dict[str, Value] = dict(subject.inputs)
    value = inputs.get(buffer.name)
    if isinstance(value, np.ndarray):
        first = (slice(None),) * place
        inputs[buffer.name] = np.ascontiguousarray(value[(*first, slice(int(dim.value)))])
    return subject.with_main(function, inputs)


def plain_buffers(subject: TirSubject) -> Candidates:
    """Take from each buffer what is unusual about it, all at once or one by one."""
    for buffer in buffers(subject.main):
        usual = {"strides": (), "offset": plain_offset(buffer.shape), **PLAIN_BUFFER}
        for changes in (usual, *({key: value} for key, value in usual.items())):
            plain = replace(buffer, **changes)
            if plain != buffer:
                yield partial(_with_buffer, subject, plain)


def _with_buffer(subject: TirSubject, buffer: Buffer) -> TirSubject:
    return subject.with_main(with_buffer(subject.main, buffer))


def plain_allocations(subject: TirSubject) -> Candidates:
    """Take annotations from allocations."""
    bare = map_statements(
        subject.main, lambda stmt: replace(stmt, annotations={}) if isinstance(stmt, Alloc) else stmt
    )
    yield partial(subject.with_main, bare)


def lower_ranks(subject: TirSubject) -> Candidates:
    """Drop dims of extent 1, one after the other."""
    for buffer in buffers(subject.main):
        for place, dim in enumerate(buffer.shape):
            if isinstance(dim, Const) and dim.value == 1 and len(buffer.shape) > 1 and not buffer.strides:
                yield partial(_without_dim, subject, buffer.name, place)


def _without_dim(subject: TirSubject, name: str, place: int) -> TirSubject | None:
    def without(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*items[:place], *items[place + 1 :])

    def change(node: Any) -> Any:
        node = rebuilt(node, change)
        match node:
            case Buffer(name=found) if found == name:
                return replace(node, shape=without(node.shape), tiled=False)
            case Load(buffer=found) | Store(buffer=found) if found == name:
                return replace(node, indices=without(node.indices))
            case Region(buffer=found) if found == name:
                return replace(node, ranges=without(node.ranges))
        return node

    inputs: dict[str, Value] = dict(subject.inputs)
    value = inputs.get(name)
    if isinstance(value, np.ndarray):
        inputs[name] = value.reshape(without(value.shape))
    return subject.with_main(change(subject.main), inputs)


def drop_matches(stmt: Stmt) -> Iterator[Body]:
    """Use the buffer itself instead of each that is matched to a region of it."""
    if isinstance(stmt, Block):
        for place, match in enumerate(stmt.matches):
            if len(match.buffer.shape) == len(match.source.ranges):
                others = (*stmt.matches[:place], *stmt.matches[place + 1 :])
                yield (_in_place(replace(stmt, matches=others), match),)


def drop_views(subject: TirSubject) -> Candidates:
    """Use a buffer itself instead of one that is declared over its memory."""
    for position, stmt in enumerate(statements(subject.main.body)):
        match stmt:
            case Declare(Buffer(name=name, shape=dims), Call("buffer_data", (BufferRef(source),))):
                shapes = {each.name: each.shape for each in buffers(subject.main)}
                if len(shapes.get(source, ())) == len(dims):
                    yield partial(_without_view, subject, position, name, source)


def _without_view(subject: TirSubject, position: int, name: str, source: str) -> TirSubject:
    body = replace_statements(subject.main.body, {position: ()})
    return subject.with_main(replace(subject.main, body=renamed_in(body, {name: source})))


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


_TYPED = (Var, Const, Cast, Load, Call, Buffer, Thread)


def plain_types(subject: TirSubject) -> Candidates:
    """Give what is of an unusual type the usual one of its kind."""
    used = {element(each.dtype) for each in walk(subject.main) if isinstance(each, _TYPED)}
    for old in sorted(used):
        new = "float32" if is_float(old) else "int32" if is_integer(old) else old
        if new != old:
            yield partial(_retyped, subject, old, new)


def _retyped(subject: TirSubject, old: str, new: str) -> TirSubject | None:
    def change(node: Any) -> Any:
        node = rebuilt(node, change) if is_dataclass(node) else node
        if isinstance(node, _TYPED) and element(node.dtype) == old:
            return replace(node, dtype=with_lanes(new, lanes(node.dtype)))
        return node

    inputs: dict[str, Value] = dict(subject.inputs)
    for item in subject.main.params:
        value = inputs.get(item.name)
        if isinstance(value, np.ndarray) and item.dtype == old:
            with np.errstate(all="ignore"):
                inputs[item.name] = value.astype(new)
    function = change(subject.main)
    returns = new if function.returns == old else function.returns
    return subject.with_main(replace(function, returns=returns), inputs)


MOVES = (
    Move("shorten buffers", 60, by_functions(shorten_buffers), on=TirSubject),
    Move("plain buffers", 65, by_functions(plain_buffers), on=TirSubject),
    Move("plain allocations", 66, by_functions(plain_allocations), on=TirSubject),
    Move("lower ranks", 67, by_functions(lower_ranks), on=TirSubject),
    Move("drop matched buffers", 18, by_statements(drop_matches), on=TirSubject),
    Move("drop views", 19, by_functions(drop_views), on=TirSubject),
    Move("plain types", 68, by_functions(plain_types), on=TirSubject),
)
