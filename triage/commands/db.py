"""`crux db`: the care of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import StoreOptions, as_command, next_command
from triage.console.output import Document, emit, quoted, say, table

if TYPE_CHECKING:
    from rich.table import Table

Grace = Annotated[
    float,
    typer.Option("--grace-minutes", help="Leave alone what is younger: a writer may be at it.", min=0.0),
]
Out = Annotated[Path, typer.Argument(metavar="OUT", help="A new folder.")]
Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="A database, or the folder that an export made.")
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(no_args_is_help=True, help="Look after the database.")
    for name, function in (
        *(("check", check), ("gc", gc), ("export", export), ("import", import_)),
        ("views", views),
    ):
        group.command(name)(as_command(StoreOptions, function))
    app.add_typer(group, name="db")


def check(options: StoreOptions) -> int:
    """Check the database and every blob beside it; exit code 1 when something is damaged.

    Example: crux db check --db crux.db
    """
    import sqlite3

    from corpus.errors import UserError
    from triage.store.database import open_to_read
    from triage.store.vacuum import examine

    try:
        with open_to_read(options.database) as store:
            found = examine(store)
    except (UserError, sqlite3.DatabaseError) as error:
        if not options.database.exists():
            raise
        found = {"path": str(options.database), "sound": False, "problems": [str(error)]}
    is_sound = bool(_tell(options, found)["sound"])
    wanted = (
        next_command("triage", options) if is_sound else "bring a copy of it back, or name another by --db"
    )
    say(f"next: {wanted}")
    return 0 if is_sound else 1


def gc(options: StoreOptions, grace_minutes: Grace = 60.0) -> int:
    """Remove blobs that nothing needs any more, and give free room back to the disk.

    Example: crux db gc --db crux.db
    """
    from triage.store.database import open_existing
    from triage.store.vacuum import collect_garbage

    with open_existing(options.database) as store:
        _tell(options, collect_garbage(store, grace_minutes * 60))
    say(f"next: {next_command('db check', options)}")
    return 0


def export(options: StoreOptions, out: Out) -> int:
    """Copy the database with its blobs, as it is at this moment, into a new folder.

    Example: crux db export tuesday --db crux.db
    """
    from triage.store.database import open_to_read
    from triage.store.vacuum import export

    with open_to_read(options.database) as store:
        _tell(options, export(store, out))
    say(f"next: crux db import {quoted(str(out))} --db OTHER.db")
    return 0


def import_(options: StoreOptions, source: Source) -> int:
    """Take another database in: what both know becomes one; ids and history stay where they can.

    Example: crux db import tuesday --db crux.db
    """
    from corpus.errors import UserError
    from triage.bugs.known import take_known
    from triage.clustering.grouping import regroup
    from triage.store.database import Store
    from triage.store.merging import take_in

    if not source.exists():
        raise UserError(f"{source}: no such file or folder")
    with Store(options.database) as store:
        _tell(
            options, {**take_in(store, source, regroup), "known_issues": take_known(options.database, source)}
        )
    say(f"next: {next_command('triage', options)}")
    return 0


def views(options: StoreOptions) -> int:
    """List the queries for Datasette; --json prints its metadata.

    Example: crux db views --json > datasette.json
    """
    from triage.store.database import open_to_read
    from triage.store.vacuum import datasette_metadata

    with open_to_read(options.database) as store:
        found = datasette_metadata(store.path)
    emit(iter([found]), as_json=options.json, show=_show_views, single=True)
    say(f"next: {next_command('db views --json', options)} > datasette.json")
    say(f"then: datasette {quoted(str(options.database))} --metadata datasette.json")
    return 0


def _show_views(documents: list[Document]) -> Table:
    (found,) = documents[0]["databases"].values()
    return table(
        ("query", "what it shows"), [(name, each["title"]) for name, each in found["queries"].items()]
    )


def _tell(options: StoreOptions, found: Document) -> Document:
    (document,) = emit(iter([found]), as_json=options.json, show=_show, single=True)
    return document


def _show(documents: list[Document]) -> Table:
    (found,) = documents
    rows = [(name.replace("_", " "), value) for name, value in found.items() if not isinstance(value, list)]
    rows += [("problem", problem) for problem in found.get("problems", ())]
    return table(("database", ""), rows)
