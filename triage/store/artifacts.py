"""What the database keeps besides failures: verdicts, files that belong to something, known issues."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from triage.bugs.known import KnownIssue
from triage.store.database import Store, dump, now

REDUCTION_KEPT = "reduction"
"""The kind of artifact that tells a failure's reduction step by step."""


def note_check(
    store: Store,
    case_id: str,
    target: str,
    release: str,
    *,
    outcome: str,
    phase: str,
    symptom: str = "",
    title: str = "",
) -> None:
    """Keep one verdict: what a case did on a target, on one release of its package."""
    values = {"case_id": case_id, "target": target, "release": release, "outcome": outcome, "phase": phase}
    with store.transaction():
        store.insert("check_results", {**values, "symptom": symptom, "title": title, "checked": now()})


def keep_artifact(store: Store, kind: str, subject: str, path: Path) -> str:
    """Keep a file that belongs to a failure, a cluster or a case, once; its digest."""
    digest = store.blobs.put_file(path)
    store.write(
        """INSERT OR IGNORE INTO artifacts (kind, subject, name, digest, bytes, added)
           VALUES (?, ?, ?, ?, ?, ?)""",
        (kind, subject, path.name, digest, path.stat().st_size, now()),
    )
    return digest


def find_artifact(store: Store, kind: str, subject: str) -> bytes | None:
    """The newest file of that kind that was kept for a subject."""
    row = store.row(
        "SELECT digest FROM artifacts WHERE kind = ? AND subject = ? ORDER BY id DESC LIMIT 1",
        (kind, subject),
    )
    return store.blobs.get(row["digest"]) if row else None


def note_known(store: Store, issues: Iterable[KnownIssue]) -> None:
    """Let the table hold these known issues and no others; nothing is written where it does."""
    wanted = [
        {name: getattr(each, name) for name in ("id", "title", "package", "fixed", "url")}
        | {"match": dump(dict(each.match))}
        for each in {each.id: each for each in reversed(list(issues))}.values()
    ]
    if store.rows("SELECT * FROM known_issues ORDER BY id") == sorted(wanted, key=lambda row: row["id"]):
        return
    with store.transaction():
        store.write("DELETE FROM known_issues")
        for row in wanted:
            store.insert("known_issues", row)
