"""Failures in the store: kept at once when they are found, pointed at their reduced case later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corpus.case import Case
from oracles.naming.signature import Signature
from oracles.naming.titles import with_operators
from oracles.verdict import Verdict
from triage.clustering.assignment import assign, by_symptom, note_sighting
from triage.clustering.clusters import move
from triage.store.database import Store, dump, now
from triage.store.documents import verdict_document
from triage.store.names import cluster_name, failure_name

NEW = "new"
REDUCED = "reduced"
UNREDUCIBLE = "unreducible"
"""A failure's status: waits for reduction, reduced, or did not show again."""


@dataclass(frozen=True, slots=True)
class Failure:
    id: int
    case_id: str
    target: str
    outcome: str
    title: str
    symptom: str
    signature: str
    cluster: int
    status: str
    reduced_case: str | None
    seen: int
    release: str

    @property
    def name(self) -> str:
        return failure_name(self.id)

    @property
    def cluster_name(self) -> str:
        return cluster_name(self.cluster)

    @property
    def best_case(self) -> str:
        return self.reduced_case or self.case_id


COLUMNS = (
    "id, case_id, target, outcome, title, symptom, signature, cluster, status, reduced_case, seen, release"
)


def record_failure(
    store: Store,
    case: Case,
    verdict: Verdict,
    *,
    run: int | None = None,
    release: str = "",
    sketched: Signature | None = None,
) -> Failure:
    """Keep a failing case with its verdict; the same case on the same target is counted, not kept twice.

    `release` is that of the package it was seen on, where it is known; `sketched` names the failure until it
    is reduced, its symptom where there is none.
    """
    case_id = store.add_case(case)
    with store.transaction():
        number = find_failure(store, case)
        if number:
            store.write(
                "UPDATE failures SET seen = seen + 1, last_seen = ?, release = ? WHERE id = ?",
                (now(), release, number),
            )
        else:
            number = _insert(store, case, verdict, sketched or by_symptom(case, verdict), run, release)
        store.write("INSERT OR IGNORE INTO origins VALUES (?, ?)", (number, case.origin or case_id))
        note_sighting(store, get_failure(store, number).cluster, release)
    return get_failure(store, number)


def find_failure(store: Store, case: Case) -> int:
    """The number of the failure of this case on its target; 0 when there is none."""
    sql = "SELECT id FROM failures WHERE case_id = ? AND target = ?"
    row = store.row(sql, (case.case_id, str(case.target or "")))
    return int(row["id"]) if row else 0


def get_failure(store: Store, number: int) -> Failure:
    row = store.row(f"SELECT {COLUMNS} FROM failures WHERE id = ?", (number,))
    assert row is not None
    return Failure(**row)


def count_failures(store: Store, cluster: int) -> int:
    row = store.row("SELECT coalesce(sum(failures), 0) AS found FROM tallies WHERE cluster = ?", (cluster,))
    assert row is not None
    return int(row["found"])


def list_failures(
    store: Store, *, cluster: int | None = None, status: str | None = None, most: int = -1
) -> list[Failure]:
    """The failures, oldest first, at most so many; of one cluster or status only when that is given."""
    wanted = {"cluster": cluster, "status": status}
    given = {name: value for name, value in wanted.items() if value is not None}
    where = "WHERE " + " AND ".join(f"{name} = ?" for name in given) if given else ""
    rows = store.rows(f"SELECT {COLUMNS} FROM failures {where} ORDER BY id LIMIT ?", (*given.values(), most))
    return [Failure(**row) for row in rows]


def origins(store: Store, number: int) -> list[str]:
    rows = store.rows("SELECT origin FROM origins WHERE failure = ? ORDER BY origin", (number,))
    return [str(row["origin"]) for row in rows]


def verdict_of(store: Store, number: int) -> dict[str, Any]:
    row = store.row("SELECT verdict FROM failures WHERE id = ?", (number,))
    assert row is not None
    document: dict[str, Any] = json.loads(row["verdict"])
    return document


def record_reduction(
    store: Store,
    failure: Failure,
    reduced: Case,
    verdict: Verdict,
    signature: Signature,
    document: Mapping[str, Any],
) -> Failure:
    """Point a failure at its reduced case, whose signature says to which cluster it belongs."""
    case_id = store.add_case(reduced)
    title = with_operators(verdict.title, reduced.measure.ops)
    with store.transaction():
        cluster = assign(store, signature, title, reduced=True, inside=failure.cluster)
        store.write(
            "UPDATE failures SET reduced_case = ?, signature = ?, title = ?, verdict = ?, status = ?"
            " WHERE id = ?",
            (case_id, signature.digest, title, dump(verdict_document(verdict)), REDUCED, failure.id),
        )
        move(store, failure.id, cluster, "the reduced case's signature")
        if cluster != failure.cluster:
            note_sighting(store, cluster, failure.release)
        _keep_reduction(store, failure, case_id, REDUCED, document)
    return get_failure(store, failure.id)


def set_aside(store: Store, failure: Failure, status: str, document: Mapping[str, Any]) -> None:
    """Say why a failure is not going to be reduced: its status, with the circumstances."""
    with store.transaction():
        store.write("UPDATE failures SET status = ? WHERE id = ?", (status, failure.id))
        _keep_reduction(store, failure, None, status, document)


def reduction_of(store: Store, cluster: int) -> dict[str, Any]:
    """What the reduction of a cluster's largest program said of itself; empty when there was none."""
    row = store.row(
        """SELECT document FROM reductions JOIN failures ON failures.id = failure
           WHERE cluster = ? AND reductions.status = ?
           ORDER BY json_extract(document, '$.nodes_after'), json_extract(document, '$.nodes_before') DESC,
           reductions.id LIMIT 1""",
        (cluster, REDUCED),
    )
    document: dict[str, Any] = json.loads(row["document"]) if row else {}
    return document


def _insert(
    store: Store, case: Case, verdict: Verdict, signature: Signature, run: int | None, release: str
) -> int:
    cluster = assign(store, signature, verdict.title, reduced=False)
    values = {
        "case_id": case.case_id,
        "target": str(case.target or ""),
        "run": run,
        "outcome": verdict.outcome.value,
        "title": verdict.title,
        "symptom": str(verdict.symptom or ""),
        "verdict": dump(verdict_document(verdict)),
        "signature": signature.digest,
        "cluster": cluster,
        "status": NEW,
        "release": release,
        "first_seen": now(),
        "last_seen": now(),
    }
    number = store.insert("failures", values)
    store.log("found", failure_name(number), case=case.case_id, cluster=cluster_name(cluster))
    return number


def _keep_reduction(
    store: Store, failure: Failure, case_id: str | None, status: str, document: Mapping[str, Any]
) -> None:
    values = {"failure": failure.id, "reduced_case": case_id, "status": status}
    store.insert("reductions", {**values, "document": dump(dict(document)), "finished": now()})
