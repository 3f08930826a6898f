"""What the database keeps besides failures: verdicts as JSON, files, reports, known issues, answers."""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.reading import Fields, Text
from oracles.numerics.compare import part_of
from oracles.verdict import Run, Symptom, Verdict, WrongResult
from triage.store.database import Row, Store, now, parsed
from triage.store.names import cluster_name
from triage.views.listing import MOST_COLUMNS, SIGNS, error_map

_ROW = Text(f"[{re.escape(SIGNS)}]{{1,{MOST_COLUMNS}}}")
VERDICT = Fields(
    {
        **{"outcome": str, "phase": str, "title": str},
        "runs": [Fields({"status": str}, {"config": str, "message": str, "error": str})],
    },
    {"wrong": (Fields({}, {"first_divergent": str, "map": [_ROW]}), type(None))},
)
"""What is read of a kept verdict."""
MOST_TEXT = 64 * 1024
"""Characters kept of one message or trace; an optimiser can print a whole graph into its exception."""


def symptom_document(symptom: Symptom) -> dict[str, str]:
    """A symptom by the names of its parts; `side` only where one side alone shows it."""
    return {
        "outcome": symptom.outcome.value,
        "phase": symptom.phase.value,
        "kind": symptom.kind,
        "site": symptom.site,
        "message": symptom.message,
        **({"side": symptom.side} if symptom.side else {}),
    }


def wrong_document(verdict: Verdict) -> dict[str, Any] | None:
    """Describe a wrong result; a distance that is not finite, which JSON lacks, becomes a word."""
    wrong = verdict.wrong
    if wrong is None:
        return None
    baseline, other = wrong.off_truth or (None, None)
    return {
        "output": wrong.output,
        "side": wrong.side,
        "kind": wrong.kind,
        "error": _number(wrong.error),
        "truth": wrong.truth,
        "unoptimised_off_truth": _number(baseline),
        "optimised_off_truth": _number(other),
        "first_divergent": wrong.first,
        "operator": wrong.operator,
        "times_further": _number(wrong.times),
        "map": map_of(verdict),
    }


def map_of(verdict: Verdict) -> list[str]:
    """The error over the wrong output, row by row; empty where there is no such picture."""
    if verdict.wrong is None or len(verdict.runs) < 2:
        return []
    ends = (verdict.runs[0], verdict.runs[-1])
    return error_map(*(part_of(run.outputs, verdict.wrong.output) for run in ends))


def located_document(wrong: WrongResult | None) -> dict[str, Any] | None:
    """The first wrong tensor and what was right before it; None where nothing tells."""
    found = wrong.located if wrong is not None else None
    return {**asdict(found), "error": _number(found.error)} if found is not None else None


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def run_document(run: Run) -> dict[str, Any]:
    """Describe one run without its values; long texts are cut in the middle."""
    return {
        "config": run.config.label,
        "status": run.status.value,
        "phase": run.phase.value,
        "error": run.error,
        "message": clip(run.message),
        "trace": clip(run.trace),
        "signal": run.signal,
        "frames": [[frame.library, frame.offset, frame.function] for frame in run.frames],
        "cpu_seconds": round(run.cpu_seconds, 3),
    }


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its symptom, what is wrong, and its runs."""
    return {
        "outcome": verdict.outcome.value,
        "phase": verdict.phase.value,
        "title": verdict.title,
        "symptom": symptom_document(verdict.symptom) if verdict.symptom else None,
        "notes": list(verdict.notes),
        "wrong": wrong_document(verdict),
        "runs": [run_document(run) for run in verdict.runs],
    }


def clip(text: str) -> str:
    """The text, or its beginning and end when it is longer than the store wants to keep."""
    if len(text) <= MOST_TEXT:
        return text
    half = MOST_TEXT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def note(database: Path, case: Case, verdict: Verdict, release: str) -> None:
    """Note a verdict on a case, whatever it is."""
    with Store(database) as store:
        note_check(store, case.case_id, str(case.target or ""), release, **verdict.texts)


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


def results_of(store: Store, case_id: str, target: str) -> list[Row]:
    """What releases did to a case on a target, the oldest first."""
    return store.rows(
        """SELECT release, outcome, phase, symptom, title FROM check_results
           WHERE case_id = ? AND target = ? ORDER BY id""",
        (case_id, target),
    )


def watched_releases(store: Store, package: str) -> list[str]:
    """The releases of a package that were watched."""
    sql = "SELECT json_extract(document, '$.release') FROM events WHERE kind = 'watched' AND subject = ?"
    return store.column(sql, (package,))


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
    sql = "SELECT digest FROM artifacts WHERE kind = ? AND subject = ? ORDER BY id DESC LIMIT 1"
    digest = store.value(sql, (kind, subject))
    return store.blobs.get(digest) if digest else None


def keep_report(
    store: Store,
    cluster: int | None,
    case_id: str,
    folder: Path,
    archive: Path,
    *,
    ready: bool,
    newest: str = "",
    fixed: str = "",
) -> None:
    """Keep where a report of a cluster or a case went, and what bytes it has.

    `newest` is the newest release that it tried, `fixed` the one that no longer shows the bug.
    """
    subject = case_id if cluster is None else cluster_name(cluster)
    with store.transaction():
        values = {
            "cluster": cluster,
            "case_id": case_id,
            "folder": str(folder.resolve()),
            "ready": int(ready),
            "newest": newest,
            "fixed": fixed,
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "written": now(),
        }
        store.insert("reports", values)
        keep_artifact(store, "report", subject, archive)
        store.log("reported", subject, ready=ready)


@dataclass(frozen=True, slots=True)
class LastReport:
    """A cluster's newest report: its folder, whether it was ready, what it says of the newest release."""

    folder: str = ""
    ready: bool = False
    newest: str = ""
    fixed: str = ""


def last_reports(store: Store) -> dict[str, LastReport]:
    """The newest report of each cluster that has one, by the cluster's name."""
    rows = store.rows(
        "SELECT cluster, folder, ready, newest, fixed FROM reports WHERE cluster IS NOT NULL ORDER BY id"
    )
    return {cluster_name(row.pop("cluster")): LastReport(**row) for row in rows}


NEWEST = "newest"
"""The event that a package's newest release was looked up."""


def note_newest(store: Store, package: str, release: str) -> None:
    """Note the newest release of a package, if it is another one than is noted."""
    if release and release != newest_noted(store, package):
        with store.transaction():
            store.log(NEWEST, package, release=release)


def newest_noted(store: Store, package: str) -> str:
    """The newest release of a package as it was last looked up; empty if it never was."""
    return str(last_event(store, NEWEST, (package,)).get("release", ""))


def reported_case(store: Store, cluster: int, folder: Path) -> str:
    """The case that a cluster's report in a folder shows; empty if none was written there."""
    sql = "SELECT case_id FROM reports WHERE cluster = ? AND folder = ? ORDER BY id DESC LIMIT 1"
    found = store.value(sql, (cluster, str(folder.resolve())))
    return str(found or "") if folder.is_dir() else ""


def last_event(store: Store, kind: str, subjects: Sequence[str]) -> dict[str, Any]:
    """Read the newest event of that kind on one of the subjects; empty if there is none."""
    marks = ", ".join("?" * len(subjects))
    sql = f"SELECT document FROM events WHERE kind = ? AND subject IN ({marks}) ORDER BY id DESC LIMIT 1"
    kept = store.value(sql, (kind, *subjects))
    return parsed(kept, dict, "an event") if kept else {}
