"""`crux triage`: the clusters of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    app.add_typer(group, name="triage")


def list_clusters(options: StoreOptions) -> int:
    """List the clusters of the database: one for each bug, as far as the signatures tell.

    Example: crux triage --db crux.db
    """
    from triage.clusters import clusters
    from triage.store import open_existing

    with open_existing(options.database) as store:
        documents = (_document(store, cluster) for cluster in clusters(store))
        emit(documents, as_json=options.json, show=_show)
    return 0


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
