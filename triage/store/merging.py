"""Taking another database in: what both know becomes one, ids and history stay where they can.

A cluster of which a signature is known here is the cluster here; any other keeps its id where that was never
used, and gets a new one else, which is an event. After that the new signatures are compared with all others.

It may come from somebody else, so it is looked at before anything in it is used, and copied as plain rows.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpus.errors import UserError
from oracles.naming import Signature
from triage.store.blobs import files_of, is_clean, is_digest
from triage.store.clusters import MERGED, NEW, home_of, load_signature
from triage.store.database import STEPS, Row, Store, blobs_beside, dump, must_be_ours, parsed, steps_of
from triage.store.failures import REDUCED
from triage.store.names import CLUSTER, FAILURE, cluster_name, failure_name
from triage.store.vacuum import named_blobs

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


POINTING = (MERGED, "duplicate")
"""States of a cluster whose note is another cluster's name."""


def take_in(store: Store, source: Path, settle: Callable[[Store, Signature], None]) -> dict[str, Any]:
    """Merge a database, or what `export` made of one, into the store; counts of what is new here.

    `settle` finds the place of each signature that is new here among all others.
    """
    with (
        TemporaryDirectory(prefix="crux-import-") as folder,
        Store(_copy_of(source, Path(folder))) as other,
    ):
        must_hold_true(other, source)
        store.blobs.take_from(other.blobs, named_blobs(other))
        with store.transaction():
            return _Merge(store, other, str(source)).run(settle)


def _copy_of(source: Path, folder: Path) -> Path:
    """A copy of a database with its blobs in reach: the source itself is left as it is."""
    if source.suffix == ".zip":
        unpack(source, folder / "unpacked")
        source = folder / "unpacked"
    if source.is_dir():
        found = sorted(path for path in source.glob("*.db") if path.is_file())
        if len(found) != 1:
            raise UserError(f"{source}: holds {len(found)} databases (*.db), not one")
        source = found[0]
    copy = folder / "copy.db"
    copy_foreign(source, copy)
    if blobs_beside(source).is_dir():
        blobs_beside(copy).symlink_to(blobs_beside(source).resolve())
    return copy


