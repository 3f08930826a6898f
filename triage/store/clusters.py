"""Clusters of failures: one bug each, as far as their signatures tell; and the steps by which they change.

Every step must run inside a transaction and is logged as an event. An id is never used again: a cluster that
another one takes in stays known as `merged`.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oracles.naming import Signature
from triage.store.database import Row, Store, dump, now, parsed
from triage.store.names import cluster_name, failure_name

BY_SYMPTOM = "symptom"
BY_SIGNATURE = "signature"
BY_SIMILARITY = "similarity"
BY_PERSON = "person"
"""How a signature came to its cluster: before reduction, as the first or an equal one, by L2, by command."""

NEW, MERGED, FIXED, REGRESSED = "new", "merged", "fixed", "regressed"
LIMIT = "limit"
"""The state of a cluster of declared limits: no bug, though perhaps worth asking for."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One bug, as far as signatures tell; `note` says more of its status: a release, another cluster."""

    id: int
    title: str
    status: str
    created: str
    note: str = ""

    @property
    def name(self) -> str:
        """The name, such as `C0001`."""
        return cluster_name(self.id)


@dataclass(frozen=True, slots=True)
class Alias:
    """A signature in its cluster: how it came there, with what score and for which reason."""

    signature: Signature
    how: str
    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Home:
    """The place of a signature: its cluster, how it came there, and whether a person holds it there."""

    cluster: int
    how: str
    pinned: bool


SIGNATURES = """
SELECT cluster, how, score, why, digest, version, components
FROM aliases JOIN signatures ON digest = signature
"""


def clusters(store: Store, *, merged: bool = False) -> list[Cluster]:
    """The clusters that have failures (with `merged`, emptied ones too), in order of their ids."""
    where = "" if merged else "WHERE status != 'merged'"
    rows = store.rows(f"SELECT id, title, status, created, note FROM clusters {where} ORDER BY id")
    return [Cluster(**row) for row in rows]


def get_cluster(store: Store, number: int) -> Cluster:
    """The cluster of that number, which must be there."""
    row = store.row("SELECT id, title, status, created, note FROM clusters WHERE id = ?", (number,))
    assert row is not None
    return Cluster(**row)


def signatures_of(store: Store, cluster: int) -> list[Alias]:
    """A cluster's signatures, oldest first."""
    rows = store.rows(f"{SIGNATURES} WHERE cluster = ? ORDER BY aliases.rowid", (cluster,))
    return [load_alias(row) for row in rows]


def load_alias(row: Row) -> Alias:
    """A signature in its cluster from its row."""
    return Alias(load_signature(row), str(row["how"]), float(row["score"]), str(row["why"]))


def home_of(store: Store, digest: str) -> Home | None:
    """A signature's place; None if it has no cluster."""
    return homes_of(store, [digest]).get(digest)


def homes_of(store: Store, digests: Iterable[str]) -> dict[str, Home]:
    """The clusters of these signatures, oldest first; signatures without one are left out."""
    wanted = sorted(digests)
    marks = ", ".join("?" * len(wanted))
    rows = store.rows(
        f"SELECT signature, cluster, how, pinned FROM aliases WHERE signature IN ({marks}) ORDER BY rowid",
        tuple(wanted),
    )
    return {row.pop("signature"): Home(**row) for row in rows}


def load_signature(row: Row) -> Signature:
    """A signature from its row: `digest`, `version` and `components` as JSON."""
    return _load_signature(int(row["version"]), str(row["components"]), str(row["digest"]))


@functools.lru_cache(maxsize=1 << 14)
def _load_signature(version: int, document: str, digest: str) -> Signature:
    components = tuple(
        (each[0], each[1]) for each in parsed(document, [[str]], "a signature") if len(each) == 2
    )
    return Signature(version, components, digest)


def get_signature(store: Store, digest: str) -> Signature:
    """The signature of that digest, which must be there."""
    row = store.row("SELECT digest, version, components FROM signatures WHERE digest = ?", (digest,))
    assert row is not None
    return load_signature(row)


def keep_signature(store: Store, signature: Signature, kind: str) -> None:
    """Keep a signature.

    Only signatures of one kind are ever compared; an empty kind is compared with none.
    """
    store.write(
        "INSERT OR IGNORE INTO signatures (digest, version, components, first_seen, kind)"
        " VALUES (?, ?, ?, ?, ?)",
        (signature.digest, signature.version, dump(signature.components), now(), kind),
    )


def open_cluster(store: Store, title: str) -> int:
    """Add a cluster, inside the running transaction; its number."""
    cluster = store.insert("clusters", {"title": title, "status": NEW, "created": now()})
    store.log("opened", cluster_name(cluster), title=title)
    return cluster


def attach(store: Store, digest: str, cluster: int, how: str, score: float, why: str) -> None:
    """Say that a new signature belongs to a cluster."""
    values = {"signature": digest, "cluster": cluster, "how": how, "score": score, "why": why, "added": now()}
    store.insert("aliases", values)
    store.log("attached", cluster_name(cluster), signature=digest, how=how, score=score, why=why)


