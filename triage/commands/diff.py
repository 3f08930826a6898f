"""`crux diff`: what two cases differ in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, one_line, quoted, say

if TYPE_CHECKING:
    from rich.console import RenderableType

First = Annotated[str, typer.Argument(metavar="A", help="A file, a case folder or an id.")]
Second = Annotated[str, typer.Argument(metavar="B", help="Another one.")]
Out = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="DIR", help="Draw both graphs there: a.svg and b.svg.")
]


@command(CaseOptions)
def diff(options: CaseOptions, first: First, second: Second, out: Out = None) -> int:
    """Say what two cases differ in: operators, attributes, types, weights, inputs, settings.

    Example: crux diff C0001 F00012 -o pictures
    """
    emit(_documents(options, first, second, out), as_json=options.json, show=_show, single=True)
    say(f"next: crux check {quoted(first)} {quoted(second)}")
    return 0


def _documents(options: CaseOptions, first: str, second: str, out: Path | None) -> Iterator[Document]:
    from triage.cases.sources import open_one
    from triage.pages.differences import describe_differences, draw_differences

    one, other = (open_one(word, options) for word in (first, second))
    pictures = draw_differences(one, other, out) if out else []
    yield {"a": first, "b": second, **describe_differences(one, other), "pictures": pictures}


def _show(documents: list[Document]) -> RenderableType:
    from rich.text import Text

    (found,) = documents
    alike = "the same but for names" if found["same_but_for_names"] else "different programs"
    lines = [f"A  {found['a']}", f"B  {found['b']}", "the same case" if found["same_case"] else alike]
    more = [f"… and {found['more']} more"] if found["more"] else []
    return Text("\n".join(map(one_line, [*lines, *found["words"], *more, *found["pictures"]])))
