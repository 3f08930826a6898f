"""`crux report`: issue-ready bundles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.options import CaseOptions, as_command
from triage.output import Document, emit, say, table

if TYPE_CHECKING:
    from rich.table import Table

Ids = Annotated[
    list[str], typer.Argument(metavar="ID…", help="Clusters, failures or cases of the database, or folders.")
]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the bundles go.")]
For = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="PROJECT",
        help="Whose form: onnxruntime, tvm, pytorch or general. (default: the target's)",
    ),
]
Known = Annotated[
    Path | None, typer.Option("--known", metavar="FILE", help="Known issues of your own, a .toml file.")
]


def add_to(app: typer.Typer) -> None:
    app.command("report")(as_command(CaseOptions, report))


def report(options: CaseOptions, ids: Ids, out: Out, for_: For = "", known: Known = None) -> int:
    """Write a bundle for each bug: an issue, a script that shows it, the model, the evidence; and its zip.

    Example: crux report C0001 -o reports
    """
    emit(_reports(options, ids, out, for_, known), as_json=options.json, show=_show, single=len(ids) == 1)
    return 0


def _reports(
    options: CaseOptions, words: list[str], out: Path, form: str, known: Path | None
) -> Iterator[Document]:
    from triage.judging import Judges
    from triage.reporting import report_word

    with Judges(options) as judges:
        for word in words:
            document = report_word(word, options, judges, out, form, known)
            if not document["ready"]:
                say(f"crux: {word}: not ready, see the list in {document['folder']}/issue.md")
            yield document


def _show(documents: list[Document]) -> Table:
    rows = [
        (each["id"], "yes" if each["ready"] else "NO", each["title"], each["folder"]) for each in documents
    ]
    return table(("id", "ready", "title", "folder"), rows)
