"""Clusters of failures: one bug each, as far as their signatures tell.

Level 1 is exact: failures of equal signature are in one cluster, at once, as they come in. An un-reduced
failure only has its symptom's signature; the first reduced one names the cluster that its symptom opened.
Level 2, similarity between distinct signatures, adds rows to `aliases` with its own `how` and `score`.
"""

from __future__ import annotations

from dataclasses import dataclass

from corpus.case import Case
from oracles.signature import Signature
from oracles.verdict import Verdict
from triage.names import cluster_name
from triage.store import Row, Store, dump, now

BY_SYMPTOM = "symptom"
BY_SIGNATURE = "signature"


@dataclass(frozen=True, slots=True)
class Cluster:
    id: int
    title: str
    status: str
    created: str

    @property
    def name(self) -> str:
        return cluster_name(self.id)


def by_symptom(case: Case, verdict: Verdict) -> Signature:
    """What names a failure until it is reduced: its symptom on its backend."""
    backend = case.target.backend if case.target else ""
    return Signature.of(("backend", backend), ("symptom before reduction", str(verdict.symptom)))


def assign(
    store: Store, signature: Signature, title: str, *, reduced: bool, inside: int | None = None
) -> int:
    """The cluster of a signature, made when it is new; must run inside a transaction.

    `inside` is the cluster in which the failure stands until now: a first reduced signature attaches to it.
    """
    known = store.row("SELECT cluster, how FROM aliases WHERE signature = ?", (signature.digest,))
    if known:
        if reduced and known["how"] == BY_SYMPTOM:
            store.write("UPDATE aliases SET how = ? WHERE signature = ?", (BY_SIGNATURE, signature.digest))
        return int(known["cluster"])
    keep_signature(store, signature)
    if reduced and inside is not None and not _is_named(store, inside):
        cluster, why = inside, "the first reduced failure of its symptom"
        store.write("UPDATE clusters SET title = ? WHERE id = ?", (title, cluster))
    else:
        cluster, why = _open_cluster(store, title), "a signature not seen before"
    how = BY_SIGNATURE if reduced else BY_SYMPTOM
    _attach(store, signature, cluster, how, why)
    return cluster


def keep_signature(store: Store, signature: Signature) -> None:
    store.write(
        "INSERT OR IGNORE INTO signatures VALUES (?, ?, ?, ?)",
        (signature.digest, signature.version, dump(signature.components), now()),
    )


def move(store: Store, failure: int, cluster: int, why: str) -> None:
    """Put a failure into another cluster; a cluster that this empties stays known, its id is never reused."""
    row = store.row("SELECT cluster FROM failures WHERE id = ?", (failure,))
    assert row is not None
    if row["cluster"] == cluster:
        return
    store.write("UPDATE failures SET cluster = ? WHERE id = ?", (cluster, failure))
    store.log("moved", cluster_name(cluster), failure=failure, source=cluster_name(row["cluster"]), why=why)
    if not store.row("SELECT 1 FROM failures WHERE cluster = ? LIMIT 1", (row["cluster"],)):
        store.write("UPDATE clusters SET status = 'merged' WHERE id = ?", (row["cluster"],))
        store.log("merged", cluster_name(row["cluster"]), into=cluster_name(cluster), why=why)


def clusters(store: Store, *, merged: bool = False) -> list[Cluster]:
    """The clusters that have failures (with `merged`, emptied ones too), in order of their ids."""
    where = "" if merged else "WHERE status != 'merged'"
    rows = store.rows(f"SELECT id, title, status, created FROM clusters {where} ORDER BY id")
    return [Cluster(**row) for row in rows]


def signatures_of(store: Store, cluster: int) -> list[Row]:
    return store.rows(
        """SELECT signature, how, score, why, components FROM aliases JOIN signatures ON digest = signature
           WHERE cluster = ? ORDER BY aliases.added, signature""",
        (cluster,),
    )


def _is_named(store: Store, cluster: int) -> bool:
    sql = "SELECT 1 FROM aliases WHERE cluster = ? AND how = ?"
    return store.row(sql, (cluster, BY_SIGNATURE)) is not None


def _open_cluster(store: Store, title: str) -> int:
    cluster = store.insert("clusters", {"title": title, "status": "new", "created": now()})
    store.log("opened", cluster_name(cluster), title=title)
    return cluster


def _attach(store: Store, signature: Signature, cluster: int, how: str, why: str) -> None:
    values = {"signature": signature.digest, "cluster": cluster, "how": how, "score": 1.0}
    store.insert("aliases", {**values, "why": why, "added": now()})
    store.log("attached", cluster_name(cluster), signature=signature.digest, how=how, score=1.0, why=why)
