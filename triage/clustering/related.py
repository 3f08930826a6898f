"""Clusters that may be one bug and are not merged: near signatures, or one rewrite with several outcomes."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Mapping

from triage.clustering.similarity import RELATED
from triage.store.database import Store
from triage.store.names import cluster_name

Related = dict[int, dict[str, str]]
"""By cluster, the names of the related ones and why they are related."""


def related_clusters(store: Store) -> Related:
    """Every pair of clusters that is worth a look, in both directions."""
    found: Related = defaultdict(dict)
    _add_near(store, found)
    _add_same_rewrite(store, found)
    return {cluster: dict(sorted(others.items())) for cluster, others in found.items()}


def _add_near(store: Store, found: Related) -> None:
    rows = store.rows(
        """SELECT one.cluster AS cluster, other.cluster AS related, min(distance) AS distance
           FROM similarities JOIN aliases AS one ON one.signature = first
           JOIN aliases AS other ON other.signature = second
           WHERE one.cluster != other.cluster AND distance <= ? GROUP BY 1, 2""",
        (RELATED,),
    )
    for row in rows:
        why = f"signatures {row['distance']:.2f} apart"
        found[row["cluster"]][cluster_name(row["related"])] = why


def _add_same_rewrite(store: Store, found: Related) -> None:
    """One minimal pass set and one set of operators, seen as an exception here and a wrong result there."""
    shown: Mapping[tuple[str, str], set[tuple[int, str]]] = defaultdict(set)
    rows = store.rows(
        "SELECT DISTINCT cluster, outcome, passes, ops FROM rewrites JOIN aliases USING (signature)"
    )
    for row in rows:
        ops = sorted(op for op in json.loads(row["ops"]) if op != "Constant")
        passes = " ".join(sorted(json.loads(row["passes"])))
        shown[passes, " ".join(ops)].add((int(row["cluster"]), str(row["outcome"])))
    for (rewrite, operators), seen in shown.items():
        for (cluster, outcome), (other, another) in itertools.permutations(sorted(seen), 2):
            if other != cluster and another != outcome:
                found[cluster][cluster_name(other)] = f"{rewrite} on {operators}, seen as {another}"