def _last_id(store: Store, table: str) -> int:
    """The highest id that a table has ever given away."""
    return int(store.value("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)) or 0)


def _marked(store: Store, cluster: int) -> str:
    """When a person last decided on a cluster."""
    sql = "SELECT max(at) FROM events WHERE kind = 'marked' AND subject = ?"
    return str(store.value(sql, (cluster_name(cluster),)) or "")


@dataclass
class _Merge:
    """One import, inside a transaction of `here`."""

    here: Store
    other: Store
    source: str
    clusters: dict[int, int] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)
    renamed: int = 0

    def run(self, settle: Callable[[Store, Signature], None]) -> dict[str, Any]:
        before = self._counts()
        self._add_all("cases", "signatures")
        fresh = self._merge_clusters()
        runs = self._merge_runs()
        for row in self.other.rows("SELECT * FROM failures ORDER BY id"):
            self.failures[row["id"]] = self._known_failure(row)
        self._merge_failures(runs)
        self._merge_rest()
        for row in fresh:
            settle(self.here, load_signature(row))
        counts = {name: after - before[name] for name, after in self._counts().items()}
        self.here.log("imported", self.source, renamed=self.renamed, **counts)
        return {"source": self.source, **counts, "renamed": self.renamed}

    def _counts(self) -> dict[str, int]:
        names = ("cases", "signatures", "clusters", "failures", "reductions", "check_results", "artifacts")
        return {name: self.here.count(name) for name in names}

    def _add_all(self, *tables: str) -> None:
        """Add all rows of tables that are not there yet."""
        for table in tables:
            for row in self.other.rows(f"SELECT * FROM {table}"):
                self._add(table, row)

    def _add(self, table: str, row: Mapping[str, Any]) -> None:
        """Add a row that is not there yet."""
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        sql = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"
        self.here.write(sql, tuple(row.values()))

    def _add_once(self, table: str, row: Row) -> None:
        """Add a row with an id of its own, unless one like it is there."""
        values = {name: value for name, value in row.items() if name != "id"}
        same = " AND ".join(f"{name} IS ?" for name in values)
        if not self.here.row(f"SELECT 1 FROM {table} WHERE {same} LIMIT 1", tuple(values.values())):
            self.here.insert(table, values)

    def _place(self, table: str, rows: list[Row], name: Callable[[int], str]) -> dict[int, int]:
        """Ids for new rows: their own where it is free, and new ones, told as events, for the others."""
        following = max(_last_id(self.here, table), _last_id(self.other, table))
        found: dict[int, int] = {}
        for each in rows:
            if not self.here.row(f"SELECT 1 FROM {table} WHERE id = ?", (each["id"],)):
                found[each["id"]] = each["id"]
                continue
            following += 1
            found[each["id"]] = following
            self.renamed += 1
            self.here.log("renamed-id", name(following), old=name(each["id"]), source=self.source)
        return found

    def _merge_clusters(self) -> list[Row]:
        """Match or add the clusters with their aliases; the signatures that are new here."""
        aliases = self.other.rows("SELECT * FROM aliases ORDER BY rowid")
        homes: dict[str, int] = {}
        for alias in aliases:
            if (home := home_of(self.here, alias["signature"])) is not None:
                homes[alias["signature"]] = home.cluster
                self.clusters.setdefault(alias["cluster"], home.cluster)
        every = self.other.rows("SELECT * FROM clusters ORDER BY id")
        new = [row for row in every if row["id"] not in self.clusters]
        are_new = {row["id"] for row in new}
        self.clusters |= self._place("clusters", new, cluster_name)
        for row in every:
            self._merge_cluster(row, is_new=row["id"] in are_new)
        for alias in aliases:
            self._add("aliases", {**alias, "cluster": self.clusters[alias["cluster"]]})
        added = {alias["signature"] for alias in aliases} - homes.keys()
        return [row for row in self.other.rows("SELECT * FROM signatures") if row["digest"] in added]

    def _merge_cluster(self, row: Row, *, is_new: bool) -> None:
        """Add a cluster; of what was said of it there and here the later word counts."""
        note = self._renamed(row["note"]) if row["status"] in POINTING else row["note"]
        values = {**row, "id": self.clusters[row["id"]], "note": note}
        if is_new:
            self._add("clusters", values)
        elif row["status"] not in (NEW, MERGED):
            is_later = _marked(self.other, row["id"]) > _marked(self.here, values["id"])
            self.here.write(
                "UPDATE clusters SET status = ?, note = ? WHERE id = ? AND (status = ? OR status != ? AND ?)",
                (row["status"], note, values["id"], NEW, MERGED, is_later),
            )

    def _merge_runs(self) -> dict[int, int]:
        environments = {}
        for row in self.other.rows("SELECT * FROM environments"):
            self._add_once("environments", row)
            sql = "SELECT id FROM environments WHERE digest = ?"
            environments[row["id"]] = self.here.value(sql, (row["digest"],))
        runs = {}
        for row in self.other.rows("SELECT * FROM runs"):
            self._add_once("runs", {**row, "environment": environments.get(row["environment"])})
            sql = "SELECT id FROM runs WHERE (command, target, started) = (?, ?, ?)"
            runs[row["id"]] = int(self.here.value(sql, (row["command"], row["target"], row["started"])) or 0)
        return runs

    def _known_failure(self, row: Row) -> int:
        sql = "SELECT id FROM failures WHERE case_id = ? AND target = ?"
        return int(self.here.value(sql, (row["case_id"], row["target"])) or 0)

    def _merge_failures(self, runs: Mapping[int, int]) -> None:
        rows = self.other.rows("SELECT * FROM failures ORDER BY id")
        new = [row for row in rows if not self.failures[row["id"]]]
        self.failures |= self._place("failures", new, failure_name)
        are_new = {row["id"] for row in new}
        for row in rows:
            home = self.here.value("SELECT cluster FROM aliases WHERE signature = ?", (row["signature"],))
            values = {**row, "id": self.failures[row["id"]], "cluster": home}
            if row["id"] in are_new:
                self._add("failures", {**values, "run": runs.get(row["run"]) or None})
            else:
                self._merge_failure(values)

    def _merge_failure(self, row: Row) -> None:
        """Count the sightings of a failure that both know; take over a reduction that only the other has."""
        here = self.here.row("SELECT * FROM failures WHERE id = ?", (row["id"],))
        assert here is not None
        # equal first sightings are one and the same: the database was imported before, or is a copy
        is_copy = here["first_seen"] == row["first_seen"]
        taken = {
            "seen": max(here["seen"], row["seen"]) if is_copy else here["seen"] + row["seen"],
            "first_seen": min(here["first_seen"], row["first_seen"]),
            "last_seen": max(here["last_seen"], row["last_seen"]),
        }
        if row["status"] == REDUCED and here["status"] != REDUCED:
            names = ("reduced_case", "signature", "cluster", "title", "verdict", "status")
            taken |= {name: row[name] for name in names}
        changed = ", ".join(f"{name} = ?" for name in taken)
        self.here.write(f"UPDATE failures SET {changed} WHERE id = ?", (*taken.values(), row["id"]))

    def _merge_rest(self) -> None:
        for row in self.other.rows("SELECT * FROM origins"):
            self._add("origins", {**row, "failure": self.failures[row["failure"]]})
        self._add_all("similarities", "rewrites")
        self._add_changed("reductions", lambda row: {"failure": self.failures[row["failure"]]})
        self._add_changed("reports", lambda row: {"cluster": self.clusters.get(row["cluster"])})
        self._add_changed("check_results", lambda row: {})
        self._add_changed("artifacts", lambda row: {"subject": self._renamed(row["subject"])})
        self._add_changed("events", self._event)

    def _add_changed(self, table: str, change: Callable[[Row], Row]) -> None:
        for row in self.other.rows(f"SELECT * FROM {table} ORDER BY id"):
            self._add_once(table, row | change(row))

    def _event(self, row: Row) -> Row:
        told = parsed(row["document"], dict, "an event")
        document = dump({key: self._renamed(value) for key, value in told.items()})
        return {"subject": self._renamed(row["subject"]), "document": document}

    def _renamed(self, value: Any) -> Any:
        """Translate a name of the other database to ours; anything else stays."""
        if not isinstance(value, str):
            return value
        if match := CLUSTER.fullmatch(value):
            return cluster_name(self.clusters.get(int(match[1]), int(match[1])))
        if match := FAILURE.fullmatch(value):
            return failure_name(self.failures.get(int(match[1]), int(match[1])))
        return value
