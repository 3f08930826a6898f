"""`crux check`: one verdict for each case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.foot import doing
from triage.console.options import CaseOptions, command, next_command
from triage.console.output import Document, emit, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

    from corpus.case import Case
    from oracles.judge import Judge
    from oracles.verdict import Verdict

Cases = Annotated[
    list[str], typer.Argument(metavar="CASE…", help="Files, case folders, ids, or - for JSON lines.")
]
Repeat = Annotated[int, typer.Option("--repeat", help="Judge each case this many times.", min=1)]

Locate = Annotated[
    bool, typer.Option("--locate", help="Of a wrong value, the first wrong tensor and what was right before.")
]


Past = Annotated[
    bool,
    typer.Option("--past", help="Cut out what stops a model, such as a known bug, and judge what follows."),
]
Targets = Annotated[
    str, typer.Option("--targets", metavar="A,B,…", help="Several targets at once: which one stands alone?")
]


@command(CaseOptions, heeded=("symptom",))
def check(
    options: CaseOptions,
    cases: Cases,
    repeat: Repeat = 1,
    locate: Locate = False,
    past: Past = False,
    targets: Targets = "",
) -> int:
    """Judge cases; exit code 1 when one of them shows a bug.

    Example: crux check model.onnx --target ort
    """
    single = len(cases) == 1 and cases != ["-"]
    troubles: list[str] = []
    if targets:
        found = _compared(options, cases, targets)
    else:
        found = _verdicts(options, cases, repeat, locate, past, troubles)
    documents = emit(found, as_json=options.json, show=_show, single=single, lines_if_piped=True)
    for trouble in troubles:  # the verdicts are out by now
        say(f"crux: {trouble}")
    failing = [document for document in documents if document["bug"]]
    if failing:
        words = f"reduce {quoted(str(failing[0]['case']))} -o crux-small"
        say(f"next: {next_command(words, _as_judged(options, failing[0]))}")
    return 1 if failing else 2 if troubles else 0


def _as_judged(options: CaseOptions, document: Document) -> CaseOptions:
    """The options for one case by itself: of several targets the one that stands alone."""
    from dataclasses import replace

    return replace(options, target=str(document["target"]) if "targets" in document else options.target)


def _verdicts(
    options: CaseOptions, words: list[str], repeat: int, locate: bool, past: bool, troubles: list[str]
) -> Iterator[Document]:
    """Yield each case's document; say in `troubles` what cannot be stored, the verdict goes out all the
    same.
    """
    import sqlite3

    from corpus.errors import UserError
    from oracles.judge import MANY, in_short
    from triage.cases.sources import Judges
    from triage.console.output import disk_complaint

    with in_short(MANY if words == ["-"] else len(words) * repeat), Judges(options) as judges:
        judges.begin(words[0])
        from triage.cases.sources import bounded, each_named, judge_often, open_one

        for word in each_named(words):
            doing(f"checking {word}")
            with bounded(options.timeout, word, repeat):
                case = open_one(word, options, judges)
                judge = judges.of_case(case)
                verdict, document = judge_often(judge, case, repeat)
            if locate:
                from triage.store.artifacts import located_document

                document["located"] = located_document(verdict.wrong)
            document |= _past(options, case, verdict, judge) if past else {}
            document["notes"] += _remarks(case)
            try:
                if options.db:
                    document |= _kept(options, case, verdict, judge.release)
            except (OSError, sqlite3.Error, UserError) as error:
                troubles.append(disk_complaint(error) or " ".join(str(error).split()))
            yield {"case": word, **document}


def _remarks(case: Case) -> Iterator[str]:
    """What was changed about a case so that it can be judged."""
    from corpus.case import Remark

    for kind in (Remark.CHANGED, Remark.FREED, Remark.FITTED, Remark.UNFIT):
        yield from map(kind.note, case.remarks(kind))


def _past(options: CaseOptions, case: Case, verdict: Verdict, judge: Judge) -> Document:
    """What stops the program, step by step, and what becomes of the rest; `bug` is that of any step."""
    from oracles.naming import signature
    from oracles.verdict import Outcome
    from triage.bugs.known import known_issue, load_known
    from triage.cases.replaying import Stop, stops_in

    issues, steps, rest = load_known(options.database), [], verdict
    for each in stops_in(case, judge, verdict):
        if not isinstance(each, Stop):
            rest = each
            break
        at = each.alone or each.case
        found = each.verdict
        named = (signature(found, at.measure, at),) if found.is_bug else ()
        known = known_issue(issues, named, (judge.release,))
        steps.append(
            {
                "node": each.node,
                "op": each.operator,
                "outcome": found.outcome.value,
                "title": found.title,
                "limit": each.is_limit,
                "known": known.id if known else "",
            }
        )
    is_bug = verdict.is_bug or rest.is_bug or any(Outcome(str(each["outcome"])).is_bug for each in steps)
    behind = {"outcome": rest.outcome.value, "title": rest.title}
    return {"past": steps, "behind": behind, "bug": is_bug}


def _kept(options: CaseOptions, case: Case, verdict: Verdict, release: str) -> Document:
    """Store a verdict; the id of the failure, if it is one. What stores failures is dear to import."""
    from triage.reductions.folders import keep
    from triage.store.artifacts import note

    assert options.db is not None
    note(options.db, case, verdict, release)
    return {"id": keep(options, case, verdict, release)} if verdict.is_bug else {}


def _compared(options: CaseOptions, words: list[str], names: str) -> Iterator[Document]:
    """Yield for each case what every target does with it."""
    from corpus.errors import UserError
    from corpus.target import Target
    from oracles.backends import find_backend
    from triage.cases.sources import Judges

    if options.target:
        raise UserError("--target and --targets: give one of the two")
    targets = [Target.parse(name.strip()) for name in names.split(",") if name.strip()]
    for target in targets:
        find_backend(target.backend)
    if len(targets) < 2:
        raise UserError(f"--targets {names!r}: name several, such as ort,tvm,reference")
    with Judges(options) as judges:
        from triage.cases.replaying import compare_sides
        from triage.cases.sources import bounded, each_named, open_one

        for word in each_named(words):
            with bounded(options.timeout, word, len(targets)):
                found = compare_sides(open_one(word, options, judges), targets, judges)
            yield {"case": word, **found}


def _show(documents: list[Document]) -> Table:
    columns = ("case", "outcome", "phase", "what was seen")
    rows = [(each["case"], each["outcome"], each["phase"], _seen(each)) for each in documents]
    return table(columns, rows)


def _seen(document: Document) -> str:
    """Describe what was seen: by target if there are several, with the first wrong tensor if asked for."""
    if "targets" in document:
        lines = [f"{each['target']}: {each['outcome']}, {each['title']}" for each in document["targets"]]
        return "\n".join([*lines, f"{document['alone']} stands alone"] if document["alone"] else lines)
    if steps := document.get("past"):
        lines = []
        for each in steps:
            what = "a limit, " if each["limit"] else f"known as {each['known']}, " if each["known"] else ""
            lines.append(f"{each['op']} ({each['node']}): {what}{each['title']}")
        return "\n".join([*lines, f"behind: {document['behind']['title']}"])
    found = document.get("located")
    if not found:
        return str(document["title"])
    right = ", ".join(found["right_until"]) or "the weights"
    error = found["error"] if isinstance(found["error"], str) else f"{found['error']:.3g}"
    maker = f"made by {found['op']} ({found['node']}), off by {error}"
    where = f"right until {right}; first wrong: {found['tensor']}, {maker}"
    return "\n".join([str(document["title"]), where, *_map(document["wrong"])])


def _map(wrong: Document) -> list[str]:
    """The error over the output as lines."""
    from triage.views.listing import legend

    rows = wrong["map"]
    return [f"the error over {wrong['output']} ({legend(rows)}):", *rows] if rows else []
