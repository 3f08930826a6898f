"""The order in which clusters are shown: the first rows are as different from each other as can be.

Furthest-point-first (Gonzalez 1985; Chen et al., "Taming compiler fuzzers", 2013) over the signatures: the
next row is the one whose nearest row so far is furthest. What is open stands before what is closed, what is
not yet known before what is, what is reduced before what is not.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Indel

from oracles.naming.signature import Signature
from triage.clustering.similarity import RELATED, distance_within
from triage.store.database import Store
from triage.store.names import cluster_name
from triage.store.similarities import near_clusters, rewrites

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
    """`distance` takes how near the nearest is: of what is further it need not say how far.

    How near the nearest chosen one is can only fall, so an old answer is a bound: only a row whose bound is
    the greatest is compared with those that were chosen since. Of equals the one that is worth more is first.
    """
    if not by_worth:
        return []
    chosen = [0]
    bounds = [(-1.0, at, 0) for at in range(1, len(by_worth))]
    while bounds and len(chosen) < MOST_SPREAD:
        bound, at, compared = heapq.heappop(bounds)
        if compared == len(chosen):
            chosen.append(at)
            continue
        near = -bound
        for other in chosen[compared:]:
            near = min(near, distance(by_worth[at].signature, by_worth[other].signature, near))
        heapq.heappush(bounds, (-near, at, len(chosen)))
    left = sorted({*range(len(by_worth))} - {*chosen})
    return [by_worth[at] for at in (*chosen, *left)]


def _distance(one: Signature, two: Signature, cut: float) -> float:
    """The clusters' distance if there is one, else the share of words that differ."""
    apart = distance_within(one, two, cut)
    if apart is not None:
        return apart
    return Indel.normalized_distance(_words(one), _words(two), score_cutoff=cut)


@functools.lru_cache(maxsize=1 << 12)
def _words(signature: Signature) -> tuple[str, ...]:
    return tuple(word for _, text in signature.components for word in text.split())


Related = dict[int, dict[str, str]]
"""By cluster, the names of the related ones and why they are related."""


def related_clusters(store: Store) -> Related:
    """Every pair of clusters that is worth a look, in both directions."""
    found: Related = defaultdict(dict)
    _add_near(store, found)
    _add_same_rewrite(store, found)
    return {cluster: dict(sorted(others.items())) for cluster, others in found.items()}


def _add_near(store: Store, found: Related) -> None:
    for cluster, other, distance in near_clusters(store, RELATED):
        found[cluster][cluster_name(other)] = f"signatures {distance:.2f} apart"


def _add_same_rewrite(store: Store, found: Related) -> None:
    """One minimal pass set and one set of operators, seen as an exception here and a wrong result there."""
    shown: Mapping[tuple[str, str], set[tuple[int, str]]] = defaultdict(set)
    for each in rewrites(store):
        ops = sorted(op for op in each.ops if op != "Constant")
        shown[" ".join(sorted(each.passes)), " ".join(ops)].add((each.cluster, each.outcome))
    for (rewrite, operators), seen in shown.items():
        for (cluster, outcome), (other, another) in itertools.permutations(sorted(seen), 2):
            if other != cluster and another != outcome:
                found[cluster][cluster_name(other)] = f"{rewrite} on {operators}, seen as {another}"
