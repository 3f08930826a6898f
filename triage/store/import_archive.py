"""A database from somebody else: looked at before anything in it is used, and copied as plain rows.

SQLite runs what a schema says: views, triggers, defaults, expressions of indexes. So a foreign schema must
be, word for word, one that this release or an earlier one makes. After that every value is held to its
column's type, documents are JSON, digests are digests, and each case is what its id says.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from triage.store.blobs import files_of, is_clean, is_digest
from triage.store.database import STEPS, Store, look_up, must_be_ours, steps_of

MAGIC = b"SQLite format 3\0"

MOST_BYTES = 8 << 30

MOST_VALUE = 256 << 20

TYPES = {"INTEGER": ("integer", "null"), "TEXT": ("text", "null"), "REAL": ("real", "integer", "null")} | {
    "BLOB": ("blob", "null")  # what campaigns have learned, packed: no import reads it
}

OBJECTS, ANY_JSON = ("document", "verdict", "files"), ("components",)

DIGESTS = (("cases", "case_id"), ("artifacts", "digest"))


def copy_foreign(source: Path, copy: Path) -> None:
    """Copy a database to a new file; UserError, one line, for one that is damaged or not of this kind."""
    _must_be_a_file(source)
    _must_begin_as_one(source)
    try:
        uri = f"{source.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as opened:
            opened.set_progress_handler(look_up, STEPS)
            opened.execute("PRAGMA trusted_schema = OFF")
            opened.execute("PRAGMA cell_size_check = ON")
            opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE)
            must_be_ours(opened, source)
            if not steps_of(opened):
                raise UserError(f"{source}: not a database of crux")
            problem = opened.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                why = " ".join(str(problem).split())[:120]
                raise UserError(f"{source}: the database is damaged ({why}); take another copy")
            _must_be_typed(opened, source)
            opened.execute("VACUUM INTO ?", (str(copy),))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if str(error) == "interrupted":
            raise
        raise UserError(
            f"{source}: not a database that can be read ({' '.join(str(error).split())[:120]})"
        ) from None


def must_hold_true(store: Store, source: Path) -> None:
    """Raises `UserError` if a copied database names a digest that is none, or a case whose id is not its
    own.
    """
    for table, column in DIGESTS:
        for row in store.rows(f"SELECT DISTINCT {column} AS digest FROM {table}"):
            if not is_digest(row["digest"]):
                raise UserError(f"{source}: {table} names {str(row['digest'])[:80]!r}, which is no SHA-256")
    for row in store.rows("SELECT case_id, files FROM cases"):
        files_of(row["files"], f"{source}: case {row['case_id'][:12]}")
    for row in store.rows("SELECT name FROM artifacts"):
        if not is_clean(row["name"]):
            raise UserError(f"{source}: an artifact is called {row['name'][:80]!r}, which leaves its folder")
    for row in store.rows("PRAGMA foreign_key_check"):
        raise UserError(f"{source}: {row['table']} row {row['rowid']} points to a missing row")
    for row in store.rows("SELECT case_id FROM cases"):
        store.load_case(row["case_id"])


def _must_be_a_file(source: Path) -> None:
    if not source.is_file():
        raise UserError(f"{source}: not a regular file; name a database")
    if source.stat().st_size > MOST_BYTES:
        raise UserError(f"{source}: {source.stat().st_size} bytes, over {MOST_BYTES} for a database")


def _must_begin_as_one(source: Path) -> None:
    with open(source, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise UserError(f"{source}: not a database (it does not begin as SQLite's do)")


def _must_be_typed(opened: sqlite3.Connection, source: Path) -> None:
    """Raises `UserError` for a value of another type than its column's, or a document that is no JSON
    object.
    """
    for table in _plain_tables(opened):
        for name, declared in _columns(opened, table):
            allowed = ", ".join(
                f"'{each}'" for each in TYPES.get(declared, ("text", "null", "integer", "real"))
            )
            wrong = f"typeof({name}) NOT IN ({allowed})"
            if name in OBJECTS and declared != "BLOB":
                wrong += f" OR NOT json_valid({name}) OR json_type({name}) != 'object'"
            elif name in ANY_JSON:
                wrong += f" OR NOT json_valid({name})"
            if opened.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone():
                raise UserError(f"{source}: {table}.{name} holds what cannot stand there; it is refused")


def _plain_tables(opened: sqlite3.Connection) -> list[str]:
    """The tables that are ours."""
    names = [str(name) for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [name for name in names if not name.startswith(("sqlite_", "_sqlite"))]


def _columns(opened: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    rows: list[Any] = opened.execute(f"PRAGMA table_info({table})").fetchall()
    return [(str(row[1]), str(row[2]).upper()) for row in rows]
