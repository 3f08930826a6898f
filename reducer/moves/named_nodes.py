"""The few nodes that the evidence names, before any search; wrong evidence costs two calls."""

from __future__ import annotations

from functools import partial

from reducer.move import Hints, Move, Search
from reducer.search import Items
from reducer.subject.base import NodeSubject

MOST = 24
"""A hint that names more nodes than this is no hint."""


def keep_named_nodes(subject: NodeSubject, hints: Hints) -> Search:
    """Keep only the nodes named by the evidence; where that is not enough, also those around them."""
    named = _named(subject, hints)
    for keep in dict.fromkeys((named, named | around(subject, named))):
        if 0 < len(keep) < len(subject.nodes) and len(keep) <= MOST:
            proposal = partial(subject.keep_nodes, keep)
            if (yield proposal):
                return proposal() or subject
    return subject


def _named(subject: NodeSubject, hints: Hints) -> Items:
    """Nodes named by their own name or an output's; failing that, those of named types, rare ones first."""
    names = frozenset(hints.nodes)
    exact = {
        index
        for index, node in enumerate(subject.nodes)
        if node.name in names or any(name in names for name in node.output if name)
    }
    if exact:
        return frozenset(exact)
    of_type: dict[str, list[int]] = {}
    for index, node in enumerate(subject.nodes):
        if node.op_type in hints.operators:
            of_type.setdefault(node.op_type, []).append(index)
    found: list[int] = []
    for members in sorted(of_type.values(), key=len):
        if len(found) + len(members) <= MOST:
            found += members
    return frozenset(found)


def around(subject: NodeSubject, nodes: Items) -> Items:
    """Two steps up and one down."""
    found: set[int] = set()
    edge = set(nodes)
    for _ in range(2):
        read = {name for index in edge for name in subject.reads[index]}
        edge = {subject.producer[name] for name in read if name in subject.producer}
        found |= edge
    made = {name for index in nodes for name in subject.nodes[index].output if name}
    found |= {index for index, reads in enumerate(subject.reads) if not made.isdisjoint(reads)}
    return frozenset(found)


MOVES = (Move("keep the nodes that the evidence names", 150, keep_named_nodes, on=NodeSubject),)
