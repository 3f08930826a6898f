"""What follows from what, in the database: faces of a root, and failures that a known bug explains.

A *face* is a reduced failure whose root is another one: it carries the root's signature and stands in its
cluster. An *explained* failure was not reduced: the checks that decided are kept beside it. Which edition of
crux decided is kept, too, and decisions of older ones give way to new ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from triage.store.clusters import (
    BY_SYMPTOM,
)
from triage.store.database import Row, Store, now, parsed
from triage.store.failures import EDITION
from triage.store.names import failure_name


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduced failure as what may explain another: its case, its minimal passes, how it shows.

    `shown` are the symptoms of its signature's failures, each with the release; `core` are the operators that
    its passes took away and put in, where that is known.
    """

    failure: int
    cluster: int
    case_id: str
    outcome: str
    passes: tuple[str, ...]
    shown: frozenset[tuple[str, str]]
    core: str = ""


def note_face(store: Store, failure: int, root: int | None, evidence: dict[str, Any]) -> None:
    """Keep what the experiment said of a reduced failure; `root` is None where it is its own root."""
    _decide(store, "faces", failure, root, evidence)


def note_explained(store: Store, failure: int, bug: int, evidence: dict[str, Any]) -> None:
    """Keep that a bug, a reduced failure, explains a failure that is not reduced."""
    _decide(store, "explanations", failure, bug, evidence)


def _decide(store: Store, table: str, failure: int, other: int | None, evidence: dict[str, Any]) -> None:
    values = (failure, other, evidence["version"], evidence["checks"], evidence["why"], now())
    store.write(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?)", values)


def root_of(store: Store, failure: int) -> Row | None:
    """The root of a failure with the reason; None where it has none."""
    sql = "SELECT root, why, checks, version FROM faces WHERE failure = ? AND root IS NOT NULL"
    return store.row(sql, (failure,))


def explanation_of(store: Store, failure: int) -> Row | None:
    """The reduced failure that explains one, with the reason; None where nothing does."""
    return store.row("SELECT bug, why, checks, version FROM explanations WHERE failure = ?", (failure,))


def manifestations_of(store: Store, cluster: int) -> list[Row]:
    """List a bug's other faces, the most frequent first: `title`, `failures`, `first`."""
    rows = store.rows(
        """SELECT title, sum(seen) AS failures, min(id) AS first FROM failures
           JOIN faces ON failure = id AND root IS NOT NULL
           WHERE cluster = ? GROUP BY title ORDER BY 2 DESC, 3""",
        (cluster,),
    )
    return [{**row, "first": failure_name(row["first"])} for row in rows]


def explained_in(store: Store, cluster: int) -> list[Row]:
    """Why failures of a bug were not reduced, the most frequent reason first: `why`, `failures`, `first`."""
    rows = store.rows(
        """SELECT why, count(*) AS failures, min(id) AS first FROM failures JOIN explanations ON failure = id
           WHERE cluster = ? AND status = 'explained' GROUP BY why ORDER BY 2 DESC, 3""",
        (cluster,),
    )
    return [{**row, "first": failure_name(row["first"])} for row in rows]


def reduced_with_signature(store: Store, digest: str) -> int | None:
    """The first reduced failure that has a signature of its own, not as a face."""
    found: int | None = store.value(
        """SELECT id FROM failures WHERE signature = ? AND status = 'reduced'
           AND id NOT IN (SELECT failure FROM faces WHERE root IS NOT NULL) ORDER BY id LIMIT 1""",
        (digest,),
    )
    return found


