"""`crux hunt`: fuzz, reduce, cluster, report in one go."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triage.console.options import CaseOptions, as_command
from triage.console.output import Document, emit, say, table
from triage.console.program_options import (
    MIXED,
    Cluster,
    Mode,
    Modes,
    NativeCoverage,
    Source,
    Strategy,
    plan_of,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from triage.campaigns.hunt import Hunt
    from triage.campaigns.teaching import must_go_on

Minutes = Annotated[
    float, typer.Option("--minutes", metavar="M", help="How long it may take in all.", min=0.1)
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on with the database's campaign, which is usual; exit 2 if none is there."
    ),
]
Disk = Annotated[
    float,
    typer.Option("--disk", metavar="GB", help="What the database may take; 0 is without a limit.", min=0.0),
]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the bundles go.")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("hunt")(as_command(CaseOptions, hunt))


def hunt(
    options: CaseOptions,
    minutes: Minutes = 10.0,
    out: Out = Path("crux-reports"),
    strategy: Strategy = MIXED,
    mode: Modes = Mode.MIXED,
    source: Source = None,
    native_coverage: NativeCoverage = False,
    cluster: Cluster = "",
    resume: Resume = False,
    disk: Disk = 0.0,
) -> int:
    """Look for bugs, shrink each, tell them apart, and write a bundle for each one.

    Stop it whenever you like: what was found is kept, and the next hunt goes on from there.

    Example: crux hunt --minutes 2 --target ort
    """
    from triage.campaigns.fuzzing import Fuzzer
    from triage.campaigns.hunt import Hunt
    from triage.cases.sources import finite_source
    from triage.console.progress import progress
    from triage.store.database import Store

    target, plan = options.target_of(None), plan_of(strategy, mode, source, options.trust)
    if resume:
        must_go_on(options.database, str(target), options.seed)
    with (
        finite_source(plan, options) as settled,
        Store(options.database) as store,
        Fuzzer(store, options, target, "hunt", settled, native=native_coverage, cluster=cluster) as fuzzer,
    ):
        with options.judge(fuzzer.target) as judge, progress() as shown:
            hunting = Hunt(store, options, fuzzer, judge, out, 60 * minutes, shown, int(disk * 1e9))
            try:
                hunting.run()
            except KeyboardInterrupt:
                _tell(options, hunting)
                raise
        _tell(options, hunting)
    return 0


def _tell(options: CaseOptions, hunting: Hunt) -> None:
    """The summary, whether the hunt came to its end or not."""
    seconds = time.monotonic() - hunting.start
    tally, bugs = hunting.fuzzer.tally, hunting.bugs()
    document: dict[str, Any] = {
        "tests": tally.tests,
        "valid": tally.valid,
        "failures": tally.failures,
        "clusters": len(bugs),
        "seconds": round(seconds, 3),
        "tests_per_second": round(tally.tests / hunting.fuzzed, 1) if hunting.fuzzed else 0.0,
        "bugs": [bug.document() for bug in bugs],
    }
    from triage.bugs.known import load_known
    from triage.bugs.standing import in_a_line, overview_with_states

    emit(iter([document]), as_json=options.json, show=_show, single=True)
    say(f"{tally.tests:,} tests in {seconds:.0f} s, {tally.failures} of them failing; {hunting.gained}")
    known = overview_with_states(hunting.store, load_known(options.database))
    say(in_a_line(known, options.database))


def _show(documents: list[Document]) -> RenderableType:
    (found,) = documents
    if not found["bugs"]:
        waiting = found["failures"]
        text = f"{waiting} failing program{'' if waiting == 1 else 's'} found, none reduced yet."
        return text if waiting else "No bug was found."
    rows = [
        (
            bug["id"],
            bug["title"],
            f"{bug['nodes_before']} → {bug['nodes_after']}",
            bug["failures"],
            bug["folder"] + ("" if bug["ready"] else " (not ready)"),
        )
        for bug in found["bugs"]
    ]
    return table(("id", "bug", "nodes", "failures", "bundle"), rows)