def rehome(store: Store, digest: str, cluster: int, how: str, score: float, why: str) -> None:
    """Put a known signature with its failures into another cluster."""
    home = home_of(store, digest)
    assert home is not None
    store.write(
        "UPDATE aliases SET cluster = ?, how = ?, score = ?, why = ? WHERE signature = ?",
        (cluster, how, score, why, digest),
    )
    store.write("UPDATE failures SET cluster = ? WHERE signature = ?", (cluster, digest))
    source = cluster_name(home.cluster)
    store.log(
        "rehomed", cluster_name(cluster), signature=digest, source=source, how=how, score=score, why=why
    )


def absorb(store: Store, gone: int, into: int, why: str) -> None:
    """Let a cluster take in all of another."""
    store.write("UPDATE failures SET cluster = ? WHERE cluster = ?", (into, gone))
    store.write("UPDATE aliases SET cluster = ? WHERE cluster = ?", (into, gone))
    close(store, gone, into, why)


def close(store: Store, gone: int, into: int, why: str) -> None:
    """Mark an emptied cluster as merged into the one that has its failures now.

    What a person said of it holds there where nothing else was said.
    """
    old, kept = get_cluster(store, gone), get_cluster(store, into)
    if kept.status == NEW and old.status not in (NEW, MERGED, LIMIT):
        set_status(store, into, old.status, old.note)
    name = cluster_name(into)
    set_status(store, gone, MERGED, name)
    store.log("merged", cluster_name(gone), into=name, why=why)


ASSIGNED, NOTED = "assigned", "noted"
"""Kinds of events: to whom a cluster was given, what a person wrote of it."""


def remarks_of(store: Store) -> dict[str, dict[str, Any]]:
    """By the clusters' names, to whom each is given (`assignee`), and its `notes`, the oldest first."""
    found: dict[str, dict[str, Any]] = {}
    sql = "SELECT subject, kind, document FROM events WHERE kind IN (?, ?) ORDER BY at, id"
    for row in store.rows(sql, (ASSIGNED, NOTED)):
        of_it = found.setdefault(row["subject"], {"assignee": "", "notes": []})
        text = str(parsed(row["document"], dict, "an event").get("text", ""))
        if row["kind"] == ASSIGNED:
            of_it["assignee"] = text
        else:
            of_it["notes"].append(text)
    return found


def set_status(store: Store, number: int, status: str, note: str) -> None:
    """Change what is said of a cluster."""
    store.write("UPDATE clusters SET status = ?, note = ? WHERE id = ?", (status, note, number))


def set_title(store: Store, number: int, title: str) -> None:
    """Give a cluster a title, unless a person gave it one."""
    store.write("UPDATE clusters SET title = ? WHERE id = ? AND NOT renamed", (title, number))


def set_title_for_good(store: Store, number: int, title: str) -> None:
    """Give a cluster a title that no later failure changes."""
    store.write("UPDATE clusters SET title = ?, renamed = 1 WHERE id = ?", (title, number))


def name_by(store: Store, digest: str, kind: str) -> None:
    """Let a signature that stood for symptoms alone name its cluster, and be compared with its kind."""
    store.write("UPDATE aliases SET how = ? WHERE signature = ?", (BY_SIGNATURE, digest))
    store.write("UPDATE signatures SET kind = ? WHERE digest = ?", (kind, digest))


def pin(store: Store, cluster: int) -> None:
    """Hold the signatures of reduced failures in a cluster: similarity never moves them again."""
    store.write("UPDATE aliases SET pinned = 1 WHERE cluster = ? AND how != ?", (cluster, BY_SYMPTOM))


def move(store: Store, failure: int, cluster: int, why: str) -> None:
    """Put one failure into another cluster."""
    source = int(store.value("SELECT cluster FROM failures WHERE id = ?", (failure,)))
    if source == cluster:
        return
    store.write("UPDATE failures SET cluster = ? WHERE id = ?", (cluster, failure))
    store.log("moved", cluster_name(cluster), failure=failure, source=cluster_name(source), why=why)
    if not store.row("SELECT 1 FROM failures WHERE cluster = ? LIMIT 1", (source,)):
        close(store, source, cluster, why)


def list_apart(store: Store, cluster: int) -> None:
    """Say that a cluster is a declared limit, unless a person said something of it."""
    store.write("UPDATE clusters SET status = ? WHERE id = ? AND status = ?", (LIMIT, cluster, NEW))


def is_named(store: Store, cluster: int) -> bool:
    """Whether a reduced failure's signature stands for the cluster, not only symptoms."""
    sql = "SELECT 1 FROM aliases WHERE cluster = ? AND how != ?"
    return store.row(sql, (cluster, BY_SYMPTOM)) is not None