def reduced_bugs(store: Store, target: str) -> list[Reduced]:
    """The roots of a target, oldest first, each signature once."""
    rows = store.rows(
        """SELECT min(failures.id) AS failure, cluster, failures.reduced_case AS case_id, outcome,
                  coalesce(json_extract(document, '$.passes'), '[]') AS passes,
                  json_group_array(DISTINCT release || ' ' || symptom) AS shown,
                  (SELECT components FROM signatures WHERE digest = failures.signature) AS components
           FROM failures JOIN reductions ON reductions.failure = failures.id
               AND reductions.reduced_case = failures.reduced_case
           WHERE target = ? AND failures.status = 'reduced'
               AND failures.id NOT IN (SELECT failure FROM faces WHERE root IS NOT NULL)
           GROUP BY signature ORDER BY 1""",
        (target,),
    )
    return [
        Reduced(
            row["failure"],
            row["cluster"],
            row["case_id"],
            row["outcome"],
            tuple(parsed(row["passes"], [str], "passes")),
            frozenset(_shown(text) for text in parsed(row["shown"], [str], "what was shown")),
            dict(parsed(row["components"], [[str]], "a signature")).get("core", ""),
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A reduced failure that needs passes; `root` is itself where it is no face."""

    root: int
    cluster: int
    case_id: str
    outcome: str


def rewritten_by(store: Store, target: str, passes: Iterable[str]) -> list[Rewritten]:
    """The reduced failures of a target that need these passes, faces among them, oldest first."""
    rows = store.rows(
        """SELECT coalesce(root, failures.id) AS root, cluster, failures.reduced_case AS case_id, outcome,
                  json_extract(document, '$.passes') AS passes
           FROM failures JOIN reductions ON reductions.failure = failures.id
               AND reductions.reduced_case = failures.reduced_case
           LEFT JOIN faces ON faces.failure = failures.id
           WHERE target = ? AND failures.status = 'reduced' ORDER BY failures.id""",
        (target,),
    )
    wanted = {*passes}
    return [
        Rewritten(**row) for row in rows if {*parsed(row.pop("passes") or "[]", [str], "passes")} == wanted
    ]


def _shown(text: str) -> tuple[str, str]:
    """The symptom and the release of `RELEASE SYMPTOM`."""
    release, _, symptom = text.partition(" ")
    return symptom, release


def shown_alike(store: Store, symptom: str, release: str) -> list[Reduced]:
    """The roots of all targets that showed with this symptom on this release, the first ones first."""
    targets = store.column("SELECT DISTINCT target FROM failures WHERE symptom = ?", (symptom,))
    every = [bug for target in targets for bug in reduced_bugs(store, target)]
    return sorted((bug for bug in every if (symptom, release) in bug.shown), key=lambda bug: bug.failure)


def forget_explanations(store: Store, failures: Iterable[int]) -> None:
    """Drop what was said to explain failures, so that they can be asked again."""
    with store.transaction():
        for failure in failures:
            store.write("DELETE FROM explanations WHERE failure = ?", (failure,))


def count_explained(store: Store, bug: int) -> int:
    """Count the failures that a reduced one explains, with those that were reduced anyway."""
    return int(store.value("SELECT count(*) FROM explanations WHERE bug = ?", (bug,)))


def samples(store: Store) -> frozenset[int]:
    """The failures that wait for reduction although a bug explains them."""
    sql = "SELECT id FROM failures JOIN explanations ON failure = id WHERE status = 'new'"
    return frozenset(store.column(sql))


def explained_by(store: Store, bug: int, status: str) -> list[int]:
    """The failures of a status that a reduced one explains."""
    sql = "SELECT id FROM failures JOIN explanations ON failure = id WHERE bug = ? AND status = ? ORDER BY id"
    return store.column(sql, (bug, status))


def old_decisions(store: Store) -> list[int]:
    """The reduced failures that an older edition decided, but those that a person has merged or split."""
    return store.column(
        """SELECT failures.id FROM failures JOIN reductions
               ON reductions.id = (SELECT max(id) FROM reductions WHERE failure = failures.id)
           WHERE failures.status = 'reduced' AND edition != ?
               AND failures.signature NOT IN (SELECT signature FROM aliases WHERE pinned)
           ORDER BY failures.id""",
        (EDITION,),
    )


def reopen(store: Store, failures: Iterable[int]) -> None:
    """Let reduced failures wait again; their signatures name no cluster, and are compared with none."""
    with store.transaction():
        for failure in failures:
            named = "(SELECT signature FROM failures WHERE id = ?)"
            store.write(f"UPDATE signatures SET kind = '' WHERE digest = {named}", (failure,))
            store.write(f"UPDATE aliases SET how = ? WHERE signature = {named}", (BY_SYMPTOM, failure))
            store.write("UPDATE failures SET status = 'new' WHERE id = ?", (failure,))
            store.write("DELETE FROM faces WHERE failure = ?", (failure,))
