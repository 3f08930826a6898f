"""`crux triage`: the clusters of a database, and of raw traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.options import StoreOptions, as_command
from triage.output import Document, emit, table

if TYPE_CHECKING:
    from rich.table import Table

    from triage.clusters import Cluster
    from triage.store import Store


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True, help="List the clusters: one for each bug.")
    group.callback()(as_command(StoreOptions, list_clusters))
    group.command("traces")(as_command(StoreOptions, cluster_folder))
    app.add_typer(group, name="triage")


def list_clusters(options: StoreOptions, context: typer.Context) -> int:
    """List the clusters of the database: one for each bug, as far as the signatures tell.

    Example: crux triage --db crux.db
    """
    if context.invoked_subcommand:
        return 0
    from triage.clusters import clusters
    from triage.store import open_existing

    with open_existing(options.database) as store:
        documents = (_document(store, cluster) for cluster in clusters(store))
        emit(documents, as_json=options.json, show=_show)
    return 0


def cluster_folder(
    options: StoreOptions,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A file for each failure's text.")],
) -> int:
    """Cluster raw traces and logs by their text alone: the cluster of each file in the folder.

    Example: crux triage traces failures/ --json
    """
    from triage.traces import cluster_traces, read_traces

    found = cluster_traces(read_traces(folder))
    emit([dict(found)], as_json=options.json, show=_show_traces, single=True)
    return 0


def _show_traces(documents: list[Document]) -> Table:
    (found,) = documents
    members: dict[str, list[str]] = {}
    for name, cluster in found.items():
        members.setdefault(cluster, []).append(name)
    ordered = sorted(members.items(), key=lambda each: (-len(each[1]), each[1]))
    return table(
        ("cluster", "files", "names"), ((key, len(names), " ".join(names)) for key, names in ordered)
    )


def _document(store: Store, cluster: Cluster) -> Document:
    from triage.clusters import signatures_of
    from triage.failures import list_failures, origins

    failures = [
        {
            "id": failure.name,
            "origins": origins(store, failure.id),
            "outcome": failure.outcome,
            "signature": failure.signature,
            "status": failure.status,
            "case": failure.best_case,
            "seen": failure.seen,
        }
        for failure in list_failures(store, cluster=cluster.id)
    ]
    return {
        "id": cluster.name,
        "title": cluster.title,
        "status": cluster.status,
        "signatures": [row["signature"] for row in signatures_of(store, cluster.id)],
        "failures": failures,
    }


def _show(documents: list[Document]) -> Table:
    def row(cluster: Document) -> tuple[object, ...]:
        reduced = sum(failure["status"] == "reduced" for failure in cluster["failures"])
        return cluster["id"], cluster["status"], len(cluster["failures"]), reduced, cluster["title"]

    return table(("id", "status", "failures", "reduced", "title"), map(row, documents))
