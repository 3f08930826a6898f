"""What the database keeps besides failures: verdicts, files that belong to something, known issues."""

from __future__ import annotations

from pathlib import Path

from corpus.case import Case
from oracles.verdict import Verdict
from triage.store.database import Store, now


def note(database: Path, case: Case, verdict: Verdict, release: str) -> None:
    """Note a verdict on a case, whatever it is."""
    words = {"outcome": verdict.outcome.value, "phase": verdict.phase.value, "title": verdict.title}
    with Store(database) as store:
        symptom = str(verdict.symptom or "")
        note_check(store, case.case_id, str(case.target or ""), release, symptom=symptom, **words)


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
