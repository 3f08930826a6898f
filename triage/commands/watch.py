"""`crux watch`: known cases on each new release of a package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus.case import Case
from corpus.target import Target
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Verdict
from triage.bisection.environments import Unavailable
from triage.bugs.known import load_known
from triage.bugs.overview import overview_with_states
from triage.campaigns.fuzzing import Fuzzer
from triage.campaigns.hunt import Hunt, Limits
from triage.campaigns.target_campaigns import TargetCampaign
from triage.cases.judging import Judges
from triage.console.display import Display
from triage.console.options import CaseOptions, as_command
from triage.console.output import Document, emit, say, table
from triage.store.clusters import clusters
from triage.store.database import Store
from triage.store.failures import get_failure
from triage.store.names import representative
from triage.watching.places import Place
from triage.watching.watch import Watch

if TYPE_CHECKING:
    from rich.console import RenderableType

    from triage.console.display import Display
    from triage.watching.places import Place
    from triage.watching.watch import Watch

Cases = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CASE…]", help="Cases and folders of cases, besides the corpus."),
]
Package = Annotated[str, typer.Option("--package", help="Such as onnxruntime.")]
Releases = Annotated[
    list[str] | None,
    typer.Option("--release", metavar="X", help="This one. (default: all newer than the last one watched)"),
]
Nightly = Annotated[bool, typer.Option("--nightly", help="Pre-releases and nightly builds, too.")]
Since = Annotated[
    str, typer.Option("--since", metavar="X", help="Compare with this release. (default: what was seen last)")
]
Pythons = Annotated[
    list[Path] | None,
    typer.Option("--python", metavar="PATH", help="A Python that has the release; twice: old and new."),
]
Wheels = Annotated[
    Path | None, typer.Option("--wheels", metavar="DIR", help="Releases whose wheels lie in a folder.")
]
Index = Annotated[str, typer.Option("--index", metavar="URL", help="Another package index, as of nightlies.")]
Minutes = Annotated[
    float, typer.Option("--hunt", metavar="MINUTES", help="Hunt on each release as well.", min=0.0)
]
Corpus = Annotated[bool, typer.Option("--corpus/--no-corpus", help="With the cases that are shipped.")]
Cache = Annotated[Path | None, typer.Option("--cache", metavar="DIR", help="Where environments are kept.")]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where a hunt's bundles go.")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch")(as_command(CaseOptions, watch))


def watch(
    options: CaseOptions,
    cases: Cases = None,
    package: Package = "onnxruntime",
    release: Releases = None,
    nightly: Nightly = False,
    since: Since = "",
    python: Pythons = None,
    wheels: Wheels = None,
    index: Index = "",
    hunt: Minutes = 0.0,
    corpus: Corpus = True,
    cache: Cache = None,
    out: Out = Path("crux-reports"),
) -> int:
    """Run known cases on each new release: what is fixed, what regressed, what is new.

    The cases are the regression corpus, those that you name, and one of each bug of the database, which also
    remembers what was seen. Exit code 1 when something regressed or is new.

    Example: crux watch --package onnxruntime --release 1.31.1
    """
    from triage.bisection.environments import cache_folder
    from triage.console.display import display
    from triage.store.database import Store
    from triage.watching.changes import subjects
    from triage.watching.places import Sources
    from triage.watching.watch import Watch

    sources = Sources(
        package, _backend_of(package), tuple(python or ()), wheels, index, nightly, cache or cache_folder()
    )
    with Store(options.database) as store, display(options.json) as shown:
        sources.offered  # noqa: B018  # who cannot be asked is said before anything is opened
        chosen = subjects(package, cases or (), options, store, corpus=corpus)
        watching = Watch(store, options, sources, chosen, shown, tuple(release or ()), since)
        documents = emit(_documents(watching, hunt, out, shown), as_json=options.json, show=_show)
    if not documents:
        say(f"{package}: nothing newer than what was watched; --release X looks again")
    return _told(documents)


def _told(documents: list[Document]) -> int:
    """A sentence for each release; 1 if one of them has something that regressed or is new."""
    for each in documents:
        say(_sentence(each))
    return 1 if any(map(_is_bad, documents)) else 0


def _backend_of(package: str) -> str:
    from corpus.target import Target
    from triage.bisection.bisection import target_for

    return target_for(package, Target("ort")).backend


def _documents(watching: Watch, minutes: float, out: Path, shown: Display) -> Iterator[Document]:
    for place, document in watching.run():
        if minutes:
            document["hunt"] = _hunted(watching, place, minutes, out, shown)
        yield document


def _hunted(watching: Watch, place: Place, minutes: float, out: Path, shown: Display) -> dict[str, Any]:
    """Hunt on a release, and say of each find whether the earlier release shows it too."""
    from contextlib import ExitStack

    from triage.cases.judging import Judges

    target = watching.target_at(place)
    with ExitStack() as stack:
        judges = stack.enter_context(Judges(watching.options))
        before = ReleaseBefore(watching, place, judges, stack)
        return hunt_on(watching.store, watching.options, target, minutes, out / place.release, shown, before)


def _is_bad(document: Document) -> bool:
    return bool(document["regressed"] or document["new"] or _brought(document))


def _brought(document: Document) -> int:
    """Count a hunt's bugs that the earlier release does not show, if it could be asked."""
    hunted = document.get("hunt", {}).get("new", ())
    return sum(bug["before"] in ("", "pass") for bug in hunted)


