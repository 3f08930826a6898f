"""The clusters of a store as documents, in the order in which to look at them."""

from __future__ import annotations

from typing import Any

from triage.clusters import BY_SYMPTOM, Cluster, clusters, load_signature, signatures_of
from triage.decisions import CLOSED
from triage.failures import REDUCED, Failure, list_failures, origins
from triage.known import KnownIssue, known_issue
from triage.ranking import Candidate, ranked
from triage.related import Related, related_clusters
from triage.store import Store

Document = dict[str, Any]


def overview(store: Store, issues: tuple[KnownIssue, ...] = ()) -> list[Document]:
    """One document for each cluster that has failures, the most different ones first."""
    related = related_clusters(store)
    documents, candidates = {}, []
    for cluster in clusters(store):
        failures = list_failures(store, cluster=cluster.id)
        if failures:
            documents[cluster.id] = _document(store, cluster, failures, related, issues)
            candidates.append(_candidate(store, documents[cluster.id], cluster, failures))
    return [documents[each] for each in ranked(candidates)]


def _document(
    store: Store, cluster: Cluster, failures: list[Failure], related: Related, issues: tuple[KnownIssue, ...]
) -> Document:
    rows = signatures_of(store, cluster.id)
    releases = tuple(failure.release for failure in failures)
    known = known_issue(issues, [load_signature(row) for row in rows], releases)
    return {
        "id": cluster.name,
        "title": cluster.title,
        "status": cluster.status,
        "signatures": [row["signature"] for row in rows],
        "failures": [_failure_document(store, failure) for failure in failures],
        "note": cluster.note,
        "known": known.id if known else "",
        "related": related.get(cluster.id, {}),
    }


def _failure_document(store: Store, failure: Failure) -> Document:
    return {
        "id": failure.name,
        "origins": origins(store, failure.id),
        "outcome": failure.outcome,
        "signature": failure.signature,
        "status": failure.status,
        "case": failure.best_case,
        "seen": failure.seen,
    }


def _candidate(store: Store, document: Document, cluster: Cluster, failures: list[Failure]) -> Candidate:
    rows = signatures_of(store, cluster.id)
    best = next((row for row in rows if row["how"] != BY_SYMPTOM), rows[0])
    reduced = sum(failure.status == REDUCED for failure in failures)
    tier = (cluster.status in CLOSED, bool(document["known"]), not reduced)
    return Candidate(cluster.id, tier, (-reduced, -len(failures)), load_signature(best))