COUNTS = """
SELECT cluster, sum(failures) AS failures,
       coalesce(sum(failures) FILTER (WHERE status = 'reduced'), 0) AS reduced,
       json_group_array(DISTINCT release) AS releases
FROM tallies GROUP BY cluster
"""
FIRST_FAILURES = """
SELECT failures.cluster, failures.id,
       (SELECT json_group_array(origin) FROM origins WHERE failure = failures.id) AS origins,
       outcome, signature, failures.status, coalesce(reduced_case, case_id) AS "case", seen
FROM clusters JOIN failures ON failures.id IN
    (SELECT id FROM failures AS own WHERE own.cluster = clusters.id ORDER BY id LIMIT ?)
ORDER BY failures.id
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a cluster: failures, reduced failures, and releases on which it was seen."""

    failures: int
    reduced: int
    releases: tuple[str, ...]


def counts_of_clusters(store: Store) -> dict[int, Counts]:
    """The counts of every cluster that has failures."""
    return {
        int(row["cluster"]): Counts(
            int(row["failures"]), int(row["reduced"]), tuple(parsed(row["releases"], [str], "releases"))
        )
        for row in store.rows(COUNTS)
    }


def signatures_by_cluster(store: Store) -> Mapping[int, Sequence[Alias]]:
    """The signatures of every cluster, oldest first."""
    found: dict[int, list[Alias]] = defaultdict(list)
    for row in store.rows(f"{SIGNATURES} ORDER BY aliases.rowid"):
        found[row["cluster"]].append(load_alias(row))
    return found


def first_failures(store: Store, most: int) -> Mapping[int, Sequence[dict[str, Any]]]:
    """The oldest failures of every cluster, at most `most` of each; `case` is the reduced one's if any."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows(FIRST_FAILURES, (most,)):
        origins = sorted(parsed(row["origins"], [str], "origins"))
        found[row.pop("cluster")].append({**row, "id": failure_name(row["id"]), "origins": origins})
    return found


NEIGHBOURS = """
WITH RECURSIVE near (digest) AS (
    SELECT ?
    UNION SELECT second FROM similarities JOIN near ON first = digest WHERE distance <= ?
    UNION SELECT mate.signature FROM near
        JOIN aliases AS own ON own.signature = digest AND own.pinned
        JOIN aliases AS mate ON mate.cluster = own.cluster AND mate.pinned
)
SELECT digest FROM near
"""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The facts of a cluster's reduced failure: its outcome, minimal passes and operators."""

    cluster: int
    outcome: str
    passes: tuple[str, ...]
    ops: tuple[str, ...]


def neighbours(store: Store, digest: str, cut: float) -> frozenset[str]:
    """The signatures that chains of kept distances up to a cut, and pins, join with this one."""
    return frozenset(store.column(NEIGHBOURS, (digest, cut)))


def same_kind(store: Store, digest: str) -> list[Signature]:
    """The other signatures that stand in a cluster and are of its kind and version."""
    rows = store.rows(
        """SELECT digest, version, components FROM signatures JOIN aliases ON signature = digest
           WHERE (kind, version) = (SELECT kind, version FROM signatures WHERE digest = ?)
           AND kind != '' AND digest != ?""",
        (digest, digest),
    )
    return [load_signature(row) for row in rows]


def keep_distance(store: Store, first: str, second: str, distance: float) -> None:
    """Keep the distance of two signatures, in both directions."""
    for pair in ((first, second), (second, first)):
        store.write("INSERT OR REPLACE INTO similarities VALUES (?, ?, ?)", (*pair, distance))


def kept_distance(store: Store, first: str, second: str) -> float | None:
    """The distance of two signatures; None where it was not kept, since they are not near."""
    sql = "SELECT distance FROM similarities WHERE first = ? AND second = ?"
    found: float | None = store.value(sql, (first, second))
    return found


def near_clusters(store: Store, cut: float) -> Iterator[tuple[int, int, float]]:
    """Pairs of clusters, in both directions, with the least distance of their signatures up to the cut."""
    rows = store.rows(
        """SELECT one.cluster AS cluster, other.cluster AS related, min(distance) AS distance
           FROM similarities JOIN aliases AS one ON one.signature = first
           JOIN aliases AS other ON other.signature = second
           WHERE one.cluster != other.cluster AND distance <= ? GROUP BY 1, 2""",
        (cut,),
    )
    return ((row["cluster"], row["related"], row["distance"]) for row in rows)


def rewrites(store: Store) -> Iterator[Rewrite]:
    """Yield the passes and operators of every cluster, with each outcome that they had."""
    rows = store.rows(
        "SELECT DISTINCT cluster, outcome, passes, ops FROM rewrites JOIN aliases USING (signature)"
    )
    for row in rows:
        passes, ops = (tuple(parsed(row[name], [str], name)) for name in ("passes", "ops"))
        yield Rewrite(int(row["cluster"]), str(row["outcome"]), passes, ops)
