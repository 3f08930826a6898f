"""Distances between signatures that are near each other, as they are kept; rewrites seen in several ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oracles.naming.signature import Signature
from triage.store.clusters import load_signature
from triage.store.database import Store, parsed

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
class Rewrite:
    """The facts of a cluster's reduced failure: its outcome, minimal passes and operators."""

    cluster: int
    outcome: str
    passes: tuple[str, ...]
    ops: tuple[str, ...]


def neighbours(store: Store, digest: str, cut: float) -> frozenset[str]:
    """The signatures that chains of kept distances up to a cut, and pins, join with this one."""
    return frozenset(str(row["digest"]) for row in store.rows(NEIGHBOURS, (digest, cut)))


def same_kind(store: Store, digest: str) -> list[Signature]:
    """The other signatures that stand in a cluster and are of its kind and version."""
    rows = store.rows(
        """SELECT digest, version, components FROM signatures JOIN aliases ON signature = digest
           WHERE (kind, version) = (SELECT kind, version FROM signatures WHERE digest = ?)
           AND kind != '' AND digest != ?""",
        (digest, digest),
    )
    return [load_signature(row) for row in rows]


def keep_distance(store: Store, first: str, second: str, distance: float) -> None:
    """Keep the distance of two signatures, in both directions."""
    for pair in ((first, second), (second, first)):
        store.write("INSERT OR REPLACE INTO similarities VALUES (?, ?, ?)", (*pair, distance))


def kept_distance(store: Store, first: str, second: str) -> float | None:
    """The distance of two signatures; None where it was not kept, since they are not near."""
    row = store.row("SELECT distance FROM similarities WHERE first = ? AND second = ?", (first, second))
    return float(row["distance"]) if row else None


def near_clusters(store: Store, cut: float) -> Iterator[tuple[int, int, float]]:
    """Pairs of clusters, in both directions, with the least distance of their signatures up to the cut."""
    rows = store.rows(
        """SELECT one.cluster AS cluster, other.cluster AS related, min(distance) AS distance
           FROM similarities JOIN aliases AS one ON one.signature = first
           JOIN aliases AS other ON other.signature = second
           WHERE one.cluster != other.cluster AND distance <= ? GROUP BY 1, 2""",
        (cut,),
    )
    return ((int(row["cluster"]), int(row["related"]), float(row["distance"])) for row in rows)


def rewrites(store: Store) -> Iterator[Rewrite]:
    """Yield the passes and operators of every cluster, with each outcome that they had."""
    rows = store.rows(
        "SELECT DISTINCT cluster, outcome, passes, ops FROM rewrites JOIN aliases USING (signature)"
    )
    for row in rows:
        passes, ops = (tuple(parsed(row[name], [str], name)) for name in ("passes", "ops"))
        yield Rewrite(int(row["cluster"]), str(row["outcome"]), passes, ops)
