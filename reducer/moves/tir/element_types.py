"""Plainer types: every float becomes a `float32`, every integer an `int32`, one type at a time everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from corpus.tir.tree import Thread
from corpus.tir.types import element, is_float, is_integer, lanes, with_lanes
from corpus.tir.values import Buffer, Call, Cast, Const, Load, Var
from corpus.tir.walk import rebuilt, walk
from corpus.values import Value
from reducer.move import Hints, Move, Search
from reducer.subject.tir.subject import TirSubject
from reducer.tir_searches import over_functions

_TYPED = (Var, Const, Cast, Load, Call, Buffer, Thread)


def plain_types(subject: TirSubject, hints: Hints) -> Search:
    """Give what is of an unusual type the usual one of its kind."""
    return (yield from over_functions(subject, _plainer))


def _plainer(subject: TirSubject) -> Iterator[Callable[[], TirSubject | None]]:
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


MOVES = (Move("plain types", 68, plain_types, on=TirSubject),)
