"""The order in which clusters are shown: the first rows are as different from each other as can be.

Furthest-point-first (Gonzalez 1985; Chen et al., "Taming compiler fuzzers", 2013) over the signatures: the
next row is the one whose nearest row so far is furthest. What is open stands before what is closed, what is
not yet known before what is, what is reduced before what is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Indel

from oracles.signature import Signature
from triage.similarity import distance_within

MOST_SPREAD = 50
"""Rows that are chosen by distance; the others follow by what they are worth alone."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cluster as the ranking sees it: smaller `worth` comes first among equally distant ones."""

    id: int
    tier: tuple[bool, ...]
    worth: tuple[int, ...]
    signature: Signature


def ranked(candidates: Iterable[Candidate]) -> list[int]:
    """The ids in the order in which to show them; the same for any order of the candidates."""
    order: list[int] = []
    by_worth = sorted(candidates, key=lambda each: (each.tier, each.worth, each.id))
    for tier in sorted({each.tier for each in by_worth}):
        order += [each.id for each in _spread([each for each in by_worth if each.tier == tier], _distance)]
    return order


def _spread(
    by_worth: Sequence[Candidate], distance: Callable[[Signature, Signature, float], float]
) -> list[Candidate]:
    """`distance` takes how near the nearest is: of what is further it need not say how far."""
    if not by_worth:
        return []
    first, *left = by_worth
    chosen = [first]
    nearest = {each.id: distance(each.signature, first.signature, 1.0) for each in left}
    while left and len(chosen) < MOST_SPREAD:
        # max takes the first of equals, and they stand in the order of their worth
        best = max(left, key=lambda each: nearest[each.id])
        left.remove(best)
        chosen.append(best)
        for each in left:
            near = nearest[each.id]
            nearest[each.id] = min(near, distance(each.signature, best.signature, near))
    return chosen + left


def _distance(one: Signature, two: Signature, cut: float) -> float:
    """As for clusters where that can tell; else by how many of the components' words are shared."""
    apart = distance_within(one, two, cut)
    if apart is not None:
        return apart
    return Indel.normalized_distance(_words(one), _words(two), score_cutoff=cut)


@functools.lru_cache(maxsize=1 << 12)
def _words(signature: Signature) -> tuple[str, ...]:
    return tuple(word for _, text in signature.components for word in text.split())
