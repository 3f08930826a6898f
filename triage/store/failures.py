"""Failures in the store: their rows, where they were seen, what their reductions said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from corpus.errors import UserError
from corpus.reading import Fields
from oracles.naming import VERSION
from oracles.verdict import Mark
from reducer.result import result_of_json
from triage.store.artifacts import VERDICT, verdict_document
from triage.store.database import ADVICE, Row, Store, dump, now, parsed
from triage.store.names import cluster_name, failure_name

if TYPE_CHECKING:
    from corpus.case import Case
    from oracles.naming import Signature
    from oracles.verdict import Verdict

DECISIONS = 2
"""Goes up with each change by which reductions, names or groups come out otherwise."""
EDITION = f"{DECISIONS}.{VERSION}"
"""What is kept with each decision, so that those of older editions can be made anew."""

NEW = "new"
REDUCED = "reduced"
UNREDUCIBLE = "unreducible"
EXPLAINED = "explained"
LIMIT = "limit"
"""A failure's status: waits for reduction, reduced, did not show again, a known bug explains it, or the
compiler says itself that it does not do this yet (listed apart, and reduced or reported only on demand)."""

DECLARED = Mark.LIMIT.value
"""The note of a verdict by which a backend tells that its compiler declares a limit."""

COLUMNS = (
    "id, case_id, target, outcome, title, symptom, signature, cluster, status, reduced_case, seen, release"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing case on a target; `seen` counts how often it came, `release` is the last one it showed on."""

    id: int
    case_id: str
    target: str
    outcome: str
    title: str
    symptom: str
    signature: str
    cluster: int
    status: str
    reduced_case: str | None
    seen: int
    release: str

    @property
    def name(self) -> str:
        """The name, such as `F00012`."""
        return failure_name(self.id)

    @property
    def cluster_name(self) -> str:
        """The cluster's name, such as `C0001`."""
        return cluster_name(self.cluster)

    @property
    def is_endless(self) -> bool:
        """Whether it does not come to an end, so that each check takes all the time that a run may take."""
        return self.outcome == "timeout"

    @property
    def best_case(self) -> str:
        """The id of the reduced case, or of the case as found."""
        return self.reduced_case or self.case_id


@dataclass(frozen=True, slots=True)
class ReleaseResults:
    """The first and last sighting of a cluster's failures, and their number by target and release."""

    first: str
    last: str
    counts: Mapping[tuple[str, str], int]


def failure_of_case(store: Store, case: Case) -> int:
    """The number of the failure of this case on its target; 0 when there is none."""
    where = (case.case_id, str(case.target or ""))
    return int(store.value("SELECT id FROM failures WHERE case_id = ? AND target = ?", where) or 0)


def get_failure(store: Store, number: int) -> Failure:
    """The failure of that number, which must be there."""
    row = store.row(f"SELECT {COLUMNS} FROM failures WHERE id = ?", (number,))
    assert row is not None
    return Failure(**row)


def count_failures(store: Store, cluster: int) -> int:
    """Count the failures of a cluster."""
    return int(store.value("SELECT sum(failures) FROM tallies WHERE cluster = ?", (cluster,)) or 0)


def count_waiting(store: Store) -> int:
    """Count the failures that are neither reduced nor put aside."""
    return int(store.value("SELECT sum(failures) FROM tallies WHERE status = ?", (NEW,)) or 0)


def count_alike(store: Store, symptom: str, target: str) -> int:
    """Count the kept failures of a symptom on a target."""
    sql = "SELECT count(*) FROM failures WHERE symptom = ? AND target = ?"
    return int(store.value(sql, (symptom, target)))


def first_alike(store: Store, symptom: str, target: str) -> int:
    """The number of the first failure of a symptom on a target, which must be there."""
    sql = "SELECT min(id) FROM failures WHERE symptom = ? AND target = ?"
    return int(store.value(sql, (symptom, target)))


def list_failures(store: Store, *, cluster: int | None = None, status: str | None = None) -> list[Failure]:
    """The failures, oldest first; only those of a cluster or status, if given."""
    wanted = {"cluster": cluster, "status": status}
    given = {name: value for name, value in wanted.items() if value is not None}
    where = "WHERE " + " AND ".join(f"{name} = ?" for name in given) if given else ""
    rows = store.rows(f"SELECT {COLUMNS} FROM failures {where} ORDER BY id", tuple(given.values()))
    return [Failure(**row) for row in rows]


def origins(store: Store, number: int) -> list[str]:
    """The paths and seeds that a failure came from."""
    return store.column("SELECT origin FROM origins WHERE failure = ? ORDER BY origin", (number,))


def verdict_of(store: Store, number: int) -> dict[str, Any]:
    """A failure's verdict as it was kept: of the reduced case if there is one."""
    kept = store.value("SELECT verdict FROM failures WHERE id = ?", (number,))
    document: dict[str, Any] = parsed(kept, VERDICT, "a verdict")
    return document


def title_of_signature(store: Store, digest: str) -> str | None:
    """The title of the first failure of a signature; None where there is none."""
    sql = "SELECT title FROM failures WHERE signature = ? ORDER BY id LIMIT 1"
    found: str | None = store.value(sql, (digest,))
    return found


def targets_of(store: Store) -> list[str]:
    """The targets that failures are of."""
    return store.column("SELECT DISTINCT target FROM failures ORDER BY target")


def releases_of(store: Store, cluster: int) -> tuple[str, ...]:
    """The releases on which a cluster was seen."""
    found = store.column("SELECT DISTINCT release FROM failures WHERE cluster = ?", (cluster,))
    return tuple(sorted(filter(None, found)))


