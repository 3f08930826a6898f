"""Taking another database in: what both know becomes one, ids and history stay where they can.

A cluster of which a signature is known here is the cluster here; any other keeps its id where that was never
used, and gets a new one else, which is an event. After that the new signatures are compared with all others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpus.errors import UserError
from oracles.naming import Signature
from triage.store.clusters import MERGED, NEW, home_of, load_signature
from triage.store.database import Row, Store, blobs_beside, dump, parsed
from triage.store.failures import REDUCED
from triage.store.import_archive import copy_foreign, must_hold_true
from triage.store.names import CLUSTER, FAILURE, cluster_name, failure_name
from triage.store.vacuum import named_blobs

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
        runs = {}
        for row in self.other.rows("SELECT * FROM runs"):
            self._add_once("runs", row)
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
