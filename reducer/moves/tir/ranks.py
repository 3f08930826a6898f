"""Buffers of fewer dims: one of extent 1 goes, with its index wherever the buffer is read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from corpus.tir.tree import Store
from corpus.tir.values import Buffer, Const, Load, Region
from corpus.tir.walk import buffers, rebuilt
from corpus.values import Value
from reducer.move import Hints, Move, Search
from reducer.subject.tir.subject import TirSubject
from reducer.tir_searches import over_functions


def lower_ranks(subject: TirSubject, hints: Hints) -> Search:
    """Drop dims of extent 1, one after the other."""
    return (yield from over_functions(subject, _lower))


def _lower(subject: TirSubject) -> Iterator[Callable[[], TirSubject | None]]:
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


MOVES = (Move("lower ranks", 67, lower_ranks, on=TirSubject),)
