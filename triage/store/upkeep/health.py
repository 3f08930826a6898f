"""Whether a database is sound: SQLite's own checks, and the blobs that its rows name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from corpus.errors import UserError
from triage.store.database import Store
from triage.store.names import cluster_name
from triage.store.names_of_files import files_of

COUNTED = (
    "cases",
    "failures",
    "clusters",
    "signatures",
    "reductions",
    "check_results",
    "artifacts",
    "reports",
    "runs",
    "events",
)


def examine(store: Store) -> dict[str, Any]:
    """Counts and problems; `sound` when there is no problem. Unused blobs are room, not damage."""
    problems = [*_sqlite_problems(store)]
    try:
        named = named_blobs(store)
        problems += [*_count_problems(store), *_blob_problems(store, named)]
        counts = {name: store.count(name) for name in COUNTED}
    except (sqlite3.DatabaseError, UserError) as error:  # what is damaged cannot be counted
        return {"path": str(store.path), "sound": False, "problems": [*problems, str(error)]}
    unused = sum(digest not in named for digest in store.blobs.digests())
    return {
        "path": str(store.path),
        "sound": not problems,
        **counts,
        "blobs": len(named),
        "unused_blobs": unused,
        "problems": problems,
    }


def named_blobs(store: Store) -> dict[str, str]:
    """Return each blob that a row names, with what needs it."""
    rows = store.rows("SELECT case_id, files FROM cases")
    found = {
        digest: f"case {row['case_id'][:12]}"
        for row in rows
        for digest in files_of(row["files"], f"{store.path}: case {row['case_id'][:12]}").values()
    }
    artifacts = store.rows("SELECT digest, kind, subject FROM artifacts")
    return {row["digest"]: f"{row['kind']} of {row['subject']}" for row in artifacts} | found


def _sqlite_problems(store: Store) -> Iterator[str]:
    try:
        for row in store.rows("PRAGMA integrity_check"):
            if row["integrity_check"] != "ok":
                yield str(row["integrity_check"])
        for row in store.rows("PRAGMA foreign_key_check"):
            yield f"{row['table']} row {row['rowid']} points to a missing row of {row['parent']}"
    except sqlite3.DatabaseError as error:
        yield str(error)


def _count_problems(store: Store) -> Iterator[str]:
    """Yield the derived rows that do not agree with the failures."""
    differing = store.rows(
        """SELECT DISTINCT cluster FROM (
               SELECT cluster, status, outcome, release, count(*) FROM failures GROUP BY 1, 2, 3, 4
               EXCEPT SELECT * FROM tallies
               UNION ALL
               SELECT * FROM tallies EXCEPT
               SELECT cluster, status, outcome, release, count(*) FROM failures GROUP BY 1, 2, 3, 4)"""
    )
    for row in differing:
        yield f"{cluster_name(row['cluster'])}: its failures are counted wrongly"
    try:
        with store.transaction():
            store.write("INSERT INTO failures_search (failures_search, rank) VALUES ('integrity-check', 1)")
    except sqlite3.OperationalError:
        return  # somebody writes all the time: the index cannot be looked at, which is no damage
    except sqlite3.DatabaseError as error:
        yield f"the index of words does not agree with the failures ({error})"


def _blob_problems(store: Store, named: dict[str, str]) -> Iterator[str]:
    for digest, owner in named.items():
        if not store.blobs.is_intact(digest):
            yield f"{owner}: its file {digest[:12]} is missing or damaged"
