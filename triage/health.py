"""Whether a database is sound: SQLite's own checks, and the blobs that its rows name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from triage.store import Store

COUNTED = ("cases", "failures", "clusters", "signatures", "reductions", "reports", "runs", "events")


def examine(store: Store) -> dict[str, Any]:
    """Counts and problems; `sound` when there is no problem. Unused blobs are room, not damage."""
    named = _named_blobs(store)
    problems = [*_sqlite_problems(store), *_blob_problems(store, named)]
    counts = {name: store.tables[name].count for name in COUNTED}
    unused = sum(digest not in named for digest in store.blobs.digests())
    return {
        "path": str(store.path),
        "sound": not problems,
        **counts,
        "blobs": len(named),
        "unused_blobs": unused,
        "problems": problems,
    }


def _named_blobs(store: Store) -> dict[str, str]:
    """Each blob that a row names, with the case that needs it."""
    rows = store.rows("SELECT case_id, files FROM cases")
    return {digest: row["case_id"] for row in rows for digest in json.loads(row["files"]).values()}


def _sqlite_problems(store: Store) -> Iterator[str]:
    for row in store.rows("PRAGMA integrity_check"):
        if row["integrity_check"] != "ok":
            yield str(row["integrity_check"])
    for row in store.rows("PRAGMA foreign_key_check"):
        yield f"{row['table']} row {row['rowid']} points to a missing row of {row['parent']}"


def _blob_problems(store: Store, named: dict[str, str]) -> Iterator[str]:
    for digest, case_id in named.items():
        if not store.blobs.is_intact(digest):
            yield f"case {case_id[:12]}: its file {digest[:12]} is missing or damaged"
