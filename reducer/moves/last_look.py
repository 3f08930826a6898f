"""The last look: of few nodes every connected subset, by cut and by link, not only those without one node.

A failure need not be monotone: two nodes may have to go together. Subsets asked before cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import combinations

from reducer.move import Hints, Move, Search
from reducer.search import Items
from reducer.subject.onnx.nodesets import keep_nodes
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size

MOST_NODES = 8
"""A graph of more nodes has too many subsets."""

LEAST_NODES = 4
"""Of fewer nodes the moves before have asked for nearly every subset."""

USUAL = 12
"""So many subsets are proposed, fewest nodes first; a thorough reduction proposes all."""


def look_at_subsets(subject: OnnxSubject, hints: Hints) -> Search:
    """The first subset that fails, fewest nodes first."""
    count = len(subject.nodes)
    if not (2 if hints.is_thorough else LEAST_NODES) <= count <= MOST_NODES:
        return subject
    left = None if hints.is_thorough else USUAL
    for keep in _subsets(subject):
        for link in (False, True):
            proposal = cache(partial(keep_nodes, subject, keep, link=link))
            found = proposal()
            if found is None or not size(found) < size(subject):
                continue
            if left == 0:
                return subject
            left = left - 1 if left is not None else None
            if (yield proposal):
                return found
    return subject


def _subsets(subject: OnnxSubject) -> Iterator[Items]:
    """Proper subsets that hang together, in the subject or by what stands between their nodes."""
    count = len(subject.nodes)
    for length in range(1, count - 1):
        for chosen in combinations(range(count), length):
            keep = frozenset(chosen)
            if _hangs_together(subject, keep):
                yield keep


def _hangs_together(subject: OnnxSubject, keep: Items) -> bool:
    """Whether one can walk between all of its nodes along tensors, over at most two nodes that are gone."""
    steps = _neighbours(subject)
    wide = dict(steps)
    for _ in range(2):
        wide = {node: near | {far for each in near for far in steps[each]} for node, near in wide.items()}
    seen, waiting = set[int](), [min(keep)]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += wide[node] & keep
    return seen == keep


def _neighbours(subject: OnnxSubject) -> dict[int, set[int]]:
    """The nodes that a node reads from or is read by, or with which it shares a tensor."""
    pairs = zip(subject.reads, subject.nodes, strict=True)
    touched = [{*reads, *filter(None, node.output)} for reads, node in pairs]
    count = range(len(subject.nodes))
    return {i: {j for j in count if j != i and touched[i] & touched[j]} for i in count}


MOVES = (
    Move(
        "look at every subset of few nodes",
        615,
        look_at_subsets,
        reshapes=True,
        late=True,
        chance=0.05,
        on=OnnxSubject,
    ),
)