def _sentence(document: Document) -> str:
    counted = ", ".join(f"{document[name]} {name}" for name in ("fixed", "regressed", "new"))
    rest = f"{document['fails']} fail as before, {document['passes']} pass"
    text = f"{document['package']} {document['release']}: {counted}; {rest}"
    if document["unknown"]:
        text += f", {document['unknown']} fail with nothing to compare"
    if document["silent"]:
        text += f", {document['silent']} cannot be run"
    if "hunt" in document:
        hunted = document["hunt"]
        text += f"; {hunted['tests']:,} new programs: {len(hunted['new'])} bugs that were not known,"
        text += f" {_brought(document)} of them not on the release before"
    return text


def _show(documents: list[Document]) -> RenderableType:
    rows = [
        (each["release"], change["change"], change["case"], _step(change), change["title"])
        for each in documents
        for change in each["changes"]
    ]
    rows += [
        (each["release"], "hunted", bug["id"], f"{bug['before'] or 'unknown'} before", bug["title"])
        for each in documents
        for bug in each.get("hunt", {}).get("new", ())
    ]
    if not rows:
        return "Nothing changed." if documents else ""
    return table(("release", "", "case", "what was seen", "bug"), rows)


def _step(change: dict[str, Any]) -> str:
    since = f"{change['before']} ({change['since']}) → " if change["since"] else ""
    return f"{since}{change['now']}"


Before = Callable[[Case], Verdict | None]
"""The verdict of the release before on a case; None where there is none to ask."""


def hunt_on(
    store: Store,
    options: CaseOptions,
    target: Target,
    minutes: float,
    out: Path,
    shown: Display,
    before: Before,
) -> dict[str, Any]:
    """Hunt on a target for so long; its tests, its failures, and the bugs that the database did not know."""
    known = {each.id for each in clusters(store)}
    options = replace(options, target=str(target))  # its Python is one that crux itself has named
    with Fuzzer(store, options, target, "watch") as fuzzer, options.judge(fuzzer.target) as judge:
        front = TargetCampaign(store, fuzzer, judge)
        Hunt(store, options, [front], out, Limits(60 * minutes), shown).run()
        tally = fuzzer.tally
    issues = {
        str(each["id"]): str(each["known"]) for each in overview_with_states(store, load_known(store.path))
    }
    found = [each for each in clusters(store) if each.id not in known and not issues.get(each.name)]
    return {
        "tests": tally.tests,
        "failures": tally.failures,
        "new": [
            {"id": each.name, "title": each.title, "before": _said(before, store, each.id)} for each in found
        ],
    }


def _said(before: Before, store: Store, cluster: int) -> str:
    """Return the earlier release's result on the cluster's best case; empty if none can be asked."""
    case = store.load_case(get_failure(store, representative(store, cluster)).best_case)
    target = case.target.without_setting("python") if case.target else None
    verdict = before(replace(case, target=target))
    return verdict.outcome.value if verdict else ""


class ReleaseBefore:
    """Gives the verdict of the release before on a case; it is opened when first asked."""

    def __init__(self, watch: Watch, place: Place, judges: Judges, stack: ExitStack) -> None:
        self._watch, self._judges, self._stack = watch, judges, stack
        self._release = watch.baseline(place.release)
        self._place: Place | None = None

    def __call__(self, case: Case) -> Verdict | None:
        """Return the verdict; None where there is no such release or it cannot be installed."""
        if self._place is None and self._release:
            opened = self._watch.sources.open(self._release, self._watch.shown)
            try:
                self._place = self._stack.enter_context(opened)
            except Unavailable as error:
                self._watch.shown.note(f"{self._release} cannot be asked: {error}")
                self._release = ""
        if self._place is None:
            return None
        target = self._watch.target_at(self._place, case)
        try:
            return self._judges.of(target, case.format).verdict(replace(case, target=target))
        except SandboxError:
            return None
