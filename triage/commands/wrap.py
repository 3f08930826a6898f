"""`crux wrap -- CMD`: runs a user's program; a `torch.compile` that fails in it becomes a case.

It is torch's own way (`TORCHDYNAMO_REPRO_AFTER`): the program runs as it is, outside of the sandbox, as the
user would run it; only the folder where torch writes its dumps is ours.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, in_columns, quoted, say

Command = Annotated[
    list[str], typer.Argument(metavar="-- CMD…", help="The program and its arguments, behind two dashes.")
]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the cases go.")]
Catch = Annotated[
    str,
    typer.Option(
        "--catch",
        metavar="KIND",
        help="errors; all: keeps each graph before it is compiled, so that one which ends the process or"
        " gives wrong values is found as well.",
    ),
]


_show = in_columns({"case": "case", "outcome": "outcome", "phase": "phase", "what was seen": "title"})


@command(CaseOptions, unsaid=("inputs",))
def wrap(
    options: CaseOptions, command: Command, out: Out = Path("crux-caught"), catch: Catch = "errors"
) -> int:
    """Run a program of yours; each graph on which torch.compile fails in it becomes a case, and is judged.

    The exit code is 1 when a case shows a bug, whatever the program's own is.

    Example: crux wrap -- python train.py
    """
    from triage.cases.sources import run_wrapped

    target = options.target_of(None, "inductor")
    ended = run_wrapped(command, out, catch)
    found = _verdicts(options, ended.cases_of(target, options.limits))
    documents = emit(found, as_json=options.json, show=_show)
    say(f"crux: {ended.sentence(len(documents))}")
    failing = [document["case"] for document in documents if document["bug"]]
    if failing:
        say(f"next: crux reduce {quoted(str(failing[0]))} -o crux-small")
    elif documents:
        say(
            "next: run your program with the newest torch; none of its graphs fails when it is compiled alone"
        )
    elif catch == "errors":
        say(f"next: crux wrap --catch all -- {shlex.join(command)}")
    return 1 if failing else 0


def _verdicts(options: CaseOptions, folders: Iterator[Path]) -> Iterator[Document]:
    from triage.cases.sources import Judges, judge_often

    with Judges(options) as judges:
        for folder in folders:
            case, judge = judges.open(str(folder))
            _, document = judge_often(judge, case, 1)
            yield {"case": str(folder), **document}
