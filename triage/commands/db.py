"""`crux db`: the care of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from triage.options import StoreOptions, as_command
from triage.output import Document, emit, table

if TYPE_CHECKING:
    from rich.table import Table


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Look after the database.")
    group.command("check")(as_command(StoreOptions, check))
    app.add_typer(group, name="db")


def check(options: StoreOptions) -> int:
    """Check the database and every blob beside it; exit code 1 when something is damaged.

    Example: crux db check --db crux.db
    """
    from triage.health import examine
    from triage.store import open_existing

    with open_existing(options.database) as store:
        (document,) = emit(iter([examine(store)]), as_json=options.json, show=_show, single=True)
    return 0 if document["sound"] else 1


def _show(documents: list[Document]) -> Table:
    (found,) = documents
    rows = [(name, value) for name, value in found.items() if not isinstance(value, list)]
    rows += [("problem", problem) for problem in found["problems"]]
    return table(("database", ""), rows)
