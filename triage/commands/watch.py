"""`crux watch`: known cases on each new release of a package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triage.console.options import CaseOptions, command
from triage.console.output import Document, emit, say, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from triage.console.status import Display
    from triage.watching import Watch

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


@command(CaseOptions)
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
    from triage.bisection.environments import Sources, cache_folder
    from triage.console.status import display
    from triage.store.database import Store
    from triage.watching import Watch, subjects

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
            from triage.campaigns.release_hunt import hunt_beside

            document["hunt"] = hunt_beside(watching, place, minutes, out, shown)
        yield document


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
