"""A database from somebody else: looked at before anything in it is used, and copied as plain rows.

SQLite runs what a schema says: views, triggers, defaults, expressions of indexes. So a foreign schema must
be, word for word, one that this release or an earlier one makes. After that every value is held to its
column's type, documents are JSON, digests are digests, and each case is what its id says.
"""

import shutil
import signal
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from triage.store.blobs import files_of, is_clean, is_digest
from triage.store.database import STEPS, Store, must_be_ours, steps_of

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
        with (
            closing(
                sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
            ) as opened,
            interruptible(opened),
        ):
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


@contextmanager
def interruptible(connection: sqlite3.Connection) -> Iterator[None]:
    """Let SIGINT and SIGTERM end what SQLite is at; it would come back to Python only after it."""
    heard: list[int] = []

    def hear(number: int, frame: object) -> None:
        heard.append(number)

    try:
        earlier = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: nobody sends it signals
        earlier = {}
    connection.set_progress_handler(lambda: len(heard), STEPS)
    try:
        yield
    except sqlite3.OperationalError:
        if not heard:
            raise
    finally:
        connection.set_progress_handler(None, STEPS)
        for number, action in earlier.items():
            signal.signal(number, action)
    if heard:
        raise KeyboardInterrupt


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
    """The tables that are ours; SQLite owns those of the full-text index."""
    asked = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    names = [str(name) for (name,) in opened.execute(asked)]
    return [name for name in names if not name.startswith(("sqlite_", "_sqlite", "failures_search"))]


def _columns(opened: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    rows: list[Any] = opened.execute(f"PRAGMA table_info({table})").fetchall()
    return [(str(row[1]), str(row[2]).upper()) for row in rows]


MOST_MEMBERS = 200_000

MOST_UNPACKED_BYTES = 64 << 30

MOST_RATIO = 200

SMALL = 256 << 20
"""What unpacks to less may be packed as tightly as can be."""

CHUNK = 1 << 20

BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)


def unpack(source: Path, folder: Path, ending: str = "") -> None:
    """Unpack a zip into a new folder, or only the members whose names end so.

    UserError for one that is damaged, too large, or leaves the folder.
    """
    _must_be_a_file(source)
    try:
        with zipfile.ZipFile(source) as archive:
            members = [member for member in archive.infolist() if member.filename[-1:] != "/"]
            _must_fit(source, members, folder)
            for member in members:
                if member.filename.endswith(ending):
                    _unpack_one(archive, member, folder / member.filename)
    except BROKEN as error:
        raise UserError(
            f"{source}: not a database or zip that can be read ({' '.join(str(error).split())[:120]})"
        ) from None


def _must_fit(source: Path, members: list[zipfile.ZipInfo], folder: Path) -> None:
    """Raises `UserError` by what the archive says of itself; what it holds is counted again on the way."""
    names = {member.filename for member in members}
    packed = sum(member.compress_size for member in members)
    size = sum(member.file_size for member in members)
    room = shutil.disk_usage(folder.parent).free
    if len(members) > MOST_MEMBERS or len(names) < len(members):
        raise UserError(f"{source}: {len(members)} members, too many or of one name; it is no export")
    if size > min(MOST_UNPACKED_BYTES, room // 2):
        raise UserError(f"{source}: unpacks to {size} bytes, too many for {room} bytes of free room")
    if size > SMALL and size > MOST_RATIO * packed:
        raise UserError(f"{source}: {packed} bytes unpack to {size}; no export is packed as tightly")
    for member in members:
        kind = stat.S_IFMT(member.external_attr >> 16)
        if not is_clean(member.filename) or kind not in (0, stat.S_IFREG) or member.flag_bits & 1:
            raise UserError(f"{source}: the member {member.filename[:80]!r} is none of an export")


def _unpack_one(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    left = member.file_size
    with archive.open(member) as packed, open(place, "xb") as file:
        while chunk := packed.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise ValueError(f"{member.filename!r} is larger than it says")
            file.write(chunk)
