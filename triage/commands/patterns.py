"""`crux patterns`: optimisation patterns out of a compiler's documented tests, and those that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from triage.console.options import CaseOptions, StoreOptions, as_command
from triage.console.output import emit, in_columns, in_rows, quoted, say

Tests = Annotated[Path, typer.Argument(metavar="TESTS_DIR", help="A directory of .onnx files and tests.")]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the patterns go.")]
Most = Annotated[int, typer.Option("--most", metavar="N", help="Patterns of one pass, at most.", min=1)]
Source = Annotated[
    Path | None,
    typer.Option("--from", metavar="DIR", help="A folder of patterns. (default: the shipped ones)"),
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(no_args_is_help=True, help="Optimisation patterns from documented tests.")
    group.command("extract")(as_command(CaseOptions, extract, unsaid=("inputs",)))
    group.command("list")(as_command(StoreOptions, list_patterns))
    app.add_typer(group, name="patterns")


def extract(options: CaseOptions, tests: Tests, out: Out = Path("crux-patterns"), most: Most = 10) -> int:
    """Take out of documented tests the least graphs on which passes of the optimiser fire.

    Reads every .onnx file below the directory; Python files, whose code makes models, with --trust. With
    --target tvm, PrimFuncs that the tests give to passes are kept as well: --strategy tir starts from them.

    Example: crux patterns extract tests -o patterns --target ort
    """
    from triage.console.status import progress

    with progress() as shown:
        facts = _extract(options, tests, out, most, shown.note, shown.status)
    emit(iter([facts]), as_json=options.json, show=in_rows("tests"), single=True)
    if facts.get("relax_patterns"):
        say(f"next: crux hunt --target tvm --strategy relax_patterns --from {quoted(str(out))}")
    elif facts["patterns"] or not facts.get("loops_kept"):
        say(f"next: crux hunt --strategy patterns --from {quoted(str(out))}")
    if facts.get("loops_kept"):
        say(f"next: crux hunt --target tvm --strategy tir --from {quoted(str(out))}")
    return 0


def _extract(
    options: CaseOptions, tests: Path, out: Path, most: int, note: Any, status: Any
) -> dict[str, Any]:
    from corpus.formats import format_names
    from oracles.probes.record import Firing
    from triage.cases.patterns import Reader
    from triage.language import language_of

    target = options.target_of(None)
    skipped: list[str] = []

    def skip(line: str) -> None:
        skipped.append(line)
        note(f"skipped: {line}")

    reader = Reader(target, options.limits, options.memory << 20, options.trust, skip)
    files = 0
    with Firing(target, limits=options.limits) as firing, options.judge(target) as judge:
        makers = {name: make for name in format_names() if (make := language_of(name).extraction)}
        extractions = {name: make(firing, judge, most) for name, make in makers.items()}
        for path, documents in reader.documents(tests):
            files += 1
            patterns = sum(len(each.found) for each in extractions.values())
            status(f"{files:,} files, {patterns:,} patterns: {path.name}")
            for name, extraction in extractions.items():
                extraction.keep([each for each in documents if each.case.format == name], out)
    reasons = dict(reader.untold.most_common())
    if reasons:
        first = ", ".join(f"{name} ({number})" for name, number in list(reasons.items())[:8])
        note(f"left out {sum(reasons.values())} programs that crux has no words for: {first}")
    told = {"no ONNX model": sum(reasons.values())} if reasons else {}
    counts = {key: value for each in extractions.values() for key, value in each.facts().items()}
    return {"files": files, **counts, **told, "skipped": len(skipped), "folder": str(out)}


def list_patterns(options: StoreOptions, source: Source = None) -> int:
    """List patterns: the pass that each makes fire, its operators, where it came from.

    Example: crux patterns list --from patterns
    """
    from corpus.pattern import FOLDER, load_patterns

    show = in_columns(
        {
            "pattern": "name",
            "pass": "pass",
            "operators": "operators",
            "backend": "backend",
            "origin": "origin",
        }
    )
    documents = (each.facts() for each in load_patterns(source or FOLDER))
    found = emit(documents, as_json=options.json, show=show)
    say(f"{len(found)} patterns of {len({each['pass'] for each in found})} passes")
    return 0
