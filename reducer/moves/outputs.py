"""Fewer graph outputs: what nobody asks for is not compared and may be fused away."""

from __future__ import annotations

from functools import partial

from reducer.move import Hints, Move, Search, over_sets
from reducer.search import Items, drop_one_at_a_time, find_essentials
from reducer.subject.base import NodeSubject

FEW = 3


def drop_outputs(subject: NodeSubject, hints: Hints) -> Search:
    """Keep as few outputs as will do; a node that then makes nothing of use goes too."""
    count = len(subject.graph_outputs)
    if count < 2:
        return subject
    search = find_essentials(range(count)) if count > FEW else drop_one_at_a_time(range(count))
    return (yield from over_sets(subject, search, partial(_keep_outputs, subject)))


def _keep_outputs(subject: NodeSubject, keep: Items) -> NodeSubject | None:
    names = [name for index, name in enumerate(subject.graph_outputs) if index in keep]
    wanted, live = set(names), []
    for index in range(len(subject.nodes) - 1, -1, -1):
        if not wanted.isdisjoint(subject.nodes[index].output):
            wanted.update(subject.reads[index])
            live.append(subject.nodes[index])
    return subject.assemble(live[::-1], names)


def drop_many_outputs(subject: NodeSubject, hints: Hints) -> Search:
    """Drop outputs if there are many, before the moves of dims and values."""
    if len(subject.graph_outputs) <= FEW:
        return subject
    return (yield from drop_outputs(subject, hints))


MOVES = (
    Move("drop many outputs", 300, drop_many_outputs, on=NodeSubject),
    Move("drop outputs", 590, drop_outputs, chance=0.1, on=NodeSubject),
)
