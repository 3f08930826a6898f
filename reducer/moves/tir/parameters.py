"""Fewer parameters, functions and attributes, plainer values: what flows in, and what is said around the
loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from corpus.tir.names import substituted
from corpus.tir.tree import Block, Module
from corpus.tir.values import Buffer, Call, Const, Var, literal
from corpus.tir.walk import map_statements, walk
from corpus.values import Tensor
from reducer.move import Hints, Move, Search
from reducer.subject.tir.edits import used_names
from reducer.subject.tir.subject import TirSubject
from reducer.tir_searches import over_functions


def drop_parameters(subject: TirSubject, hints: Hints) -> Search:
    """Drop what the body does not name, all of it first; a number becomes a constant."""
    return (yield from over_functions(subject, _fewer))


def _fewer(subject: TirSubject) -> Iterator[Callable[[], TirSubject | None]]:
    needed = tuple(item for item in subject.main.params if item.name in used_names(subject.main.body))
    if len(needed) < len(subject.main.params) - 1:
        yield partial(subject.with_main, replace(subject.main, params=needed))
    for place, item in enumerate(subject.main.params):
        others = (*subject.main.params[:place], *subject.main.params[place + 1 :])
        named = used_names((subject.main.body, *others))
        if item.name not in named:
            yield partial(subject.with_main, replace(subject.main, params=others))
        elif isinstance(item, Var):
            yield partial(_fixed, subject, item, others)


def _fixed(subject: TirSubject, var: Var, others: tuple[Buffer | Var, ...]) -> TirSubject | None:
    value = subject.inputs[var.name]
    if not isinstance(value, np.ndarray):
        return None
    number = literal(value.reshape(()).item(), var.dtype)
    return subject.with_main(substituted(replace(subject.main, params=others), {var.name: number}))


def drop_functions(subject: TirSubject, hints: Hints) -> Search:
    """Drop functions that none calls."""
    return (yield from over_functions(subject, _unneeded))


def _unneeded(subject: TirSubject) -> Iterator[Callable[[], TirSubject | None]]:
    functions = subject.module.functions
    called = {item.callee[1:] for one in functions.values() for item in walk(one) if isinstance(item, Call)}
    for name in functions:
        if name != subject.module.entry and name not in called:
            rest = {key: one for key, one in functions.items() if key != name}
            yield partial(subject.with_module, Module(rest))


def drop_attributes(subject: TirSubject, hints: Hints) -> Search:
    """Drop the function's attributes, and what blocks are annotated with."""
    return (yield from over_functions(subject, _plainer))


def _plainer(subject: TirSubject) -> Iterator[Callable[[], TirSubject | None]]:
    attrs = dict(subject.main.attrs)
    for key in attrs:
        if key not in ("global_symbol", "s_tir"):
            rest = {name: item for name, item in attrs.items() if name != key}
            yield partial(subject.with_main, replace(subject.main, attrs=rest))
    bare = map_statements(
        subject.main, lambda stmt: replace(stmt, annotations={}) if isinstance(stmt, Block) else stmt
    )
    yield partial(subject.with_main, bare)
    certain = Const(True, "bool")
    whole = map_statements(
        subject.main, lambda stmt: replace(stmt, predicate=certain) if isinstance(stmt, Block) else stmt
    )
    yield partial(subject.with_main, whole)


def plain_values(subject: TirSubject, hints: Hints) -> Search:
    """Make what flows in zeros, ones, or small integers."""
    return (yield from over_functions(subject, _plainer_values))


def _plainer_values(subject: TirSubject) -> Iterator[Callable[[], TirSubject | None]]:
    for name, value in subject.inputs.items():
        if isinstance(value, np.ndarray):
            for plain in _plain(value):
                if not np.array_equal(plain, value):
                    yield partial(replace, subject, inputs={**subject.inputs, name: plain})


def _plain(value: Tensor) -> Iterator[Tensor]:
    yield np.zeros_like(value)
    yield np.ones_like(value)
    yield np.arange(value.size).reshape(value.shape).astype(value.dtype)
    with np.errstate(all="ignore"):
        yield np.trunc(value.astype(np.float64)).astype(value.dtype)


MOVES = (
    Move("drop parameters", 55, drop_parameters, on=TirSubject),
    Move("drop functions", 15, drop_functions, on=TirSubject),
    Move("drop attributes", 80, drop_attributes, on=TirSubject),
    Move("plain values of loops", 100, plain_values, on=TirSubject),
)
