"""The store: one SQLite database with its blobs beside it, shared safely by any number of processes."""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from corpus.errors import UserError
from corpus.reading import held_to, parse_json
from triage.store.blobs import Blobs, files_of
from triage.store.schema import MIGRATIONS, NAME, apply, is_current, migrations

if TYPE_CHECKING:
    from corpus.case import Case


OWN = ".known.toml"
"""How the name of a file of known issues ends."""


def own_file(database: Path) -> Path:
    """The file of known issues that a user keeps beside a database."""
    return database.parent / f"{database.name}{OWN}"


NUMBERS = frozenset(
    (
        *("blocks", "blocks_met", "bytes", "campaign", "checks", "cluster", "coverage", "cpu", "distance"),
        *("earned", "failures", "first_seed", "functions", "functions_met", "gained"),
        *("memory", "next_seed", "pinned", "ready", "run", "score", "seen", "tests", "valid", "version"),
        *("waiting", "watch"),
    )
)
"""Columns that hold numbers or nothing: SQLite itself would keep any text in them."""
BUSY_SECONDS = 60.0
ADVICE = "`crux db check` lists what is damaged"
STEPS = 100_000
"""So many steps of SQLite's machine between two looks at signals: about a millisecond."""
Row = dict[str, Any]


class Store:
    """A database of cases, failures and clusters.

    Every write happens inside `transaction()`, which takes the write lock at its start: a plain `BEGIN`
    that later upgrades a read to a write is refused at once when another process wrote in between.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.blobs = Blobs(blobs_beside(path))
        self._connection = _connect(path)
        self._migrate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def change_nothing(self) -> None:
        """Refuse every write from now on."""
        self._connection.execute("PRAGMA query_only = ON")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block's writes or none; nested blocks join the outer one."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def rows(self, sql: str, arguments: Iterator[Any] | tuple[Any, ...] = ()) -> list[Row]:
        """Every row that a statement gives, by the names of its columns."""
        cursor = self._connection.execute(sql, tuple(arguments))
        names = [column[0] for column in cursor.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in cursor]
        for name in NUMBERS.intersection(names):
            values = (row[name] for row in found if row[name] is not None)
            if not all(isinstance(each, (int, float)) and math.isfinite(each) for each in values):
                raise UserError(f"{self.path}: {name} holds what is no number; {ADVICE}")
        return found

    def row(self, sql: str, arguments: tuple[Any, ...] = ()) -> Row | None:
        """The first row that a statement gives; None where it gives none."""
        found = self.rows(sql, arguments)
        return found[0] if found else None

    def column(self, sql: str, arguments: tuple[Any, ...] = ()) -> list[Any]:
        """The first column of every row that a statement gives."""
        return [next(iter(row.values())) for row in self.rows(sql, arguments)]

    def value(self, sql: str, arguments: tuple[Any, ...] = ()) -> Any:
        """The first column of the first row that a statement gives; None where it gives none."""
        return next(iter(self.column(sql, arguments)), None)

    def count(self, table: str) -> int:
        """Count a table's rows."""
        return int(self.value(f"SELECT count(*) AS count FROM {table}"))

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        """Add one row inside the running transaction and return its id."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        cursor = self._connection.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values())
        )
        return int(cursor.lastrowid or 0)

    def write(self, sql: str, arguments: tuple[Any, ...] = ()) -> int:
        """Run one writing statement in its own transaction, or the running one; the rows it touched."""
        with self.transaction():
            return self._connection.execute(sql, arguments).rowcount

    def pack(self) -> None:
        """Give free room back to the disk; raises `sqlite3.OperationalError` while others write."""
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint (TRUNCATE)")

    def copy_to(self, path: Path) -> None:
        """Write what the database holds at this moment into a new file."""
        (is_refusing,) = self._connection.execute("PRAGMA query_only").fetchone()
        self._connection.execute("PRAGMA query_only = OFF")  # VACUUM counts as a write, wherever it goes
        try:
            self._connection.execute("VACUUM INTO ?", (str(path),))
        finally:
            self._connection.execute(f"PRAGMA query_only = {is_refusing:d}")

    def log(self, kind: str, subject: str, **document: Any) -> None:
        """Add to the events: they are only ever added to."""
        with self.transaction():
            values = {"at": now(), "kind": kind, "subject": subject, "document": dump(document)}
            self.insert("events", values)

    def add_case(self, case: Case) -> str:
        """Keep a case; the blobs are on disk before the row that names them."""
        if not self.row("SELECT 1 FROM cases WHERE case_id = ?", (case.case_id,)):
            files = self._keep_files(case)
            with self.transaction():
                self.write(
                    "INSERT OR IGNORE INTO cases VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        case.case_id,
                        case.format,
                        case.canonical_hash,
                        case.origin,
                        len(case.program) + sum(file.size for file in case.external),
                        dump(files),
                        now(),
                    ),
                )
        return case.case_id

    def load_case(self, case_id: str) -> Case:
        """Read a case back by its full id; its external files are the store's own blobs."""
        from corpus.case import Case  # only this needs numpy

        kept = self.value("SELECT files FROM cases WHERE case_id = ?", (case_id,))
        if kept is None:
            raise UserError(f"{self.path}: no case {case_id}")
        files = files_of(kept, f"{self.path}: case {case_id[:12]}")
        with tempfile.TemporaryDirectory(prefix="crux-case-", dir=self._scratch()) as folder:
            for name, digest in files.items():
                self._link(digest, Path(folder) / name)
            case = Case.load(Path(folder))
            if case.case_id != case_id:
                raise UserError(
                    f"{self.path}: case {case_id[:12]} is not what its id says;"
                    " `crux db check` lists what is damaged"
                )
        external = tuple(replace(file, path=self.blobs.path(files[file.location])) for file in case.external)
        return replace(case, external=external) if external else case

    def _link(self, digest: str, target: Path) -> None:
        """Let a file be a blob under its own name; raises `UserError` where the blob is not there."""
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.blobs.link(digest, target)
        except FileNotFoundError:
            raise UserError(
                f"{self.path}: {digest[:12]} is missing in {self.blobs.root.name} beside it;"
                " `crux db check` lists what is damaged, `crux db export` copies a database with all"
            ) from None

    def _keep_files(self, case: Case) -> dict[str, str]:
        """Put the saved case's files into the blobs: their names in the folder, and their digests."""
        with tempfile.TemporaryDirectory(prefix="crux-case-", dir=self._scratch()) as name:
            folder = Path(name) / "case"
            case.write_exactly(folder)
            return {
                str(path.relative_to(folder)): self.blobs.put_file(path)
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }

    def _scratch(self) -> Path:
        """A folder on the blobs' own disk, so that a large file is linked instead of copied."""
        self.blobs.root.mkdir(parents=True, exist_ok=True)
        return self.blobs.root

    def _migrate(self) -> None:
        self._connection.execute("PRAGMA trusted_schema = ON")  # a trigger of its own reads JSON
        if is_current(self._connection):
            return
        from sqlite_utils import Database

        with self.transaction():
            migrations().apply(Database(self._connection))