def release_results_of(store: Store, cluster: int) -> ReleaseResults:
    """When and where a cluster was seen; it must have failures."""
    times = store.row(
        "SELECT min(first_seen) AS first, max(last_seen) AS last FROM failures WHERE cluster = ?", (cluster,)
    )
    rows = store.rows(
        "SELECT target, release, count(*) AS seen FROM failures WHERE cluster = ? GROUP BY 1, 2", (cluster,)
    )
    assert times is not None
    counts = {(str(row["target"]), str(row["release"]) or "?"): int(row["seen"]) for row in rows}
    return ReleaseResults(str(times["first"]), str(times["last"]), counts)


def reduction_of(store: Store, cluster: int) -> dict[str, Any]:
    """Read the reduction of a cluster's largest program; empty if there was none."""
    kept = store.value(
        """SELECT document FROM reductions JOIN failures ON failures.id = failure
           WHERE cluster = ? AND reductions.status = ?
           ORDER BY json_extract(document, '$.nodes_after'), json_extract(document, '$.nodes_before') DESC,
           reductions.id LIMIT 1""",
        (cluster, REDUCED),
    )
    what = "a reduction"
    return result_of_json(parsed(kept, dict, what), what, ADVICE) if kept else {}


def add_failure(
    store: Store,
    case: Case,
    verdict: Verdict,
    signature: Signature,
    cluster: int,
    run: int | None,
    release: str,
) -> int:
    """Add a failure to a cluster, inside the running transaction; its number."""
    values = {
        "case_id": case.case_id,
        "target": str(case.target or ""),
        "run": run,
        "outcome": verdict.outcome.value,
        "title": verdict.title,
        "symptom": str(verdict.symptom or ""),
        "verdict": dump(verdict_document(verdict)),
        "signature": signature.digest,
        "cluster": cluster,
        "status": LIMIT if is_limit(verdict) else NEW,
        "release": release,
        "first_seen": now(),
        "last_seen": now(),
    }
    number = store.insert("failures", values)
    store.log("found", failure_name(number), case=case.case_id, cluster=cluster_name(cluster))
    return number


def count_again(store: Store, number: int, release: str) -> None:
    """Note that a failure was seen once more, on that release."""
    store.write(
        "UPDATE failures SET seen = seen + 1, last_seen = ?, release = ? WHERE id = ?",
        (now(), release, number),
    )


def add_origin(store: Store, number: int, origin: str) -> None:
    """Note where a failure came from, once."""
    store.write("INSERT OR IGNORE INTO origins VALUES (?, ?)", (number, origin))


def point_at_reduced(
    store: Store, number: int, case_id: str, signature: Signature, title: str, verdict: Verdict
) -> None:
    """Show a failure by its reduced case, with that case's signature, title and verdict."""
    store.write(
        "UPDATE failures SET reduced_case = ?, signature = ?, title = ?, verdict = ?, status = ?"
        " WHERE id = ?",
        (case_id, signature.digest, title, dump(verdict_document(verdict)), REDUCED, number),
    )


def is_limit(verdict: Verdict) -> bool:
    """Whether the compiler itself declares that it does not do this yet."""
    return Mark.LIMIT in verdict.marks


def name_failure(store: Store, failure: int, signature: str) -> None:
    """Let a failure have the signature of this digest."""
    store.write("UPDATE failures SET signature = ? WHERE id = ?", (signature, failure))


def set_status(store: Store, number: int, status: str) -> None:
    """Change a failure's status."""
    store.write("UPDATE failures SET status = ? WHERE id = ?", (status, number))


def keep_reduction(
    store: Store, number: int, case_id: str | None, status: str, document: Mapping[str, Any]
) -> None:
    """Keep what a reduction of a failure said of itself, inside the running transaction."""
    values = {"failure": number, "reduced_case": case_id, "status": status, "edition": EDITION}
    store.insert("reductions", {**values, "document": dump(dict(document)), "finished": now()})


def why_set_aside(store: Store, number: int) -> str:
    """Why a failure was left unreduced the last time; empty if it was not."""
    sql = "SELECT document FROM reductions WHERE failure = ? AND reduced_case IS NULL ORDER BY id DESC"
    kept = store.value(sql, (number,))
    return str(parsed(kept, Fields({}, {"why": str}), "a reduction").get("why", "")) if kept else ""


def declared_rows(store: Store) -> list[Row]:
    """List the failures by which a compiler declares a limit, reduced ones first, then the smallest case.

    Each row has the failing run's `words` and the head of its `trace`.
    """
    return store.rows(
        """SELECT failures.id, target, cluster, seen, release, cases.case_id, cases.bytes,
                  reduced_case IS NOT NULL AS reduced,
                  json_extract(verdict, '$.runs[#-1].message') AS words,
                  substr(json_extract(verdict, '$.runs[#-1].trace'), 1, 200) AS trace
           FROM failures JOIN cases ON cases.case_id = coalesce(reduced_case, failures.case_id)
           WHERE EXISTS (SELECT 1 FROM json_each(verdict, '$.notes') WHERE value = ?)
           ORDER BY reduced DESC, bytes, failures.id""",
        (DECLARED,),
    )


def find_clusters(store: Store, words: str) -> frozenset[int]:
    """The clusters of failures whose title, symptom and signature hold all the words."""
    wanted = words.split()
    if not wanted:
        raise UserError(f"--search {words!r}: holds no word")
    text = "lower(title || ' ' || symptom || ' ' || components)"
    holds = " AND ".join([f"instr({text}, lower(?))"] * len(wanted))
    sql = f"SELECT DISTINCT cluster FROM failures JOIN signatures ON digest = signature WHERE {holds}"
    return frozenset(store.column(sql, tuple(wanted)))
