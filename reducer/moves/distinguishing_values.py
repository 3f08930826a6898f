"""Telling values: a node or two fail alone where what flows into them is other than it was.

A wrong value may grow into the failure's NaN only further down: a wrong 0 is divided by, then multiplied. The
nodes on that way cannot go while the values stay; with others the first wrong node makes a NaN by itself.
"""

from collections.abc import Iterator
from functools import cache, partial
from itertools import combinations, product

import numpy as np

from corpus.values import Tensor, is_float
from reducer.move import Hints, Move, Proposal, Search
from reducer.search import Items
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size

LEAST_NODES, MOST_NODES = 3, 8
"""Of fewer nodes there is little to gain; of more, too many subsets to ask for."""

FEW_NODES = 2
"""So many nodes are tried alone."""

MOST_TENSORS = 3
"""Of so many tensors that flow in, all combinations of values fit into one program."""

MOST_ASKED = 9
"""So many candidates are asked for; a thorough reduction asks for all."""

POSITIVE = (0.5, 1.0, 2.0)
TELLING = (-2.0, -1.0, -0.5, 0.0, *POSITIVE)
"""The ends of most operators' domains lie between these numbers."""


def feed_distinguishing_values(subject: OnnxSubject, hints: Hints) -> Search:
    """Ask for one node or two, fed with every combination of a few numbers at once."""
    if not LEAST_NODES <= len(subject.nodes) <= MOST_NODES:
        return subject
    asked = 0
    for proposal in _proposals(subject, hints):
        found = proposal()
        if found is None or not size(found) < size(subject):
            continue
        if asked == min(MOST_ASKED, hints.looks) and not hints.is_thorough:
            break
        asked += 1
        if (yield proposal):
            return found
    return subject


def _proposals(subject: OnnxSubject, hints: Hints) -> Iterator[Proposal]:
    for keep in _subsets(subject, hints):
        alone = subject.keep_nodes(keep, link=True)
        names = _floats(alone) if alone is not None else ()
        if alone is not None and 0 < len(names) <= MOST_TENSORS:
            for signed in ((), *((name,) for name in names), names):
                yield cache(partial(_fed, alone, names, frozenset(signed)))


def _subsets(subject: OnnxSubject, hints: Hints) -> Iterator[Items]:
    """Single nodes, then pairs; first those to which the evidence points, and those of several operands."""
    blamed = {*hints.divergence.rewritten, *hints.nodes}

    def rank(index: int) -> tuple[bool, int]:
        return blamed.isdisjoint(subject.nodes[index].output), -len(subject.reads[index])

    order = sorted(range(len(subject.nodes)), key=rank)
    for length in range(1, FEW_NODES + 1):
        yield from (frozenset(chosen) for chosen in combinations(order, length))


def _floats(subject: OnnxSubject) -> tuple[str, ...]:
    """The tensors of floats that flow in."""
    arrays = ((name, subject.array(name)) for name in subject.sources if not subject.is_shape(name))
    return tuple(name for name, array in arrays if array is not None and is_float(array))


def _fed(subject: OnnxSubject, names: tuple[str, ...], signed: frozenset[str]) -> OnnxSubject | None:
    """The subject with vectors that hold every combination; only `signed` ones may be 0 or below."""
    values = np.array(list(product(*(TELLING if name in signed else POSITIVE for name in names))))
    return subject.with_tensors(
        {name: _like(subject.array(name), values[:, place]) for place, name in enumerate(names)}
    )


def _like(array: Tensor | None, values: Tensor) -> Tensor:
    assert array is not None
    return values.astype(array.dtype)


MOVES = (
    Move(
        "feed a node or two with telling values",
        613,
        feed_distinguishing_values,
        reshapes=True,
        late=True,
        chance=0.05,
        on=OnnxSubject,
    ),
)
