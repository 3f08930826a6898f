"""From a word on the command line to a written report, noted in the database where there is one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from oracles.verdict import Outcome
from triage.bugs.history import History, history_of_folder, history_of_name
from triage.bugs.known import load_known
from triage.bugs.library import Library
from triage.cases.judges import Judges
from triage.cases.sources import open_one
from triage.console.options import CaseOptions
from triage.reports.not_a_bug import write_page
from triage.reports.report import NoBug, Report, write_report
from triage.store.artifacts import keep_report
from triage.store.clusters import set_title
from triage.store.database import Store, open_existing
from triage.store.names import find_cluster, is_name


def report_word(
    word: str,
    options: CaseOptions,
    judges: Judges,
    out: Path,
    form: str = "",
    known: Path | None = None,
    said: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Report one id or case folder into `out`, under its own name.

    `known` is a file of known issues, `said` hears what is being done. Of an invalid model a page for its
    owner is written. Raises `UserError` where the case shows no bug.
    """
    try:
        return _reported(word, options, judges, out, form, known, said)
    except NoBug as error:
        if error.verdict.outcome is not Outcome.INVALID:
            raise UserError(f"{word}: shows no bug on {error.judge.target} ({error.verdict.title})") from None
        folder = out / _folder_name(word)
        page = write_page(error.case, error.verdict, word, error.judge.backend.package, folder)
        title = f"not a bug: {error.verdict.title}"
        return {"id": word, "title": title, "ready": False, "state": "not a bug", "page": str(page)} | {
            "folder": str(folder),
            "checks": [],
        }


def _reported(
    word: str,
    options: CaseOptions,
    judges: Judges,
    out: Path,
    form: str,
    known: Path | None,
    said: Callable[[str], None],
) -> dict[str, Any]:
    case = open_one(word, options, judges)
    assert case.target is not None
    judge = judges.of(case.target, case.format)
    if Path(word).exists() or not is_name(word):
        library = _library(options.database, known)
        history = history_of_folder(Path(word))
        report = write_report(case, judge, out / _folder_name(word), history, library, form, said)
        return _document(word, report)
    with open_existing(options.database) as store:
        history = history_of_name(store, word)
        library = Library.of_store(store, known)
        report = write_report(case, judge, out / (history.cluster or word), history, library, form, said)
        note_report(store, case, report, history)
    return _document(word, report)


def note_report(store: Store, case: Case, report: Report, history: History) -> None:
    """Keep where a report went, and what bytes it has."""
    cluster = find_cluster(store, history.cluster) if history.cluster else None
    keep_report(store, cluster, case.case_id, report.folder, report.archive, ready=report.ready)
    if cluster is not None:
        with store.transaction():
            set_title(store, cluster, report.title)


def _library(database: Path, known: Path | None) -> Library:
    """Collect what is known, with the database's bugs if there is one."""
    if not database.exists():
        return Library(load_known(database, known))
    with open_existing(database) as store:
        return Library.of_store(store, known)


def _folder_name(word: str) -> str:
    path = Path(word).resolve()
    return re.sub(r"[^\w.-]+", "-", path.stem if path.is_file() else path.name) or "case"


def _document(word: str, report: Report) -> dict[str, Any]:
    return {
        "id": word,
        "title": report.title,
        "ready": report.ready,
        "state": report.state,
        "known": report.known,
        "folder": str(report.folder),
        "zip": str(report.archive),
        "signature": report.signature,
        "checks": [{"holds": check.holds, "text": check.text} for check in report.checks],
    }
