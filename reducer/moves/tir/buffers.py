"""Smaller and plainer buffers: shorter dims, no strides, no scope of their own, row by row in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from corpus.tir.names import with_buffer
from corpus.tir.tree import Alloc
from corpus.tir.values import Buffer, Const, plain_offset
from corpus.tir.walk import buffers, map_buffers, map_statements
from corpus.values import Value
from reducer.move import Hints, Move, Search
from reducer.subject.tir.subject import TirSubject
from reducer.tir_searches import over_functions


def shorten_buffers(subject: TirSubject, hints: Hints) -> Search:
    """Give each dim one element, two, or half as many; the values kept are the first ones."""
    return (yield from over_functions(subject, _shorter))


def _shorter(subject: TirSubject) -> Iterator[Callable[[], TirSubject | None]]:
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


def plain_buffers(subject: TirSubject, hints: Hints) -> Search:
    """Take from each buffer what is unusual about it, all at once or one by one."""
    return (yield from over_functions(subject, _plainer))


def _plainer(subject: TirSubject) -> Iterator[Callable[[], TirSubject | None]]:
    for buffer in buffers(subject.main):
        plain = replace(
            buffer,
            strides=(),
            offset=plain_offset(buffer.shape),
            scope="global",
            align=64,
            offset_factor=1,
            tiled=False,
        )
        for one in (
            plain,
            replace(buffer, strides=()),
            replace(buffer, offset=plain.offset),
            replace(buffer, scope="global"),
            replace(buffer, align=64),
            replace(buffer, offset_factor=1),
            replace(buffer, tiled=False),
        ):
            if one != buffer:
                yield partial(_with_buffer, subject, one)


def _with_buffer(subject: TirSubject, buffer: Buffer) -> TirSubject:
    return subject.with_main(with_buffer(subject.main, buffer))


def plain_allocations(subject: TirSubject, hints: Hints) -> Search:
    """Take annotations from allocations."""
    bare = map_statements(
        subject.main, lambda stmt: replace(stmt, annotations={}) if isinstance(stmt, Alloc) else stmt
    )
    return (yield from over_functions(subject, lambda best: iter([partial(best.with_main, bare)])))


MOVES = (
    Move("shorten buffers", 60, shorten_buffers, on=TirSubject),
    Move("plain buffers", 65, plain_buffers, on=TirSubject),
    Move("plain allocations", 66, plain_allocations, on=TirSubject),
)
