"""`crux scrub`: the code in an issue's text or a file becomes cases, and the first that fails is reduced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import CaseOptions, command, next_command
from triage.console.output import Document, emit, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

    from triage.cases.scrubbing import Scrubbed
    from triage.cases.sources import Judges
    from triage.reductions.folders import Request

File = Annotated[Path, typer.Argument(metavar="FILE", help="An issue's text or a script.")]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the cases go.")]
Prints = Annotated[
    str,
    typer.Option("--prints", metavar="REGEX", help="It fails if it prints this."),
]
KeepAll = Annotated[bool, typer.Option("--cases-only", help="Reduce nothing.")]
Minutes = Annotated[
    float | None, typer.Option("--minutes", metavar="M", help="Stop reducing after so long.", min=0.01)
]


@command(CaseOptions, unsaid=("inputs", "dims"))
def scrub(
    options: CaseOptions,
    file: File,
    out: Out = Path("crux-scrubbed"),
    prints: Prints = "",
    cases_only: KeepAll = False,
    minutes: Minutes = None,
) -> int:
    """Run the code of an issue or a script contained, make cases of what it compiles, reduce what fails.

    Where no case fails alone, the script is reduced as text. Exit code 1 when nothing fails.

    Example: crux scrub issue.md --trust
    """
    from corpus.outputs import must_be_empty
    from triage.cases.scrubbing import take
    from triage.cases.sources import Judges
    from triage.reductions.folders import Request

    must_be_empty(out)
    taken = take(file, options, prints)
    _tell(taken, out)
    with Judges(options) as judges:
        cases = list(_judged(taken, out, judges))
        chosen = taken.likeliest(cases)
        reduced = None
        if not cases_only and chosen is not None:
            reduced = _reduce_case(chosen["case"], out / "reduced", judges, Request(minutes))
    if not cases_only and chosen is None and taken.complaint:
        reduced = _reduce_text(taken, out, options, prints, minutes)
    complaint = {"kind": taken.complaint.kind, "text": taken.complaint.text}
    document = {"file": str(file), "complaint": complaint, "notes": taken.notes, "cases": cases}
    emit(iter([{**document, "reduced": reduced}]), as_json=options.json, show=_show, single=True)
    if chosen is not None:
        words = f"reduce {quoted(chosen['case'])} -o crux-small"
        if reduced is not None:
            words = f"report {quoted(str(out / 'reduced'))} -o crux-report"
        say(f"next: {next_command(words, options)}")
    return 0 if chosen or taken.complaint else 1


def _tell(taken: Scrubbed, out: Path) -> None:
    """Keep the script, and say what was changed in it and what it complains of."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "script.py").write_text(taken.script, encoding="utf-8")
    for note in taken.notes:
        say(f"crux: {note}")
    say(f"crux: taken for the failure: {taken.complaint.title}")


def _judged(taken: Scrubbed, out: Path, judges: Judges) -> Iterator[Document]:
    """Save and judge the cases, the likeliest first; one that fails as the script does ends it."""
    from triage.cases.sources import judge_often

    for number, case in enumerate(taken.cases, 1):
        folder = out / f"case-{number}"
        case.save(folder)
        _, document = judge_often(judges.of_case(case), case, 1)
        yield {"case": str(folder), **document}
        if document["bug"] and taken.fits(document["outcome"]):
            return


def _reduce_case(word: str, out: Path, judges: Judges, request: Request) -> Document | None:
    from reducer.course import DoesNotFail
    from triage.console.status import progress
    from triage.reductions.folders import reduce_into, reducer_options

    case, judge = judges.open(word)
    settings = reducer_options(judges.options, judge.target, request)
    with progress() as shown:
        try:
            return reduce_into(case, out, settings, shown, judge=judge)[0]
        except DoesNotFail:
            say(f"crux: {word}: the failure does not show a second time; it is kept as it is")
            return None


def _reduce_text(
    taken: Scrubbed, out: Path, options: CaseOptions, prints: str, minutes: float | None
) -> Document:
    """Reduce the script itself, which showed a failure that none of its cases has."""
    from reducer.scripts import Exhausted, ScriptReducer
    from triage.cases.scrubbing import run_of
    from triage.console.status import progress

    ends = time.monotonic() + 60 * (minutes or float("inf"))
    with progress() as shown:

        def shows(text: str) -> bool:
            if time.monotonic() > ends:
                raise Exhausted
            shown.status(
                f"reducing the script: {reducer.checks} checks, {len(reducer.text.splitlines())} lines"
            )
            with run_of(text, options, taken.beside) as run:
                return run.complaint(prints).symptom == taken.complaint.symptom

        reducer = ScriptReducer(taken.script, shows)
        text = reducer.run()
    (out / "reduced.py").write_text(text + "\n", encoding="utf-8")
    lines = len(taken.script.splitlines()), len(text.splitlines())
    say(f"crux: no case of it fails alone, so the script was reduced: {lines[0]} → {lines[1]} lines")
    return {
        **{"script": str(out / "reduced.py"), "lines_before": lines[0], "lines_after": lines[1]},
        **{"checks": reducer.checks, "minimal": reducer.minimal, "symptom": taken.complaint.symptom},
    }


def _show(documents: list[Document]) -> Table:
    (taken,) = documents
    rows = [
        (each["case"], each["target"], each["outcome"], each["phase"], each["title"])
        for each in taken["cases"]
    ]
    reduced = taken["reduced"]
    if reduced and "script" in reduced:
        rows.append(
            (reduced["script"], "", "", "", f"{reduced['lines_after']} lines, {reduced['checks']} checks")
        )
    elif reduced:
        words = f"{reduced['nodes_before']} → {reduced['nodes_after']} nodes, {reduced['checks']} checks"
        rows.append(("reduced", "", "", "", words))
    return table(("case", "target", "outcome", "phase", "what was seen"), rows)
