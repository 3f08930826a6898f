"""Sequences that flow in: fewer members, shorter axes, zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np
import onnx

from corpus.values import Tensor
from reducer.move import Hints, Move, Search, smaller_by
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.tensors import type_of

Members: TypeAlias = list[Tensor]


def shrink_sequences(subject: OnnxSubject, hints: Hints) -> Search:
    """Shrink all members of each sequence at once; else drop members, then shrink axes, then values."""
    best = subject
    for name in [name for name, value in subject.inputs.items() if isinstance(value, list)]:
        changes = [partial(_changed, name, change) for change in _changes(best, name)]
        best = yield from smaller_by(best, changes)
    return best


def _changes(subject: OnnxSubject, name: str) -> Iterator[Callable[[Members], Members]]:
    yield _least
    for count in (1, 2, 3):
        yield partial(_first, count=count)
    rank = max((member.ndim for member in _members(subject, name)), default=0)
    for axis in range(rank):
        yield partial(_cut, axis=axis)
    yield _zeros


def _members(subject: OnnxSubject, name: str) -> Members:
    value = subject.inputs[name]
    return value if isinstance(value, list) else []


def _first(members: Members, count: int) -> Members:
    return members[:count]


def _cut(members: Members, axis: int) -> Members:
    """One position of an axis, where there is one."""
    return [
        member.take([0], axis) if axis < member.ndim and member.shape[axis] else member for member in members
    ]


def _zeros(members: Members) -> Members:
    return [np.full_like(member, "" if member.dtype.kind in "USO" else 0) for member in members]


def _least(members: Members) -> Members:
    """One member with one zero."""
    one = _zeros(members[:1])
    for axis in range(one[0].ndim if one else 0):
        one = _cut(one, axis)
    return one


def _changed(name: str, change: Callable[[Members], Members], subject: OnnxSubject) -> OnnxSubject | None:
    members = change(_members(subject, name))
    declared = type_of(members)

    def edit(model: onnx.ModelProto) -> None:
        for info in model.graph.input:
            if info.name == name and info.type.WhichOneof("value") == "sequence_type" and declared:
                info.type.CopyFrom(declared)

    return change_model(subject, edit, {**subject.inputs, name: members})


MOVES = (Move("shrink sequences", 395, shrink_sequences, reshapes=True, on=OnnxSubject),)
