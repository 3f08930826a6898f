"""Clusters that may be one bug and are not merged: near signatures, or one rewrite with several outcomes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping

from triage.clustering.similarity import RELATED
from triage.store.database import Store
from triage.store.names import cluster_name
from triage.store.similarities import near_clusters, rewrites

Related = dict[int, dict[str, str]]
"""By cluster, the names of the related ones and why they are related."""


def related_clusters(store: Store) -> Related:
    """Return every pair of clusters that is worth a look, in both directions."""
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
