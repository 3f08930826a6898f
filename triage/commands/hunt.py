"""`crux hunt`: fuzz, reduce, cluster, report in one go."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triage.console.options import CaseOptions, Known, command, rare
from triage.console.output import Document, emit, say, table
from triage.console.program_options import Bounds, Growth, Testing, own_tests, plan_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from corpus.target import Target
    from generators.mixture import Plan
    from triage.campaigns.budget import Limits
    from triage.campaigns.hunt import Hunt
    from triage.store.database import Store

Minutes = Annotated[
    float, typer.Option("--minutes", metavar="M", help="How long it may take in all.", min=0.1)
]
Tests = Annotated[
    int, typer.Option("--tests", metavar="N", help="Test at most N programs; 0 is no bound.", min=0)
]
Cost = Annotated[
    float, rare("--cost", "MINUTES", "CPU minutes that it may use, in all; 0 is no bound.", min=0.0)
]
Targets = Annotated[
    str, typer.Option("--targets", metavar="A,B", help="Several targets: time goes where new bugs are.")
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on with the database's campaign, which is usual; exit 2 if none is there."
    ),
]
Disk = Annotated[float, rare("--disk", "GB", "What the database may take; 0 is without a limit.", min=0.0)]
Latest = Annotated[
    bool,
    typer.Option("--latest", help="Hunt on the newest release of the package index, which crux installs."),
]
Serve = Annotated[
    bool, typer.Option("--serve", help="Show the hunt on a page while it runs, to this machine only.")
]
Port = Annotated[int, rare("--port", "N", "Where --serve listens; 0 is any free one.", min=0, max=65535)]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the bundles go.")]


@command(CaseOptions, unsaid=("inputs",))
def hunt(
    options: CaseOptions,
    *,
    minutes: Minutes = 10.0,
    tests: Tests = 0,
    cost: Cost = 0.0,
    out: Out = Path("crux-reports"),
    known: Known = "",
    targets: Targets = "",
    latest: Latest = False,
    growth: Growth,
    bounds: Bounds,
    testing: Testing,
    resume: Resume = False,
    disk: Disk = 0.0,
    serve: Serve = False,
    port: Port = 8765,
) -> int:
    """Look for bugs, shrink each, tell them apart, and write a bundle for each one.

    Stop it whenever you like: what was found is kept, and the next hunt goes on from there.

    Example: crux hunt --minutes 2 --target ort
    """
    from triage.campaigns.budget import Limits

    plan = plan_of(growth, options.trust, bounds, testing.part)
    with ExitStack() as stack:
        chosen = _targets(options, targets, stack if latest else None, plan if resume else None)
        limits = Limits(60 * minutes, own_tests(plan, options.seed, tests), 60 * cost, int(disk * 1e9))
        _hunt(options, chosen, plan, limits, out, known, testing, port if serve else None)
    return 0


def _hunt(
    options: CaseOptions,
    chosen: list[Target],
    plan: Plan,
    limits: Limits,
    out: Path,
    known: str,
    testing: Testing,
    port: int | None,
) -> None:
    """Hunt on the targets with all that it takes open, and tell what came of it, interrupted or not."""
    from triage.campaigns.hunt import Hunt
    from triage.campaigns.target_campaigns import Fuzzer, TargetCampaign
    from triage.console.status import display
    from triage.pages.campaign import serving
    from triage.reports.newest_release import NewestReleases
    from triage.store.database import Store

    with Store(options.database) as store, ExitStack() as stack:
        page = stack.enter_context(serving(options.database, port, known)) if port is not None else None
        how: dict[str, Any] = {"known": known, "native": testing.native_coverage, "cluster": testing.cluster}
        fuzzers = [stack.enter_context(Fuzzer(store, options, each, "hunt", plan, **how)) for each in chosen]
        judges = [stack.enter_context(options.judge(each.target)) for each in fuzzers]
        fronts = [TargetCampaign(store, *each) for each in zip(fuzzers, judges, strict=True)]
        interrupted: KeyboardInterrupt | None = None
        with display(options.json) as shown:
            if page:
                shown.note(f"the hunt is shown at {page}")
            releases = stack.enter_context(NewestReleases(options, shown))
            hunting = Hunt(store, options, fronts, out, limits, shown, known, releases)
            try:
                hunting.run()
            except KeyboardInterrupt as error:
                interrupted = error
        _tell(options, hunting)  # once the screen has gone: it would write over what is told
        if interrupted:
            raise interrupted


def _targets(
    options: CaseOptions, words: str, latest: ExitStack | None, resumed: Plan | None
) -> list[Target]:
    """The targets of the hunt, in `latest` with the newest releases; where one is `resumed`, each has it."""
    from triage.campaigns.coverage_sync import campaign_name, must_go_on

    chosen = _named(options, words)
    if latest is not None:
        chosen = [on_newest(each, latest) for each in chosen]
    if resumed is not None:
        for target in chosen:
            must_go_on(options.database, campaign_name(str(target), resumed.shard), options.seed)
    return chosen


def _named(options: CaseOptions, words: str) -> list[Target]:
    """The targets of the hunt; raises `UserError` where they are named in two ways."""
    from dataclasses import replace

    from corpus.errors import UserError

    if not words:
        return [options.target_of(None)]
    if options.target:
        raise UserError("--targets: names all targets; leave --target out")
    named = dict.fromkeys(word.strip() for word in words.split(",") if word.strip())
    return [replace(options, target=word).target_of(None) for word in named]


def on_newest(target: Target, stack: ExitStack) -> Target:
    """The target with the newest release of its package, installed while the stack is open.

    Raises `UserError` where nobody says which it is, or where it cannot be installed.
    """
    from corpus.errors import UserError
    from oracles.backends import find_backend
    from triage.bisection.environments import Unavailable
    from triage.bisection.package_index import newest_of
    from triage.console.status import Progress
    from triage.reports.newest_release import open_release

    package = find_backend(target.backend).package
    newest = newest_of(package)
    if not newest.all:
        raise UserError(f"--latest: {newest.why}")
    opened = open_release(package, target.backend, newest.all[0], Progress(), may_be_huge=True)
    try:
        place = stack.enter_context(opened)
    except Unavailable as error:
        raise UserError(f"--latest: {package} {newest.all[0]}: {error}") from None
    return place.target_of(target)


def _tell(options: CaseOptions, hunting: Hunt) -> None:
    """The summary, whether the hunt came to its end or not."""
    from triage.bugs.overview import in_a_line

    seconds = time.monotonic() - hunting.budget.start
    tallies, bugs = [front.fuzzer.tally for front in hunting.fronts], hunting.bugs()
    document: dict[str, Any] = {
        "tests": hunting.tests,
        "valid": sum(each.valid for each in tallies),
        "failures": sum(each.failures for each in tallies),
        "clusters": len(bugs),
        "seconds": round(seconds, 3),
        "tests_per_second": round(hunting.eye.rate, 1),
        "bugs": [bug_document(hunting.store, bug) for bug in bugs if bug["reduced"]],
    }
    emit(iter([document]), as_json=options.json, show=_show, single=True)
    tested = f"{hunting.tests:,} tests in {seconds:.0f} s, {hunting.share_of_tests:.0%} of the CPU time"
    say(f"{tested}, {document['failures']} of them failing")
    say(in_a_line(bugs, options, hunting.known))


def bug_document(store: Store, bug: Document) -> Document:
    """A reduced bug of the overview as the hunt shows it."""
    from reducer.result import NODES
    from triage.store.failures import reduction_of
    from triage.store.names import live_cluster

    reduction = reduction_of(store, live_cluster(store, str(bug["id"])))
    return {
        **{name: bug[name] for name in ("id", "title", "state", "list", "known", "issue")},
        **{name: reduction.get(name, 0) for name in NODES},
        "minimal": reduction["minimal"],
        "failures": bug["count"],
        "folder": bug["report"],
        "ready": bug["state"] == "ready",
    }


def _show(documents: list[Document]) -> RenderableType:
    from reducer.result import all_nodes

    (found,) = documents
    if not found["bugs"]:
        waiting = found["failures"]
        text = f"{waiting} failing program{'' if waiting == 1 else 's'} found, none reduced yet."
        return text if waiting else "No bug was found."
    rows = [
        (
            bug["id"],
            bug["state"],
            bug["title"],
            f"{all_nodes(bug, 'before')} → {all_nodes(bug, 'after')}",
            bug["failures"],
            bug["folder"],
        )
        for bug in found["bugs"]
    ]
    return table(("id", "state", "bug", "nodes", "failures", "bundle"), rows)
