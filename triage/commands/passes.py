"""`crux passes`: the minimal pass set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

Case = Annotated[str, typer.Argument(metavar="CASE", help="A file, a case folder or an id.")]


@command(CaseOptions)
def passes(options: CaseOptions, case: Case) -> int:
    """The fewest optimiser passes under which a failure shows; exit code 1 when it does not show.

    Example: crux passes model.onnx --target ort
    """
    from triage.cases.patterns import find_passes

    document = find_passes(case, options)
    if document is None:
        say(f"crux: {case}: the failure does not show, there is no pass to blame")
        return 1
    emit(iter([document]), as_json=options.json, show=_show, single=True)
    say(f"next: crux report {quoted(case)} -o crux-report")
    return 0


def _show(documents: list[Document]) -> Table:
    (document,) = documents
    rows = [
        ("symptom", document["symptom"]),
        ("optimisation level", document["level"]),
        ("minimal pass set", " ".join(document["minimal"]) or _none(document)),
        ("unique", "yes" if document["unique"] else "no, other passes can stand in for some of these"),
        ("goes away without", " or ".join(document["cures"]) or "-"),
        ("fired", " ".join(document["fired"]) or "-"),
        ("checks", document["checks"]),
    ]
    return table(("what", "answer"), rows)


def _none(document: Document) -> str:
    if document["beyond_passes"]:
        return "(none: it shows with every pass disabled that can be)"
    return "(none: it shows without optimisation)"
