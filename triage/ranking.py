"""The order in which clusters are shown: the first rows are as different from each other as can be.

Furthest-point-first (Gonzalez 1985; Chen et al., "Taming compiler fuzzers", 2013) over the signatures: the
next row is the one whose nearest row so far is furthest. What is open stands before what is closed, what is
not yet known before what is, what is reduced before what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Indel

from oracles.signature import Signature
from triage.similarity import compare

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
    by_worth: Sequence[Candidate], distance: Callable[[Signature, Signature], float]
) -> list[Candidate]:
    if not by_worth:
        return []
    first, *left = by_worth
    chosen = [first]
    nearest = {each.id: distance(each.signature, first.signature) for each in left}
    while left and len(chosen) < MOST_SPREAD:
        # max takes the first of equals, and they stand in the order of their worth
        best = max(left, key=lambda each: nearest[each.id])
        left.remove(best)
        chosen.append(best)
        for each in left:
            nearest[each.id] = min(nearest[each.id], distance(each.signature, best.signature))
    return chosen + left


def _distance(one: Signature, two: Signature) -> float:
    """As for clusters where that can tell; else by how many of the components' words are shared."""
    compared = compare(one, two)
    if not compared.obstacle:
        return compared.distance
    return Indel.normalized_distance(_words(one), _words(two))


def _words(signature: Signature) -> list[str]:
    return [word for _, text in signature.components for word in text.split()]
