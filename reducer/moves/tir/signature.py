"""Fewer parameters, functions and attributes, plainer inputs and names: what surrounds the statements."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from corpus.tir.scopes import defined_names
from corpus.tir.tree import Axis, Block, For, Function, Module
from corpus.tir.values import Buffer, Call, Const, Var, literal
from corpus.tir.walk import free_name, map_statements, renamed, substituted, walk
from corpus.values import Tensor
from reducer.move import Hints, Move, Search
from reducer.subject.order import size
from reducer.subject.tir_subject import TirSubject, used_names
from reducer.tir_searches import Candidates, by_functions


def drop_parameters(subject: TirSubject) -> Candidates:
    """Drop what the body does not name, all of it first; a number becomes a constant."""
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


def drop_functions(subject: TirSubject) -> Candidates:
    """Drop functions that none calls."""
    functions = subject.module.functions
    called = {item.callee[1:] for one in functions.values() for item in walk(one) if isinstance(item, Call)}
    for name in functions:
        if name != subject.module.entry and name not in called:
            rest = {key: one for key, one in functions.items() if key != name}
            yield partial(subject.with_module, Module(rest))


def drop_attributes(subject: TirSubject) -> Candidates:
    """Drop the function's attributes, and what blocks are annotated with."""
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


def plain_values(subject: TirSubject) -> Candidates:
    """Make what flows in zeros, ones, or small integers."""
    for name, value in subject.inputs.items():
        if isinstance(value, np.ndarray):
            for plain in _plain_tensors(value):
                if not np.array_equal(plain, value):
                    yield partial(replace, subject, inputs={**subject.inputs, name: plain})


def _plain_tensors(value: Tensor) -> Iterator[Tensor]:
    yield np.zeros_like(value)
    yield np.ones_like(value)
    yield np.arange(value.size).reshape(value.shape).astype(value.dtype)
    with np.errstate(all="ignore"):
        yield np.trunc(value.astype(np.float64)).astype(value.dtype)


_MEMORY, _LOOPS, _VALUES = "ABCDEFGH", "ijklmn", "xyzuvw"


def plain_names(subject: TirSubject, hints: Hints) -> Search:
    """All at once; a name that matters is rare, and then all stay."""
    proposal = partial(_with_plain_names, subject)
    if size(proposal()) < size(subject) and (yield proposal):
        return proposal()
    return subject


def _with_plain_names(subject: TirSubject) -> TirSubject:
    names = new_names(subject.main)
    inputs = {names.get(name, name): value for name, value in subject.inputs.items()}
    return subject.with_main(renamed(subject.main, names), inputs)


def new_names(function: Function) -> dict[str, str]:
    """Map old names to new ones, in the order of definition."""
    memory = {item.name for item in walk(function) if isinstance(item, Buffer)}
    loops = {item.var.name for item in walk(function) if isinstance(item, For | Axis)}
    taken: set[str] = set()
    letters = {letters: _wishes(letters) for letters in (_MEMORY, _LOOPS, _VALUES)}
    found: dict[str, str] = {}
    for name in dict.fromkeys(defined_names(function)):
        kind = _MEMORY if name in memory else _LOOPS if name in loops else _VALUES
        found[name] = free_name(taken, next(letters[kind]))
    return found


def _wishes(letters: str) -> Iterator[str]:
    yield from letters
    while True:
        yield letters[0]


MOVES = (
    Move("drop parameters", 55, by_functions(drop_parameters), on=TirSubject),
    Move("drop functions", 15, by_functions(drop_functions), on=TirSubject),
    Move("drop attributes", 80, by_functions(drop_attributes), on=TirSubject),
    Move("plain values of loops", 100, by_functions(plain_values), on=TirSubject),
    Move("plain names of loops", 550, plain_names, renames=True, on=TirSubject),
)
