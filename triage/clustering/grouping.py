"""Level 2 as failures come in: a new signature is compared with its kind, its neighbours are settled.

Which signatures are together is a function of the set of signatures and of what persons decided, never of
the order in which they came: only ids are. A cluster lies within one neighbourhood (what chains of distances
within the cut join), since two groups that join have at least one pair within the cut.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oracles.naming.signature import Signature
from triage.clustering.clusters import (
    BY_SIMILARITY,
    BY_SYMPTOM,
    absorb,
    get_signature,
    is_named,
    load_signature,
    open_cluster,
    rehome,
)
from triage.clustering.linkage import average_linkage
from triage.clustering.similarity import MERGE, RELATED, compare, distance_within
from triage.store.database import Store

NEIGHBOURS = """
WITH RECURSIVE near (digest) AS (
    SELECT ?
    UNION SELECT second FROM similarities JOIN near ON first = digest WHERE distance <= ?
    UNION SELECT mate.signature FROM near
        JOIN aliases AS own ON own.signature = digest AND own.pinned
        JOIN aliases AS mate ON mate.cluster = own.cluster AND mate.pinned
)
SELECT digest FROM near
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster to which a new signature belongs, with the score and the reason."""

    cluster: int
    score: float
    why: str


def place(store: Store, signature: Signature) -> Place | None:
    """Settle the neighbours of a signature that has no cluster yet; None where it opens one of its own."""
    near = _neighbours(store, signature)
    if near == {signature.digest}:
        return None
    settled = settle(store, near)
    group = next(group for group in settled if signature.digest in group)
    others = [digest for digest in group if digest != signature.digest]
    if not others:
        return None
    nearest = min(others, key=lambda digest: (_distance(store, signature.digest, digest), digest))
    distance = _distance(store, signature.digest, nearest)
    return Place(settled[group], round(1 - distance, 4), f"{distance:.2f} from {nearest}, within {MERGE}")


def regroup(store: Store, signature: Signature) -> None:
    """Compare a signature that came with its cluster, from another database, and settle its neighbours."""
    near = _neighbours(store, signature)
    if len(near) > 1:
        settle(store, near)


def _neighbours(store: Store, signature: Signature) -> frozenset[str]:
    """What chains of distances within the cut join with a signature, itself included."""
    _keep_distances(store, signature)
    return frozenset(row["digest"] for row in store.rows(NEIGHBOURS, (signature.digest, MERGE)))


def settle(store: Store, near: frozenset[str]) -> dict[tuple[str, ...], int]:
    """Group signatures and bring the clusters into line: the cluster of each group."""
    homes, pins = _homes(store, near)
    groups = average_linkage(near, functools.partial(_distance, store), MERGE, pins)
    owned = _owned(groups, homes)
    settled = {}
    for group in groups:
        known = [digest for digest in group if digest in homes]
        if known:
            settled[group] = min(owned[group], default=0) or open_cluster(store, _title(store, known[0]))
            _gather(store, [each for each in known if homes[each] != settled[group]], settled[group])
        else:
            settled[group] = 0
    return settled


def _keep_distances(store: Store, signature: Signature) -> None:
    """Note the signatures of the same kind and version that are near, in both directions."""
    rows = store.rows(
        """SELECT digest, version, components FROM signatures JOIN aliases ON signature = digest
           WHERE (kind, version) = (SELECT kind, version FROM signatures WHERE digest = ?)
           AND kind != '' AND digest != ?""",
        (signature.digest, signature.digest),
    )
    for other in map(load_signature, rows):
        distance = distance_within(signature, other, RELATED)
        if distance is not None and distance <= RELATED:
            for pair in ((signature.digest, other.digest), (other.digest, signature.digest)):
                store.write("INSERT OR REPLACE INTO similarities VALUES (?, ?, ?)", (*pair, distance))


def _distance(store: Store, first: str, second: str) -> float:
    """The distance of two signatures: the noted one where they are near."""
    row = store.row("SELECT distance FROM similarities WHERE first = ? AND second = ?", (first, second))
    if row:
        return float(row["distance"])
    return compare(get_signature(store, first), get_signature(store, second)).distance


def _homes(store: Store, near: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
    """The clusters that signatures stand in, in the order in which they came; and those that are pinned."""
    marks = ", ".join("?" * len(wanted := sorted(near)))
    rows = store.rows(
        f"SELECT signature, cluster, pinned FROM aliases WHERE signature IN ({marks}) ORDER BY rowid",
        tuple(wanted),
    )
    homes = {row["signature"]: int(row["cluster"]) for row in rows}
    return homes, {row["signature"]: int(row["cluster"]) for row in rows if row["pinned"]}


def _owned(groups: Iterable[tuple[str, ...]], homes: Mapping[str, int]) -> dict[tuple[str, ...], list[int]]:
    """The clusters that each group keeps: those of which it holds the signature that came first."""
    firsts: dict[int, str] = {}
    for digest, cluster in homes.items():
        firsts.setdefault(cluster, digest)
    return {group: [each for each, first in firsts.items() if first in group] for group in groups}


def _gather(store: Store, strays: Iterable[str], cluster: int) -> None:
    """Bring signatures into a cluster; one that thereby loses its last is taken in whole, symptoms too."""
    for digest in strays:
        row = store.row("SELECT cluster, how FROM aliases WHERE signature = ?", (digest,))
        assert row is not None
        why = f"on average within {MERGE} of the cluster's signatures"
        how = BY_SYMPTOM if row["how"] == BY_SYMPTOM else BY_SIMILARITY
        rehome(store, digest, cluster, how, 1 - MERGE, why)
        if not is_named(store, row["cluster"]):
            absorb(store, row["cluster"], cluster, why)


def _title(store: Store, digest: str) -> str:
    row = store.row("SELECT title FROM failures WHERE signature = ? ORDER BY id LIMIT 1", (digest,))
    return str(row["title"]) if row else digest
