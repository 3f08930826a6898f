"""The clusters of a store as documents, in the order in which to look at them.

Nothing here reads every failure: counts are kept as failures come, and of many failures a cluster shows some.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from triage.bugs.known import KnownIssue, known_issue
from triage.clustering.decisions import CLOSED
from triage.clustering.ranking import Candidate, ranked
from triage.clustering.related import related_clusters
from triage.store.causes import Face, explained_in, faces_of
from triage.store.clusters import BY_SYMPTOM, Alias, Cluster, clusters
from triage.store.counted import Counts, Listed, counts_of_clusters, first_failures, signatures_by_cluster
from triage.store.database import Store

Document = dict[str, Any]
MOST_LISTED = 10_000
"""Up to this many failures all are listed; of more, the first ones of every cluster."""
FEWEST_LISTED = 5


def overview(
    store: Store, issues: tuple[KnownIssue, ...] = (), only: Collection[int] | None = None
) -> list[Document]:
    """One document for each cluster that has failures (of `only` these), the most different ones first.

    A cluster whose known issue says so is left out, unless it is asked for.
    """
    counts = counts_of_clusters(store)
    signatures = signatures_by_cluster(store)
    most = _most_listed(sum(each.failures for each in counts.values()), len(counts))
    failures = first_failures(store, most)
    related = related_clusters(store)
    suppressed = {issue.id for issue in issues if issue.suppress}
    documents, candidates = {}, []
    for cluster in clusters(store):
        if cluster.id in counts and (only is None or cluster.id in only):
            document = _document(cluster, counts[cluster.id], signatures[cluster.id], issues)
            if only is None and document["known"] in suppressed:
                continue
            listed = [_failure_document(each) for each in failures[cluster.id]]
            documents[cluster.id] = document | {
                "failures": listed,
                "related": related.get(cluster.id, {}),
                "faces": [_face(row) for row in faces_of(store, cluster.id)],
                "explained": [asdict(row) for row in explained_in(store, cluster.id)],
            }
            candidates.append(_candidate(documents[cluster.id], cluster, signatures[cluster.id]))
    return [documents[each] for each in ranked(candidates)]


def _most_listed(failures: int, clusters: int) -> int:
    """Return how many failures to list of each cluster."""
    return failures if failures <= MOST_LISTED else max(FEWEST_LISTED, MOST_LISTED // clusters)


def _document(
    cluster: Cluster, counts: Counts, aliases: Sequence[Alias], issues: tuple[KnownIssue, ...]
) -> Document:
    known = known_issue(issues, [each.signature for each in aliases], counts.releases)
    return {
        "id": cluster.name,
        "title": cluster.title,
        "status": cluster.status,
        "signatures": [each.signature.digest for each in aliases],
        "count": counts.failures,
        "reduced": counts.reduced,
        "note": cluster.note,
        "known": known.id if known else "",
    }


def _failure_document(listed: Listed) -> Document:
    return {
        "id": listed.name,
        "origins": list(listed.origins),
        "outcome": listed.outcome,
        "signature": listed.signature,
        "status": listed.status,
        "case": listed.case,
        "seen": listed.seen,
    }


def _face(face: Face) -> Document:
    """Describe another face of a bug: `title`, `failures`, `first`."""
    return {"title": face.title, "failures": face.failures, "first": face.first}


def _candidate(document: Document, cluster: Cluster, aliases: Sequence[Alias]) -> Candidate:
    best = next((each for each in aliases if each.how != BY_SYMPTOM), aliases[0])
    tier = (cluster.status in CLOSED, bool(document["known"]), not document["reduced"])
    return Candidate(cluster.id, tier, (-document["reduced"], -document["count"]), best.signature)
