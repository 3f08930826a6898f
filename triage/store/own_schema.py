"""Whether a database's schema is one that crux makes, word for word: SQLite runs what a schema says."""

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, cast

from corpus.errors import UserError
from triage.store.schema import MIGRATIONS, NAME

_STEPS = ("table", "_sqlite_migrations")
_COLUMN = r'[\["]?\w+[\]"]?( INTEGER PRIMARY KEY| TEXT)?'
OWN = {
    **{
        ("table", f"sqlite_stat{number}"): re.compile(rf"CREATE TABLE sqlite_stat{number}\([\w,]+\)")
        for number in (1, 2, 3, 4)
    },
    ("table", "sqlite_sequence"): re.compile(r"CREATE TABLE sqlite_sequence\(name,seq\)"),
    _STEPS: re.compile(
        rf'CREATE TABLE [\["]_sqlite_migrations[\]"] \( ?{_COLUMN}(, {_COLUMN})*'
        r'(, PRIMARY KEY \([\w\[\]", ]+\))? ?\)'
    ),
    ("index", "idx__sqlite_migrations_migration_set_name"): re.compile(
        r'CREATE UNIQUE INDEX [\["]idx__sqlite_migrations_migration_set_name[\]"] '
        r'ON [\["]_sqlite_migrations[\]"] \([\["]migration_set[\]"], [\["]name[\]"]\)'
    ),
}
"""What is not of our steps: SQLite's own tables, and those of the tool that notes the steps."""

Schema = Mapping[tuple[str, str], str]


def must_be_ours(opened: sqlite3.Connection, path: Path) -> None:
    """Raises `UserError` where the schema is of a newer release, or not word for word of one so far."""
    opened.execute("BEGIN")  # one look at both: another process may be making them
    try:
        found = _read(opened, path)
        names = steps_of(opened) if _STEPS in found else set()
    finally:
        opened.execute("ROLLBACK")
    ours = [step.__name__ for step in MIGRATIONS]
    if unknown := sorted(names - set(ours)):
        raise UserError(
            f"{path}: made by a newer crux (it knows the step {unknown[0][:60]!r}); use that release"
        )
    if names != set(ours[: len(names)]):
        raise UserError(f"{path}: not a database of crux: steps of its making are missing")
    wanted = {**schema_after(len(names)), **_own_tables(found)}
    for kind, name in sorted(found.keys() | wanted.keys()):
        if found.get((kind, name)) != wanted.get((kind, name)):
            what = (
                "an extra" if (kind, name) not in wanted else "no" if (kind, name) not in found else "another"
            )
            raise UserError(f"{path}: a foreign schema, with {what} {kind} {name[:60]!r}; it is refused")


def _read(opened: sqlite3.Connection, path: Path) -> Schema:
    try:
        return schema_of(opened)
    except UnicodeDecodeError:
        raise UserError(f"{path}: the database is damaged; take another copy") from None


def steps_of(opened: sqlite3.Connection) -> set[str]:
    """The names of the steps that have made a database so far; none of an empty one."""
    try:
        asked = "SELECT name FROM _sqlite_migrations WHERE migration_set = ?"
        return {str(name) for (name,) in opened.execute(asked, (NAME,))}
    except sqlite3.OperationalError:  # no such table
        return set()


def schema_of(opened: sqlite3.Connection) -> Schema:
    """The schema by kind and name, without the indexes that SQLite makes of itself."""
    rows = opened.execute("SELECT type, name, sql FROM sqlite_master")
    return {
        (str(kind), str(name)): " ".join(str(sql).split())
        for kind, name, sql in rows
        if not (kind == "index" and str(name).startswith("sqlite_autoindex_") and sql is None)
    }


def _own_tables(found: Schema) -> Schema:
    """Return SQLite's statistics and the list of steps, if they are there and hold nothing but columns."""
    return {key: sql for key, sql in found.items() if key in OWN and OWN[key].fullmatch(sql)}


@cache
def schema_after(count: int) -> Schema:
    """The schema after the first `count` of our steps."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for step in MIGRATIONS[:count]:
            step(cast(Any, made))  # they only execute statements, which a plain connection does as well
        return schema_of(made)
