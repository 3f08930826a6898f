"""`crux doctor`: check what is installed, whether it works, and what to do if not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import StoreOptions, command
from triage.console.output import Document, emit, say, table

if TYPE_CHECKING:
    from rich.table import Table

Backend = Annotated[
    str,
    typer.Option("--backend", metavar="NAME", help="Try on one backend what each must do."),
]


@command(StoreOptions)
def doctor(options: StoreOptions, backend: Backend = "") -> int:
    """Try every part: packages, targets, sandbox, database; exit code 1 when a core part is broken.

    Example: crux doctor
    """
    found = emit(_findings(options, backend), as_json=options.json, show=_show)
    broken = [each for each in found if each["core"] and not each["works"]]
    say(
        f"next: {broken[0]['advice'] or 'see docs/troubleshooting.md'}"
        if broken
        else f"next: crux check model.onnx{f' --target {backend}' if backend else ''}"
    )
    return 1 if broken else 0


def _findings(options: StoreOptions, backend: str) -> Iterator[Document]:
    from triage.doctor import examine_backend, examine_system

    found = examine_backend(backend) if backend else examine_system(options.database)
    for finding in found:
        yield {name: getattr(finding, name) for name in ("part", "works", "text", "core", "advice")}


def _show(documents: list[Document]) -> Table:
    def state(finding: Document) -> str:
        return "ok" if finding["works"] else "BROKEN" if finding["core"] else "no"

    rows = [(each["part"], state(each), each["text"], each["advice"]) for each in documents]
    return table(("part", "", "", "what to do"), rows)
