"""The clusters of a store as documents, in the order in which to look at them.

Nothing here reads every failure: counts are kept as failures come, and of many failures a cluster shows some.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from triage.bugs.known import KnownIssue, known_issue
from triage.clustering.clusters import BY_SYMPTOM, Cluster, clusters, load_signature
from triage.clustering.decisions import CLOSED
from triage.clustering.ranking import Candidate, ranked
from triage.clustering.related import related_clusters
from triage.store.database import Row, Store
from triage.store.names import failure_name

Document = dict[str, Any]
MOST_LISTED = 10_000
"""Up to so many failures all are listed; of more, every cluster's first ones."""
FEWEST_LISTED = 5

COUNTS = """
SELECT cluster, sum(failures) AS failures,
       coalesce(sum(failures) FILTER (WHERE status = 'reduced'), 0) AS reduced,
       json_group_array(DISTINCT release) AS releases
FROM tallies GROUP BY cluster
"""
SIGNATURES = """
SELECT cluster, how, digest, version, components
FROM aliases JOIN signatures ON digest = signature ORDER BY aliases.rowid
"""
FIRST_FAILURES = """
SELECT failures.cluster, failures.id, outcome, signature, failures.status, seen,
       coalesce(reduced_case, case_id) AS best_case,
       (SELECT json_group_array(origin) FROM origins WHERE failure = failures.id) AS origins
FROM clusters JOIN failures ON failures.id IN
    (SELECT id FROM failures AS own WHERE own.cluster = clusters.id ORDER BY id LIMIT ?)
ORDER BY failures.id
"""


def overview(
    store: Store, issues: tuple[KnownIssue, ...] = (), only: Collection[int] | None = None
) -> list[Document]:
    """One document for each cluster that has failures (of `only` these), the most different ones first.

    A cluster whose known issue says so is left out, unless it is asked for.
    """
    counts = {int(row["cluster"]): row for row in store.rows(COUNTS)}
    signatures = _by_cluster(store.rows(SIGNATURES))
    most = _most_listed(sum(int(row["failures"]) for row in counts.values()), len(counts))
    failures = _by_cluster(store.rows(FIRST_FAILURES, (most,)))
    related = related_clusters(store)
    suppressed = {issue.id for issue in issues if issue.suppress}
    documents, candidates = {}, []
    for cluster in clusters(store):
        if cluster.id in counts and (only is None or cluster.id in only):
            document = _document(cluster, counts[cluster.id], signatures[cluster.id], issues)
            if only is None and document["known"] in suppressed:
                continue
            listed = [_failure_document(row) for row in failures[cluster.id]]
            documents[cluster.id] = document | {
                "failures": listed,
                "related": related.get(cluster.id, {}),
            }
            candidates.append(_candidate(documents[cluster.id], cluster, signatures[cluster.id]))
    return [documents[each] for each in ranked(candidates)]


def _by_cluster(rows: list[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[int(row["cluster"])].append(row)
    return found


def _most_listed(failures: int, clusters: int) -> int:
    """How many failures of each cluster are listed."""
    return failures if failures <= MOST_LISTED else max(FEWEST_LISTED, MOST_LISTED // clusters)


def _document(cluster: Cluster, counts: Row, rows: list[Row], issues: tuple[KnownIssue, ...]) -> Document:
    known = known_issue(issues, [load_signature(row) for row in rows], json.loads(counts["releases"]))
    return {
        "id": cluster.name,
        "title": cluster.title,
        "status": cluster.status,
        "signatures": [row["digest"] for row in rows],
        "count": int(counts["failures"]),
        "reduced": int(counts["reduced"]),
        "note": cluster.note,
        "known": known.id if known else "",
    }


def _failure_document(row: Row) -> Document:
    return {
        "id": failure_name(row["id"]),
        "origins": sorted(json.loads(row["origins"])),
        "outcome": row["outcome"],
        "signature": row["signature"],
        "status": row["status"],
        "case": row["best_case"],
        "seen": row["seen"],
    }


def _candidate(document: Document, cluster: Cluster, rows: list[Row]) -> Candidate:
    best = next((row for row in rows if row["how"] != BY_SYMPTOM), rows[0])
    tier = (cluster.status in CLOSED, bool(document["known"]), not document["reduced"])
    return Candidate(cluster.id, tier, (-document["reduced"], -document["count"]), load_signature(best))
