"""`crux replay`: the regression corpus on the installed release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, in_columns, quoted, say

Cases = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[CASE…]", help="Folders with an expected.json. (default: the corpus)"),
]
Record = Annotated[bool, typer.Option("--record", help="Write what is seen now into expected.json.")]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report, too.")]


_show = in_columns(
    {
        "case": "case",
        "release": "release",
        "status": "status",
        "expected": "expected",
        "what was seen": "seen",
    }
)


@command(CaseOptions, unsaid=("inputs",))
def replay(options: CaseOptions, cases: Cases = None, record: Record = False, junit: JUnit = None) -> int:
    """Run the regression corpus; exit code 1 when a case differs from what its release should show.

    A release that a case says nothing about is `new`: it is told, and is no difference.

    Example: crux replay --junit replay.xml
    """
    documents = emit(_replays(options, cases, record), as_json=options.json, show=_show)
    if junit is not None:
        from triage.cases.replaying import write_junit

        write_junit(junit, documents)
    different = sum(document["status"] == "differs" for document in documents)
    say(f"{len(documents)} cases, {different} differ")
    if different:
        first = quoted(next(str(each["case"]) for each in documents if each["status"] == "differs"))
        say(f"next: crux check {first}, and crux replay --record {first} where what it shows now is right")
    return 1 if different else 0


def _replays(options: CaseOptions, cases: list[Path] | None, record: bool) -> Iterator[Document]:
    from corpus.load import load_regression, load_regressions
    from triage.cases.replaying import record_release, replay_one
    from triage.cases.sources import Judges

    with Judges(options) as judges:
        if record:
            for folder in cases or ():
                yield record_release(folder, options, judges)
            return
        chosen = map(load_regression, cases) if cases else load_regressions()
        for regression in chosen:
            target = options.target_of(regression.case.target)
            yield replay_one(regression, judges.of(target, regression.case.format))
