"""The PrimFuncs of a Relax program, smaller by the moves on TIR; what they no longer take is not passed."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from corpus.tir.tree import For
from corpus.tir.values import Buffer, Const, Range
from corpus.tir.walk import rebuilt, walk
from corpus.values import Value
from reducer.move import Move
from reducer.moves import tir
from reducer.primfuncs import lifted
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.tir_subject import TirSubject
from reducer.tir_searches import Candidates, by_functions

AFTER = 300
"""Loops come after the nodes: a binding that goes takes its PrimFunc along."""


def shorten_sizes(subject: TirSubject) -> Candidates:
    """Give every loop and dim of one size another size: a result must still be written in full."""
    dims = {dim.value for each in subject.main.buffers for dim in each.shape if isinstance(dim, Const)}
    for size in sorted(dims, reverse=True):
        for fewer in dict.fromkeys((1, 2, int(size) // 2)):
            if 0 < fewer < size:
                yield partial(_resized, subject, int(size), fewer)


def _resized(subject: TirSubject, size: int, fewer: int) -> TirSubject:
    def cut(expr: Any) -> Any:
        return replace(expr, value=fewer) if isinstance(expr, Const) and expr.value == size else expr

    def change(node: Any) -> Any:
        node = rebuilt(node, change)
        if isinstance(node, Buffer):
            return replace(node, shape=tuple(map(cut, node.shape)))
        return replace(node, extent=cut(node.extent)) if isinstance(node, For | Range) else node

    inputs: dict[str, Value] = dict(subject.inputs)
    for item in walk(subject.main.params):
        value = inputs.get(item.name) if isinstance(item, Buffer) else None
        if isinstance(value, np.ndarray):
            window = tuple(slice(fewer if dim == size else None) for dim in value.shape)
            inputs[item.name] = np.ascontiguousarray(value[window])
    return subject.with_main(change(subject.main), inputs)


def _of_tir() -> list[Move[TirSubject]]:
    names = [info.name for info in pkgutil.iter_modules(tir.__path__, f"{tir.__name__}.")]
    found = [move for name in names for move in importlib.import_module(name).MOVES]
    return [*found, Move("shorten sizes", 62, by_functions(shorten_sizes), on=TirSubject)]


MOVES = tuple(
    Move(f"{move.name}, in PrimFuncs", AFTER + move.order // 10, partial(lifted, move), on=GraphSubject)
    for move in _of_tir()
)
