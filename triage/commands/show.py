"""`crux show`: a case in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, one_line, printable, quoted, say

if TYPE_CHECKING:
    from rich.console import RenderableType

Case = Annotated[str, typer.Argument(metavar="CASE", help="A file, a case folder or an id.")]


@command(CaseOptions)
def show(options: CaseOptions, case: Case) -> int:
    """Print a case: its operators, its graph as text, its inputs.

    Example: crux show C0001
    """
    emit(_documents(options, case), as_json=options.json, show=_show, single=True)
    say(f"next: crux check {quoted(case)}")
    return 0


def _documents(options: CaseOptions, word: str) -> Iterator[Document]:
    from triage.cases.sources import open_one
    from triage.language import list_case
    from triage.views.listing import describe_values

    case = open_one(word, options)
    size = case.measure
    yield {
        "case": word,
        "case_id": case.case_id,
        "format": case.format,
        "target": str(case.target or ""),
        "settings": dict(case.settings),
        "origin": case.origin,
        "nodes": size.nodes,
        "function_nodes": size.function_nodes,
        "bytes": size.bytes,
        "ops": list(size.ops),
        "notes": list(case.notes),
        "inputs": describe_values(case.inputs),
        "text": list_case(case),
    }


def _show(documents: list[Document]) -> RenderableType:
    from rich.text import Text

    from corpus.formats import find_format

    (case,) = documents
    facts = [f"case    {case['case_id']}", f"target  {case['target']}"]
    facts += [f"origin  {case['origin']}"] if case["origin"] else []
    facts += [f"size    {case['nodes']} {find_format(case['format']).unit}, {case['bytes']} bytes"]
    facts += [f"{name:7} {value}" for name, value in case["settings"].items()]
    values = [f"  {name} = {text}" for name, text in case["inputs"].items()]
    inputs = ["inputs:", *values] if values else ["inputs: none"]
    inputs += case["notes"]
    return Text(
        "\n".join([*map(one_line, facts), "", printable(case["text"].rstrip()), "", *map(one_line, inputs)])
    )
