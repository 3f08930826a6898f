"""What lists of clusters show, read without looking at every failure: counts are kept as failures come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triage.store.clusters import Alias, load_signature
from triage.store.database import Store, parsed
from triage.store.names import failure_name

COUNTS = """
SELECT cluster, sum(failures) AS failures,
       coalesce(sum(failures) FILTER (WHERE status = 'reduced'), 0) AS reduced,
       json_group_array(DISTINCT release) AS releases
FROM tallies GROUP BY cluster
"""
SIGNATURES = """
SELECT cluster, how, score, why, digest, version, components
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


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a cluster: failures, reduced failures, and releases on which it was seen."""

    failures: int
    reduced: int
    releases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """A failure as lists show it; `case` is the id of its reduced case if it has one."""

    name: str
    outcome: str
    signature: str
    status: str
    seen: int
    case: str
    origins: tuple[str, ...]


def counts_of_clusters(store: Store) -> dict[int, Counts]:
    """The counts of every cluster that has failures."""
    return {
        int(row["cluster"]): Counts(
            int(row["failures"]), int(row["reduced"]), tuple(parsed(row["releases"], [str], "releases"))
        )
        for row in store.rows(COUNTS)
    }


def signatures_by_cluster(store: Store) -> Mapping[int, Sequence[Alias]]:
    """Return the signatures of every cluster, oldest first."""
    found: dict[int, list[Alias]] = defaultdict(list)
    for row in store.rows(SIGNATURES):
        alias = Alias(load_signature(row), str(row["how"]), float(row["score"]), str(row["why"]))
        found[int(row["cluster"])].append(alias)
    return found


def first_failures(store: Store, most: int) -> Mapping[int, Sequence[Listed]]:
    """Return the oldest failures of every cluster, at most `most` of each."""
    found: dict[int, list[Listed]] = defaultdict(list)
    for row in store.rows(FIRST_FAILURES, (most,)):
        listed = Listed(
            failure_name(row["id"]),
            str(row["outcome"]),
            str(row["signature"]),
            str(row["status"]),
            int(row["seen"]),
            str(row["best_case"]),
            tuple(sorted(parsed(row["origins"], [str], "origins"))),
        )
        found[int(row["cluster"])].append(listed)
    return found
