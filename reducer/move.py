"""What a move is: a search that proposes smaller subjects and learns which of them still fail."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TypeAlias

from reducer.search import Items, SetSearch
from reducer.subject.graph import GraphSubject
from reducer.subject.onnx import Subject
from reducer.subject.order import size
from reducer.subject.parting import PartedTensors

Proposal: TypeAlias = Callable[[], Subject | None]
"""Builds a candidate when it is needed; None means that there is no such candidate."""

Search: TypeAlias = Generator[Proposal, bool, Subject]
"""Yields proposals, is sent whether each is interesting, returns the smallest interesting subject."""


@dataclass(frozen=True)
class Hints:
    """What the evidence says: operators and nodes that the failure names, and where a value is wrong.

    `parting` is where the optimised run parts from the other. `witness` is that of the last interesting
    candidate: pairs of a dim and a position along it. `is_thorough` lifts the bounds of searches.
    """

    operators: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    parting: PartedTensors = field(default_factory=PartedTensors)
    witness: tuple[tuple[int, int], ...] = ()
    is_thorough: bool = False


EITHER = (Subject, GraphSubject)
"""What a move works on that only asks what both kinds of subjects know."""


@dataclass(frozen=True)
class Move:
    """A named way to make a subject smaller. `order` is its place in a round.

    `search` must be a pure function of the subject and the answers it is sent: it is replayed from the
    journal and run ahead by speculation. `reshapes` tells that recorded values are stale after it,
    `renames` that its candidates differ in names alone. One that is `late` seldom finds anything: it is not
    asked before a round of the others has changed nothing. A move that `hides` only runs where the original
    is to be hidden; what it leaves need not be smaller. `chance` is how often its first candidate still
    fails, roughly: it decides what idle workers guess, and nothing else. `subjects` are the kinds
    that it works on.
    """

    name: str
    order: int
    search: Callable[[Subject, Hints], Search]
    reshapes: bool = field(default=False, kw_only=True)
    renames: bool = field(default=False, kw_only=True)
    late: bool = field(default=False, kw_only=True)
    hides: bool = field(default=False, kw_only=True)
    chance: float = field(default=0.8, kw_only=True)
    subjects: tuple[type[Subject], ...] = field(default=(Subject,), kw_only=True)


def over_sets(subject: Subject, search: SetSearch, build: Callable[[Items], Subject | None]) -> Search:
    """Turn a search over sets of items into one over subjects."""
    best: Subject = subject
    try:
        keep = next(search)
        while True:
            proposal = cache(partial(build, keep))
            answer = yield proposal
            if answer:
                best = proposal() or best
            keep = search.send(answer)
    except StopIteration:
        return best


def one_by_one(subject: Subject, proposals: Sequence[Callable[[Subject], Subject | None]]) -> Search:
    """Try each change on the best so far; keep those that stay interesting."""
    best = subject
    for change in proposals:
        proposal = cache(partial(change, best))
        answer = yield proposal
        if answer:
            best = proposal() or best
    return best


def smaller_by(subject: Subject, changes: Iterable[Callable[[Subject], Subject | None]]) -> Search:
    """As `one_by_one`, of changes that need not make the subject smaller: only those that do are asked."""
    best = subject
    for change in changes:
        proposal = cache(partial(change, best))
        found = proposal()
        if found is not None and size(found) < size(best) and (yield proposal):
            best = found
    return best
