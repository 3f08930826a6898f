"""`crux reduce`: the smallest case."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import CaseOptions, command, next_command, rare
from triage.console.output import Document, emit, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

    from triage.cases.sources import Judges
    from triage.reductions.folders import Request

Case = Annotated[str | None, typer.Argument(metavar="CASE", help="A file, a case folder or an id.")]
Out = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where the case and the journal go.")
]
All = Annotated[bool, typer.Option("--all", help="Reduce every un-reduced failure of the database.")]
Again = Annotated[
    bool, typer.Option("--again", help="With --all: decide anew what an older crux decided; ids live on.")
]
Check = Annotated[
    str | None,
    typer.Option("--check", metavar="CMD", help="Judge by a command; {} is the candidate's model.onnx."),
]
CheckExit = Annotated[int, rare("--check-exit", "N", "The exit code of --check that means interesting.")]
Also = Annotated[
    str | None, typer.Option("--also", metavar="CMD", help="A command that must exit with 0 as well.")
]
Minutes = Annotated[
    float | None,
    typer.Option(
        "--minutes",
        metavar="M",
        help="Stop after so long, best so far; with --all no other is begun then.",
        min=0.01,
    ),
]
MaxChecks = Annotated[
    int | None, typer.Option("--max-checks", metavar="N", help="Stop after N checks.", min=1)
]

Private = Annotated[
    bool,
    typer.Option("--private", help="Leave nothing of the original: no names, strings or runs of values."),
]

Thorough = Annotated[
    bool, rare("--thorough", None, "At the end ask for every subset of few nodes, whatever it takes.")
]


@command(CaseOptions, heeded=("symptom",))
def reduce(
    options: CaseOptions,
    case: Case = None,
    out: Out = None,
    all_failures: All = False,
    again: Again = False,
    check: Check = None,
    check_exit: CheckExit = 0,
    also: Also = None,
    minutes: Minutes = None,
    max_checks: MaxChecks = None,
    private: Private = False,
    thorough: Thorough = False,
) -> int:
    """Shrink a failing case while it keeps its symptom; exit code 1 when the failure does not show.

    An interrupted reduction goes on where it was when the same command is given again.

    Example: crux reduce model.onnx -o smallest
    """
    from corpus.errors import UserError
    from triage.reductions.folders import Request

    request = Request(minutes, max_checks, check, check_exit, also, private, thorough)
    if all_failures:
        if case or out or check or also or private:
            raise UserError(
                "reduce --all: takes no CASE, -o, --check, --also or --private;"
                " results go into the database, beside the originals"
            )
        if again:
            _reopen(options)
        emit(_reduce_all(options, request), as_json=options.json, show=_show, lines_if_piped=True)
        return 0
    if again:
        raise UserError("reduce --again: goes with --all")
    if case is None or out is None:
        raise UserError("reduce: name a CASE and, with -o DIR, where the result goes (or give --all)")
    return _reduce_one(options, case, out, request)


def _reduce_one(options: CaseOptions, word: str, out: Path, request: Request) -> int:
    from triage.cases.sources import Judges

    try:
        with Judges(options) as judges:
            judges.begin(word)
            return _reduce_with(judges, word, out, request)
    except KeyboardInterrupt:
        from reducer.result import NAME

        if (out / NAME).is_file():
            raise
        raise KeyboardInterrupt(f"{word} was not seen to fail yet, so there is no result") from None


def _reduce_with(judges: Judges, word: str, out: Path, request: Request) -> int:
    from reducer.course import DoesNotFail
    from triage.console.status import progress
    from triage.pages.differences import NAME as PAGE
    from triage.pages.differences import write_page
    from triage.reductions.folders import reduce_into, reducer_options

    options = judges.options
    case, judge = judges.open(word)
    settings = reducer_options(options, judge.target, request)
    try:
        with progress() as shown:
            document, done = reduce_into(case, out, settings, shown, judge=judge)
    except DoesNotFail:
        say(f"crux: {word}: the failure does not show, there is nothing to reduce")
        return 1
    if done is not None or not (out / PAGE).is_file():
        write_page(out, None if request.private else case)
    for text in document.get("words_left", ()):
        say(f"crux: the failure needs {text!r} of the original: look at it before you share {out}")
    emit(iter([document]), as_json=options.json, show=_show, single=True, lines_if_piped=True)
    if not request.check:
        from dataclasses import replace

        words = f"report {quoted(str(out))} -o crux-report"
        say(f"next: {next_command(words, replace(options, inputs=None, dims='', seed=None))}")
    return 0


def _reduce_all(options: CaseOptions, request: Request) -> Iterator[Document]:
    from corpus.errors import UserError
    from triage.cases.sources import Judges
    from triage.console.status import progress
    from triage.reductions.explained import Explainer, waiting
    from triage.reductions.failures import reduce_failure
    from triage.store.database import open_existing
    from triage.store.failures import NEW, get_failure, why_set_aside

    deadline = time.monotonic() + 60 * (request.minutes or float("inf"))
    explainers: dict[tuple[str, str], Explainer] = {}
    with open_existing(options.database) as store, Judges(options) as judges, progress() as shown:
        for failure in waiting(store):
            if time.monotonic() >= deadline:
                return
            try:
                judge = judges.of_failure(store, failure)
            except UserError as error:
                shown.note(f"{failure.name} is left: {error}")
                continue
            fresh = Explainer(store, failure.target, judge)
            explainer = explainers.setdefault((failure.target, judge.format), fresh)
            for explained, found in explainer.run():
                bug = found.bug.name if found.bug else ""
                shown.note(f"{explained.name} explained by {bug}: {found.why}")
            if get_failure(store, failure.id).status != NEW:
                continue
            try:
                after, document = reduce_failure(store, failure, options, request, shown, judge)
            except UserError as error:
                shown.note(f"{failure.name} is left: {error}")
                continue
            explainer.hold_to_sample(failure.id)
            if document is None:
                shown.note(f"{failure.name} is left: {why_set_aside(store, failure.id)}")
            else:
                yield {"id": failure.name, "cluster": after.cluster_name, **document}


def _reopen(options: CaseOptions) -> None:
    """Let wait again what older editions decided."""
    from triage.store.causes import old_decisions, reopen
    from triage.store.database import open_existing

    with open_existing(options.database) as store:
        old = old_decisions(store)
        reopen(store, old)
    say(f"{len(old)} failures of an older crux are decided anew")


def _show(documents: list[Document]) -> Table:
    from reducer.result import all_nodes

    columns = ("id", "nodes", "bytes", "checks", "seconds", "1-minimal", "symptom")
    rows = [
        (
            each.get("id", ""),
            f"{all_nodes(each, 'before')} → {all_nodes(each, 'after')}",
            f"{each['bytes_before']:,} → {each['bytes_after']:,}",
            each["checks"],
            each["seconds"],
            "yes" if each["minimal"] else "no",
            each["symptom"],
        )
        for each in documents
    ]
    return table(columns, rows)
