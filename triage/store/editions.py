"""Which edition of crux decided what a failure is, and how decisions of older ones give way to new ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from triage.store.clusters import (
    BY_SYMPTOM,
    MERGED,
    NEW,
    Cluster,
    absorb,
    get_cluster,
    is_named,
    move,
    set_status,
)
from triage.store.database import Store
from triage.store.failures import EDITION

_NEWEST = "(SELECT max(id) FROM reductions WHERE failure = failures.id)"


@dataclass(frozen=True, slots=True)
class OldDecision:
    """A signature that an older edition gave: its smallest reduced failure, how many failures it names."""

    failure: int
    cluster: int
    signature: str
    failures: int


def old_decisions(store: Store) -> list[OldDecision]:
    """The signatures that no reduction of this edition has confirmed, those of many and small cases first.

    What a person has merged or split is not among them.
    """
    rows = store.rows(
        f"""SELECT failures.id AS failure, failures.cluster AS cluster, failures.signature AS signature,
                   (SELECT count(*) FROM failures AS each WHERE each.signature = failures.signature
                    AND each.cluster = failures.cluster) AS failures,
                   min(cases.bytes) AS bytes, max(edition = ?) AS is_new
            FROM failures JOIN reductions ON reductions.id = {_NEWEST}
            JOIN cases ON cases.case_id = failures.reduced_case
            WHERE failures.status = 'reduced'
              AND failures.id NOT IN (SELECT failure FROM faces WHERE root IS NOT NULL)
              AND failures.signature NOT IN (SELECT signature FROM aliases WHERE pinned)
            GROUP BY failures.signature, failures.cluster HAVING NOT is_new
            ORDER BY 1.0 * bytes / failures, failures.id""",
        (EDITION,),
    )
    names = OldDecision.__slots__
    return [OldDecision(**{name: row[name] for name in names}) for row in rows]


def retire(store: Store, cluster: int, signatures: Iterable[str]) -> None:
    """Let old signatures name their cluster no more, and be compared with none."""
    for digest in signatures:
        store.write("UPDATE signatures SET kind = '' WHERE digest = ?", (digest,))
        store.write(
            "UPDATE aliases SET how = ? WHERE signature = ? AND cluster = ?", (BY_SYMPTOM, digest, cluster)
        )


def revive(store: Store, signature: str, kind: str) -> None:
    """Let a retired signature that came out again be compared as before."""
    store.write("UPDATE signatures SET kind = ? WHERE digest = ? AND kind = ''", (kind, signature))


def follow(store: Store, old: OldDecision, before: Cluster, signature: str, cluster: int, why: str) -> None:
    """Give all failures of an old signature the new one, and bring them where the first of them went.

    An emptied cluster lives on as an alias; what a person said of it, as it was `before`, goes with it.
    """
    rows = store.rows(
        "SELECT id FROM failures WHERE signature = ? AND cluster = ?", (old.signature, old.cluster)
    )
    for row in rows:
        store.write("UPDATE failures SET signature = ? WHERE id = ?", (signature, int(row["id"])))
        move(store, int(row["id"]), cluster, why)
    if cluster == old.cluster:
        return
    if get_cluster(store, old.cluster).status != MERGED and not is_named(store, old.cluster):
        absorb(store, old.cluster, cluster, why)
    if get_cluster(store, old.cluster).status == MERGED:
        store.write("UPDATE aliases SET cluster = ? WHERE cluster = ?", (cluster, old.cluster))
        if get_cluster(store, cluster).status == NEW and before.status not in (NEW, MERGED):
            set_status(store, cluster, before.status, before.note)
