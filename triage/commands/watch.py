"""`crux watch`: known cases on each new release of a package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, say, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from corpus.target import Target
    from triage.console.status import Progress
    from triage.store.database import Store

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
Corpus = Annotated[bool, typer.Option("--corpus/--no-corpus", help="With the cases that are shipped.")]
Minutes = Annotated[
    float, typer.Option("--hunt", metavar="MINUTES", help="Hunt on each release as well.", min=0.0)
]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where a hunt's bundles go.")]


@command(CaseOptions)
def watch(
    options: CaseOptions,
    cases: Cases = None,
    package: Package = "onnxruntime",
    release: Releases = None,
    nightly: Nightly = False,
    corpus: Corpus = True,
    hunt: Minutes = 0.0,
    out: Out = Path("crux-reports"),
) -> int:
    """Run known cases on each new release: what is fixed, what regressed, what is new.

    The cases are the regression corpus, those that you name, and one of each bug of the database, which also
    remembers what was seen. Exit code 1 when something regressed or is new.

    Example: crux watch --package onnxruntime --release 1.31.1
    """
    from functools import partial

    from corpus.target import Target
    from triage.bisection.bisection import target_for
    from triage.bisection.environments import Sources
    from triage.console.status import display
    from triage.store.database import Store
    from triage.watching import Watch, subjects

    sources = Sources(package, target_for(package, Target("ort")).backend)
    with Store(options.database) as store, display(options.json) as shown:
        chosen = subjects(package, cases or (), options, store, corpus=corpus)
        hunter = partial(_hunt, store, options, hunt, out, shown) if hunt else None
        watching = Watch(store, options, sources, chosen, shown, tuple(release or ()), nightly, hunter)
        documents = emit(watching.run(), as_json=options.json, show=_show)
    if not documents:
        say(f"{package}: nothing newer than what was watched; --release X looks again")
    for each in documents:
        say(_sentence(each))
    return 1 if any(each["regressed"] or each["new"] for each in documents) else 0


def _hunt(
    store: Store,
    options: CaseOptions,
    minutes: float,
    out: Path,
    shown: Progress,
    target: Target,
    release: str,
) -> Document:
    """Hunt on a release for so long: its tests, its failures, and the bugs that the database did not know."""
    from dataclasses import replace

    from triage.campaigns.budget import Limits
    from triage.campaigns.hunt import Hunt
    from triage.campaigns.target_campaigns import Fuzzer, TargetCampaign
    from triage.store.clusters import clusters

    known = {each.id for each in clusters(store)}
    options = replace(options, target=str(target))  # its Python is one that crux itself has named
    with Fuzzer(store, options, target, "watch") as fuzzer, options.judge(fuzzer.target) as judge:
        front = TargetCampaign(store, fuzzer, judge)
        Hunt(store, options, [front], out / release, Limits(60 * minutes), shown).run()
    found = [{"id": each.name, "title": each.title} for each in clusters(store) if each.id not in known]
    return {"tests": fuzzer.tally.tests, "failures": fuzzer.tally.failures, "new": found}


def _sentence(document: Document) -> str:
    counted = ", ".join(f"{document[name]} {name}" for name in ("fixed", "regressed", "new"))
    rest = f"{document['fails']} fail as before, {document['passes']} pass"
    text = f"{document['package']} {document['release']}: {counted}; {rest}"
    if document["unknown"]:
        text += f", {document['unknown']} fail with nothing to compare"
    if document["silent"]:
        text += f", {document['silent']} cannot be run"
    if hunted := document.get("hunt"):
        text += f"; a hunt of {hunted['tests']:,} tests brought {len(hunted['new'])} bugs"
    return text


def _show(documents: list[Document]) -> RenderableType:
    rows = [
        (each["release"], change["change"], change["case"], _step(change), change["title"])
        for each in documents
        for change in each["changes"]
    ]
    if not rows:
        return "Nothing changed." if documents else ""
    return table(("release", "", "case", "what was seen", "bug"), rows)


def _step(change: dict[str, Any]) -> str:
    since = f"{change['before']} ({change['since']}) → " if change["since"] else ""
    return f"{since}{change['now']}"
