"""Names as a person would give them: A, B, C for memory, i, j, k for loops, x, y, z for values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from corpus.tir.names import free_name, renamed
from corpus.tir.scopes import defined_names
from corpus.tir.tree import Axis, For, Function
from corpus.tir.values import Buffer
from corpus.tir.walk import walk
from reducer.move import Hints, Move, Search
from reducer.subject.order import size
from reducer.subject.tir.subject import TirSubject

_MEMORY, _LOOPS, _VALUES = "ABCDEFGH", "ijklmn", "xyzuvw"


def plain_names(subject: TirSubject, hints: Hints) -> Search:
    """All at once; a name that matters is rare, and then all stay."""
    proposal = partial(_renamed, subject)
    if size(proposal()) < size(subject) and (yield proposal):
        return proposal()
    return subject


def _renamed(subject: TirSubject) -> TirSubject:
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


MOVES = (Move("plain names of loops", 550, plain_names, renames=True, on=TirSubject),)
