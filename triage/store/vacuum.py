"""The care of a store: blobs that nobody needs go, and a copy leaves the machine in one piece."""

import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from triage.store.blobs import Blobs, files_of
from triage.store.database import Store, blobs_beside, own_file
from triage.store.names import cluster_name

COUNTED = (
    *("cases", "failures", "clusters", "signatures", "reductions", "check_results", "artifacts", "reports"),
    *("runs", "events"),
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
    """Each blob that a row names, with what needs it."""
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
        yield from (told for told in store.column("PRAGMA integrity_check") if told != "ok")
        for row in store.rows("PRAGMA foreign_key_check"):
            yield f"{row['table']} row {row['rowid']} points to a missing row of {row['parent']}"
    except sqlite3.DatabaseError as error:
        yield str(error)


def _count_problems(store: Store) -> Iterator[str]:
    """Yield the derived rows that do not agree with the failures."""
    differing = store.column(
        """SELECT DISTINCT cluster FROM (
               SELECT cluster, status, outcome, release, count(*) FROM failures GROUP BY 1, 2, 3, 4
               EXCEPT SELECT * FROM tallies
               UNION ALL
               SELECT * FROM tallies EXCEPT
               SELECT cluster, status, outcome, release, count(*) FROM failures GROUP BY 1, 2, 3, 4)"""
    )
    for cluster in differing:
        yield f"{cluster_name(cluster)}: its failures are counted wrongly"


def _blob_problems(store: Store, named: dict[str, str]) -> Iterator[str]:
    for digest, owner in named.items():
        if not store.blobs.is_intact(digest):
            yield f"{owner}: its file {digest[:12]} is missing or damaged"


GRACE_SECONDS = 3600
"""A blob is on disk before the row that names it: what is younger may be about to be named."""
METADATA = Path(__file__).with_name("datasette.json")


def collect_garbage(store: Store, grace_seconds: float = GRACE_SECONDS) -> dict[str, Any]:
    """Remove blobs that no row names and what kills left behind, then pack the database."""
    before = disk_bytes(store)
    named = named_blobs(store)
    youngest = time.time() - grace_seconds
    unused = [digest for digest in store.blobs.digests() if digest not in named]
    removed = [digest for digest in unused if store.blobs.remove_unless_used(digest, youngest)]
    leavings = sum(_remove(path) for path in store.blobs.leavings() if path.stat().st_mtime < youngest)
    try:
        store.pack()
    except sqlite3.OperationalError as error:
        raise UserError(f"{store.path}: cannot be packed while others use it ({error})") from error
    return {
        "path": str(store.path),
        "blobs": len(named),
        "blobs_removed": len(removed),
        "leavings_removed": leavings,
        "kept_for_now": len(unused) - len(removed),
        "bytes_before": before,
        "bytes_after": disk_bytes(store),
    }


def export(store: Store, out: Path) -> dict[str, Any]:
    """Copy the database and the blobs that it names into a new folder.

    A snapshot first, then its blobs: whatever the snapshot names is on disk already.
    """
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise UserError(f"{out}: is there already; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    copy = out / store.path.name
    store.copy_to(copy)
    text = json.dumps(datasette_metadata(copy), indent=2, ensure_ascii=False)
    (out / METADATA.name).write_text(text + "\n", encoding="utf-8")
    if own_file(store.path).exists():
        shutil.copyfile(own_file(store.path), own_file(copy))
    with Store(copy) as snapshot:
        named = named_blobs(snapshot)
    Blobs(blobs_beside(copy)).take_from(store.blobs, named)
    return {"path": str(out), "blobs": len(named)}


def datasette_metadata(database: Path) -> dict[str, Any]:
    """Write Datasette's words for the tables and views of a database, and canned queries."""
    document: dict[str, Any] = json.loads(METADATA.read_text(encoding="utf-8"))
    document["databases"] = {database.stem: document["databases"]["crux"]}
    return document


def _remove(path: Path) -> bool:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return True


def disk_bytes(store: Store) -> int:
    """Bytes of the database's files and of its blobs."""
    beside = [path for path in store.path.parent.glob(f"{store.path.name}*") if path.is_file()]
    every = [*beside, *(path for path in store.blobs.root.rglob("*") if path.is_file())]
    return sum(path.stat().st_size for path in every)
