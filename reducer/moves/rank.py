"""Fewer axes: an axis of length 1 goes from every tensor that flows in, where the operators allow it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import onnx
from onnx import AttributeProto

from corpus.onnx.graph import body_weights
from corpus.values import Tensor
from reducer.move import Hints, Move, Search
from reducer.subject.base import NodeSubject

AXIS_ATTRIBUTES = frozenset({"axis", "axes"})


def drop_axes(subject: NodeSubject, hints: Hints) -> Search:
    """Drop leading or trailing axes, as many as possible, of the tensors of highest rank first."""
    best = subject
    dropped = True
    while dropped:
        dropped = False
        for proposal in _proposals(best):
            found = proposal()
            if found is not None and (yield proposal):
                best, dropped = found, True
                break
    return best


def _proposals(subject: NodeSubject) -> Iterator[partial[NodeSubject | None]]:
    """Most axes first."""
    rank = max((array.ndim for array in _arrays(subject).values()), default=0)
    for count in range(rank, 0, -1):
        for position in (0, -1):
            yield partial(_without, subject, count, position)


def _without(subject: NodeSubject, count: int, position: int) -> NodeSubject | None:
    """So many axes fewer, one after the other from the tensors that have the highest rank then."""
    found: NodeSubject | None = subject
    for _ in range(count):
        rank = max((array.ndim for array in _arrays(found).values()), default=0) if found else 0
        found = _dropped(found, rank, position) if found is not None and rank else None
    return found


def _arrays(subject: NodeSubject) -> Mapping[str, Tensor]:
    found = {name: subject.array(name) for name in subject.sources if not subject.is_shape(name)}
    return {name: array for name, array in found.items() if array is not None}


def _dropped(subject: NodeSubject, rank: int, position: int) -> NodeSubject | None:
    """Without one axis in every tensor of this rank, permutations and axis attributes moved along."""
    changed = {}
    for name, array in _arrays(subject).items():
        if array.ndim == rank:
            if array.shape[position] != 1:
                return None
            changed[name] = array.reshape(array.shape[1:] if position == 0 else array.shape[:-1])
    axis = position % rank
    return subject.with_tensors(changed, partial(_shift, rank=rank, axis=axis)) if changed else None


def _shift(model: onnx.ModelProto, rank: int, axis: int) -> None:
    """Weights in bodies follow, and attributes that name axes speak of the axes that are left."""
    for tensor in body_weights(model.graph):
        if len(tensor.dims) == rank and tensor.dims[axis] == 1:
            del tensor.dims[axis]
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "perm" and len(attribute.ints) == rank:
                left = [place for place in attribute.ints if place != axis]
                attribute.ints[:] = [place - (place > axis) for place in left]
            elif attribute.name in AXIS_ATTRIBUTES and attribute.type == AttributeProto.INT:
                attribute.i -= attribute.i > axis
            elif attribute.name in AXIS_ATTRIBUTES and attribute.type == AttributeProto.INTS:
                attribute.ints[:] = [place - (place > axis) for place in attribute.ints]


MOVES = (Move("drop axes", 552, drop_axes, reshapes=True, on=NodeSubject),)
