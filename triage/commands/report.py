"""`crux report`: issue-ready bundles; all bugs of a database on one page, or as SARIF."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.foot import doing
from triage.console.options import CaseOptions, Known, command
from triage.console.output import Document, emit, in_columns, one_line, quoted, table

if TYPE_CHECKING:
    from rich.table import Table

    from triage.console.status import Progress

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID…", help="Clusters, failures or cases of the database, or folders."),
]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the bundles or the page go.")]
For = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="PROJECT",
        help="Whose form: onnxruntime, tvm, pytorch or general. (default: the target's)",
    ),
]
AsTest = Annotated[
    bool, typer.Option("--as-test", help="Write the bug as a test in the project's own style, too.")
]
Html = Annotated[
    bool, typer.Option("--html", help="Write DIR/index.html, a page of these clusters or all; no bundles.")
]
Sarif = Annotated[
    Path | None,
    typer.Option("--sarif", metavar="FILE", help="Write these clusters or all as SARIF 2.1.0; no bundles."),
]
CodeQuality = Annotated[
    Path | None,
    typer.Option("--code-quality", metavar="FILE", help="Write the open ones for GitLab; no bundles."),
]
Limits = Annotated[
    bool,
    typer.Option("--limits", help="Write one feature request for all that a compiler declares not to do."),
]


@command(CaseOptions)
def report(
    options: CaseOptions,
    ids: Ids = None,
    out: Out = Path("crux-reports"),
    for_: For = "",
    known: Known = "",
    as_test: AsTest = False,
    html: Html = False,
    sarif: Sarif = None,
    code_quality: CodeQuality = None,
    limits: Limits = False,
) -> int:
    """Write a bundle for each bug: an issue, a script that shows it, the model, the evidence; and its zip.

    Example: crux report C0001 -o reports
    """
    if limits:
        emit(
            _requests(options, out),
            as_json=options.json,
            show=in_columns({name: name for name in ("target", "title", "folder")}),
        )
        return 0
    if html or sarif or code_quality:
        written = _written(options, ids or [], out if html else None, sarif, code_quality, known)
        emit(iter([written]), as_json=options.json, show=_show_written, single=True)
        return 0
    if not ids:
        from corpus.errors import UserError

        raise UserError("crux report: name clusters, failures or case folders, or ask for --html or --limits")
    reports = _reports(options, ids, out, for_, known, as_test)
    emit(reports, as_json=options.json, show=_show, single=len(ids) == 1)
    return 0


def _reports(
    options: CaseOptions, words: list[str], out: Path, form: str, known: str, as_test: bool
) -> Iterator[Document]:
    from functools import partial

    from oracles.judge import in_short
    from triage.cases.sources import Judges
    from triage.console.status import progress
    from triage.reports.by_name import report_word
    from triage.reports.newest_release import NewestReleases

    with (
        in_short(len(words)),
        Judges(options) as judges,
        progress() as shown,
        NewestReleases(options, shown) as releases,
    ):
        for number, word in enumerate(words, 1):
            shown.status(f"reporting {one_line(word)}, {number} of {len(words)}")
            said = partial(_say_step, shown, one_line(word))
            document = report_word(word, judges, out, form, known, said, as_test, releases)
            shown.note(_what_next(one_line(word), document))
            yield document


def _requests(options: CaseOptions, out: Path) -> Iterator[Document]:
    """A request for each target of which the database holds declared limits."""
    from corpus.errors import UserError
    from triage.cases.sources import Judges
    from triage.console.status import progress
    from triage.reductions.failures import reduced_limits
    from triage.reports.limit_request import write_request
    from triage.store.database import open_existing

    with open_existing(options.database) as store, Judges(options) as judges, progress() as shown:
        by_target = reduced_limits(store, judges, shown)
        if not by_target:
            raise UserError(f"{options.database}: no compiler declared a limit here")
        for found in by_target.values():
            document = write_request(store, found, judges.of, out)
            issue = quoted(f"{document['folder']}/issue.md")
            shown.note(f"{document['target']}: next: read {issue}, file it once")
            yield document


def _say_step(shown: Progress, word: str, text: str) -> None:
    shown.note(f"{word}: {text}")


def _what_next(word: str, document: Document) -> str:
    """Say what to do with the report."""
    if document["state"] == "not a bug":
        return f"{word}: no bug, the model is invalid; {document['page']} says what to change"
    issue = quoted(f"{document['folder']}/issue.md")
    if document.get("fixed"):
        return f"{word}: {document['state']}, nothing to file; {issue} says what it was"
    if document["state"] == "known":
        where = document["issue"] or f"as {document['known']}"
        return f"{word}: known; next: read {issue}, comment at {where} if it says more"
    if document["state"] == "ready":
        return f"{word}: ready; next: read {issue}, file it and attach {quoted(document['zip'])}"
    return f"{word}: not ready, the list in {issue} says why"


def _written(
    options: CaseOptions,
    ids: list[str],
    page: Path | None,
    sarif: Path | None,
    quality: Path | None,
    known: str,
) -> Document:
    """Write what the database holds, without a run."""
    from importlib.metadata import version

    from triage.bugs.known import load_known
    from triage.pages.bugs import write_bug_page
    from triage.pages.campaign import write_campaign_page
    from triage.pages.sarif import write_code_quality, write_sarif
    from triage.store.database import open_to_read
    from triage.store.names import cluster_name, live_cluster

    doing("drawing the page")
    with open_to_read(options.database) as store:
        chosen = [cluster_name(live_cluster(store, each)) for each in ids]
        issues = load_known(store.path, known)
        found = {"page": str(write_bug_page(store, page, issues, chosen)) if page else ""}
        if page and not chosen:
            found["campaign"] = str(write_campaign_page(store, page, issues) or "")
        if sarif:
            write_sarif(store, sarif, issues, version("tensorcrux"), chosen)
        if quality:
            write_code_quality(store, quality, issues, chosen)
        return {**found, "sarif": str(sarif or ""), "code_quality": str(quality or "")}


def _show_written(documents: list[Document]) -> Table:
    (found,) = documents
    return table(("", "written"), [(what, path) for what, path in found.items() if path])


def _show(documents: list[Document]) -> Table:
    rows = [(one_line(each["id"]), each["state"], each["title"], each["folder"]) for each in documents]
    return table(("id", "state", "title", "folder"), rows)
