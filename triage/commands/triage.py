"""`crux triage`: the clusters of a database, why they are so, what persons decide; clusters of raw traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.foot import doing
from triage.console.options import Known, StoreOptions, as_command, next_command
from triage.console.output import Document, emit, in_columns, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

    from triage.store.clusters import Cluster
    from triage.store.database import Store

ClusterId = Annotated[str, typer.Argument(metavar="ID", help="A cluster, such as C0001.")]
Other = Annotated[str, typer.Argument(metavar="OTHER", help="The cluster that is taken in.")]
State = Annotated[
    str, typer.Argument(metavar="[STATE]", help="filed, fixed, wontfix, invalid, duplicate, or new again.")
]
Issue = Annotated[
    str,
    typer.Option(
        "--issue", metavar="URL", help="Its thread, or 'not filed': adds it to DATABASE.known.toml."
    ),
]
Assign = Annotated[str | None, typer.Option("--assign", metavar="WHO", help="Who looks after it; '' nobody.")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="A remark, kept beside those before it.")]
Value = Annotated[
    str,
    typer.Argument(metavar="[VALUE]", help="URL for filed, VERSION for fixed, the other's ID for duplicate."),
]
Digest = Annotated[str, typer.Argument(metavar="SIGNATURE", help="One of the cluster's, or its beginning.")]
Title = Annotated[str, typer.Argument(metavar="TITLE", help="The title from now on.")]
Because = Annotated[
    str, typer.Option("--because", metavar="WORDS", help="The reason, kept with the decision.")
]
Search = Annotated[
    str, typer.Option("--search", metavar="WORDS", help="Only those of which a failure has all these words.")
]
First = Annotated[str, typer.Argument(metavar="A", help="A failure or a cluster.")]
Second = Annotated[str, typer.Argument(metavar="B", help="Another one.")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(invoke_without_command=True, help="List the clusters: one for each bug.")
    group.callback()(as_command(StoreOptions, list_clusters))
    for name, function in (
        ("traces", cluster_folder),
        ("limits", list_limits),
        ("why", explain),
        ("mark", mark_cluster),
        ("merge", merge_clusters),
        ("split", split_cluster),
        ("rename", rename_cluster),
        ("coverage", show_coverage),
    ):
        group.command(name)(as_command(StoreOptions, function))
    app.add_typer(group, name="triage")


def list_clusters(
    options: StoreOptions, context: typer.Context, search: Search = "", known: Known = ""
) -> int:
    """List the clusters of the database: one for each bug, the most different ones first.

    Example: crux triage --search "Clip float64"
    """
    if context.invoked_subcommand:
        return 0
    from triage.bugs.known import load_known
    from triage.bugs.overview import in_a_line, overview_with_states
    from triage.reports.newest_release import look_up_newest
    from triage.store.causes import old_decisions
    from triage.store.database import open_existing
    from triage.store.failures import find_clusters

    with open_existing(options.database) as store:
        only = find_clusters(store, search) if search else None
        issues = load_known(options.database, known)
        newest = look_up_newest(store, offline=options.offline)
        doing("listing the bugs")
        documents = overview_with_states(store, issues, only)
        emit(documents, as_json=options.json, show=_show)
        for package, found in newest:
            say(f"newest {package}: {found.release or f'not looked up ({found.why})'}")
        if old := old_decisions(store):
            words = next_command("reduce --all --again", options)
            say(f"{len(old)} failures were decided by an older crux; to decide them anew, next: {words}")
        say(in_a_line(documents, options, known))
    return 0


def cluster_folder(
    options: StoreOptions,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A file for each failure's text.")],
) -> int:
    """Cluster raw traces and logs by their text alone: the cluster of each file in the folder.

    Example: crux triage traces failures/ --json
    """
    from triage.clustering.grouping import cluster_traces, read_traces

    found = cluster_traces(read_traces(folder))
    emit([dict(found)], as_json=options.json, show=_show_traces, single=True)
    return 0


def list_limits(options: StoreOptions) -> int:
    """List what a compiler itself declares not to do, by operator and form: requests rather than bugs.

    Example: crux triage limits --db crux.db
    """
    from triage.bugs.failures import limits
    from triage.store.database import open_to_read

    with open_to_read(options.database) as store:
        found = limits(store)
    show = in_columns(
        {"operator": "operator", "form": "form", "met": "count", "clusters": "clusters", "its words": "words"}
    )
    emit([each.document() for each in found], as_json=options.json, show=show)
    if found:
        say(f"{len(found)} limits; one request for all, next: {next_command('report --limits', options)}")
    return 0


def explain(options: StoreOptions, first: First, second: Second) -> int:
    """Say why two failures or clusters are together or apart: what agrees, what differs, by how much.

    Example: crux triage why C0001 C0002
    """
    from triage.clustering.why import why
    from triage.store.database import open_to_read

    with open_to_read(options.database) as store:
        emit([why(store, first, second)], as_json=options.json, show=_show_why, single=True)
    words = f"triage merge {quoted(first)} {quoted(second)}"
    say(f"next: {next_command(words, options)}, if they are one bug")
    return 0


def mark_cluster(
    options: StoreOptions,
    cluster: ClusterId,
    state: State = "",
    value: Value = "",
    issue: Issue = "",
    assign: Assign = None,
    note: Note = "",
) -> int:
    """Say what has become of a cluster; one that is fixed and shows again has regressed.

    With --issue it becomes a known issue of this database, so that a report names the thread to comment in.

    Example: crux triage mark C0001 fixed 1.32.0
    """
    from corpus.errors import UserError
    from triage.bugs.known import add_own, known_of_cluster
    from triage.clustering.grouping import mark
    from triage.store.clusters import ASSIGNED, NOTED, get_cluster
    from triage.store.database import open_existing
    from triage.store.names import cluster_name, live_cluster

    if not (state or issue or note) and assign is None:
        raise UserError("crux triage mark: give a state, or --issue URL, --assign WHO, --note TEXT")
    with open_existing(options.database) as store:
        number = live_cluster(store, cluster)
        if issue:
            path = add_own(options.database, known_of_cluster(store, number, issue))
            say(f"{path}: has an entry for {cluster}")
        for kind, text in ((ASSIGNED, assign), (NOTED, note or None)):
            if text is not None:
                store.log(kind, cluster_name(number), text=text)
        return _tell(options, mark(store, number, state, value) if state else get_cluster(store, number))


def merge_clusters(options: StoreOptions, cluster: ClusterId, other: Other, because: Because = "") -> int:
    """Let a cluster take in another, for good: they are one bug.

    Example: crux triage merge C0001 C0004 --because "one kernel"
    """
    from triage.clustering.grouping import merge
    from triage.store.names import live_cluster

    return _decide(
        options, lambda store: merge(store, live_cluster(store, cluster), live_cluster(store, other), because)
    )


def split_cluster(options: StoreOptions, cluster: ClusterId, signature: Digest, because: Because = "") -> int:
    """Give one of a cluster's signatures a cluster of its own, for good: they are two bugs.

    Example: crux triage split C0001 4750e08a --because "another dtype"
    """
    from triage.clustering.grouping import split
    from triage.store.names import live_cluster

    return _decide(options, lambda store: split(store, live_cluster(store, cluster), signature, because))


def rename_cluster(options: StoreOptions, cluster: ClusterId, title: Title) -> int:
    """Give a cluster a title of your own.

    Example: crux triage rename C0001 "Pad into MaxPool"
    """
    from triage.clustering.grouping import rename
    from triage.store.names import live_cluster

    return _decide(options, lambda store: rename(store, live_cluster(store, cluster), title))


def _decide(options: StoreOptions, decide: Callable[[Store], Cluster]) -> int:
    from triage.store.database import open_existing

    with open_existing(options.database) as store:
        return _tell(options, decide(store))


def show_coverage(options: StoreOptions) -> int:
    """Say how much of a target's own code campaigns with --native-coverage have met, by pass and by file.

    Example: crux triage coverage --json
    """
    from triage.store.campaigns import coverage_documents
    from triage.store.database import open_to_read

    with open_to_read(options.database) as store:
        emit(coverage_documents(store), as_json=options.json, show=_show_coverage)
    say(f"next: {next_command('hunt --native-coverage', options)}")
    return 0


def _show_coverage(documents: list[Document]) -> Table:
    rows = []
    for each in documents:
        rows.append((each["target"], "all", *_shares(each)))
        rows += [(each["target"], one["name"], *_shares(one)) for one in each["passes"]]
    return table(("target", "pass", "blocks", "", "functions"), rows)


def _shares(counts: Document) -> tuple[str, str, str]:
    blocks = f"{counts['blocks_met']:,} of {counts['blocks']:,}"
    percent = f"{100 * counts['blocks_met'] / max(counts['blocks'], 1):.1f} %"
    return blocks, percent, f"{counts['functions_met']:,} of {counts['functions']:,}"


def _tell(options: StoreOptions, cluster: Cluster) -> int:
    """Print a cluster after a decision; return the exit code."""
    document = {"id": cluster.name, "title": cluster.title, "status": cluster.status, "note": cluster.note}
    emit([document], as_json=options.json, show=in_columns({name: name for name in document}), single=True)
    say(f"next: {next_command('triage', options)}")
    return 0


def _show(documents: list[Document]) -> Table:
    def row(cluster: Document) -> tuple[object, ...]:
        state = " ".join(filter(None, (cluster["state"], cluster["note"], cluster["assignee"])))
        known = f"{cluster['known']} {cluster['issue']}".strip()
        seen = f"{cluster['count']} ({cluster['reduced']} reduced)"
        return cluster["id"], state, seen, cluster["title"], known, " ".join(cluster["related"])

    return table(("id", "state", "failures", "title", "known as", "related"), map(row, documents))


def _show_traces(documents: list[Document]) -> Table:
    (found,) = documents
    members: dict[str, list[str]] = {}
    for name, cluster in found.items():
        members.setdefault(cluster, []).append(name)
    ordered = sorted(members.items(), key=lambda each: (-len(each[1]), each[1]))
    return table(
        ("cluster", "files", "names"), ((key, len(names), " ".join(names)) for key, names in ordered)
    )


def _show_why(documents: list[Document]) -> Table:
    (found,) = documents
    return table(("together" if found["together"] else "apart",), [(line,) for line in found["words"]])
