"""`crux bisect`: the first bad release, the last good one, the one that mended it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import CaseOptions, command, next_command
from triage.console.output import Document, emit, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

Case = Annotated[str, typer.Argument(metavar="CASE", help="A file, a case folder or an id.")]
Package = Annotated[
    str, typer.Option("--package", help="Such as onnxruntime. (default: what the target runs)")
]
Versions = Annotated[
    str, typer.Option("--versions", metavar="A..B", help="Both included; an end may be empty.")
]
SeenOn = Annotated[
    str, typer.Option("--seen-on", metavar="VERSION", help="Where it is known to fail. (default: the newest)")
]
Repeat = Annotated[int, typer.Option("--repeat", help="Judge each release this many times.", min=1)]


@command(CaseOptions)
def bisect(
    options: CaseOptions,
    case: Case,
    package: Package = "",
    versions: Versions = "..",
    seen_on: SeenOn = "",
    repeat: Repeat = 1,
) -> int:
    """Find the releases between which a failure came and went, with real wheels from the package index.

    Example: crux bisect C0001 --package onnxruntime --versions 1.15.0..1.31.1
    """
    from dataclasses import replace

    from corpus.target import Range
    from oracles.backends import find_backend
    from triage.bisection.bisection import Settings, bisect_case, found_on, is_kept, target_for
    from triage.cases.sources import open_to_run
    from triage.console.status import progress

    opened = open_to_run(case, options)
    assert opened.target is not None
    package = package or find_backend(opened.target.backend).package
    opened = replace(opened, target=target_for(package, opened.target))
    settings = Settings(package, Range.parse(versions), seen_on or found_on(case, options), repeat)
    with progress() as shown:
        database = options.database if options.db or is_kept(case) else None
        document = bisect_case(opened, options, settings, shown, database)
    _must_have_tried(case, package, document)
    if document["first_bad"] is None:
        say(f"crux: {case}: it fails on none of the releases that were tried")
    emit(iter([{"case": case, **document}]), as_json=options.json, show=_show, single=True)
    words = f"report {quoted(case)} -o crux-report"
    say(f"next: {next_command(words, options)}")
    return 0


def _must_have_tried(case: str, package: str, document: Document) -> None:
    from corpus.errors import UserError

    if not document["tried"]:
        skipped = [f" ({each['release']}: {each['why']})" for each in document["skipped"][-1:]]
        raise UserError(
            f"{case}: no release of {package} could be tried{''.join(skipped)}; name others with --versions"
        )


def _show(documents: list[Document]) -> Table:
    (found,) = documents
    from triage.views.listing import release_line, release_text

    rows = [(name.replace("_", " "), found[name] or "-") for name in ("title", *ANSWERS)]
    rows.append(("x shows it", release_text(release_line(found))))
    rows += [(each["release"], f"{each['shows']}: {each['title']}") for each in found["tried"]]
    rows += [(each["release"], f"skipped: {each['why']}") for each in found["skipped"]]
    return table((found["package"], ""), rows)


ANSWERS = ("last_good", "first_bad", "last_bad", "first_fixed")