def open_existing(path: Path) -> Store:
    """The store at a path that must be there already; raises `UserError` when it is not."""
    if not path.exists():
        raise UserError(f"{path}: no such database; name one with --db, or make one with `crux hunt`")
    return Store(path)


def open_to_read(path: Path) -> Store:
    """Return the store at a path that must be there, for a command that only asks: it changes no row.

    So a database in a folder that may not be written can be asked too, if this release has made it.
    """
    store = open_existing(path)
    store.change_nothing()
    return store


def blobs_beside(database: Path) -> Path:
    """The folder of a database's blobs."""
    return database.parent / f"{database.name}.blobs"


def _connect(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode, so that transactions are ours alone to begin."""
    try:
        connection = sqlite3.connect(_uri(path), timeout=BUSY_SECONDS, isolation_level=None, uri=True)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_progress_handler(look_up, STEPS)
        must_be_ours(connection, path)
        _enter_wal(connection)
    except sqlite3.DatabaseError as error:
        raise UserError(
            f"{path}: not a database that can be opened ({' '.join(str(error).split())[:120]})"
        ) from None
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _uri(path: Path) -> str:
    """The database, immutable where nobody can write to its folder: its log could not be opened otherwise."""
    has_log = (path.parent / f"{path.name}-wal").exists()
    is_fixed = path.exists() and not has_log and not os.access(path.parent, os.W_OK)
    return path.absolute().as_uri() + ("?immutable=1" if is_fixed else "")


def look_up() -> int:
    """Nothing to say: but when Python runs, a signal that has come ends what SQLite is at."""
    return 0


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not wait for other openers here, so we do."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def now() -> str:
    """The time in UTC to the millisecond, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def parsed(text: object, shape: Any, what: str) -> Any:
    """The document in a column, of that shape; raises `UserError`."""
    where = f"{what} in the database"
    if not isinstance(text, (str, bytes)):
        raise UserError(f"{where} is no document; {ADVICE}")
    return held_to(parse_json(text, where, ADVICE), shape, where, ADVICE)


def dump(document: object) -> str:
    """JSON in one form only: the same document is always the same bytes."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


_STEPS = ("table", "_sqlite_migrations")
_COLUMN = r'[\["]?\w+[\]"]?( INTEGER PRIMARY KEY| TEXT)?'
_OWN_SCHEMA = {
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
    ours = [*MIGRATIONS]
    if unknown := sorted(names - set(ours)):
        raise UserError(
            f"{path}: made by a newer crux (it knows the step {unknown[0][:60]!r}); use that release"
        )
    if names != set(ours[: len(names)]):
        raise UserError(f"{path}: not a database of crux: steps of its making are missing")
    tools = {key: sql for key, sql in found.items() if key in _OWN_SCHEMA and _OWN_SCHEMA[key].fullmatch(sql)}
    wanted = {**schema_after(len(names)), **tools}
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


@cache
def schema_after(count: int) -> Schema:
    """The schema after the first `count` of our steps."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for statements in islice(MIGRATIONS.values(), count):
            apply(statements, made)
        return schema_of(made)
