"""What people call things in a database: F00012 a failure, C0001 a cluster, a hex prefix a case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from corpus.errors import UserError

if TYPE_CHECKING:
    from triage.store.database import Store

FAILURE = re.compile(r"[Ff](\d{5,18})")
CLUSTER = re.compile(r"[Cc](\d{4,18})")
CASE = re.compile(r"[0-9a-fA-F]{6,64}")


def failure_name(number: int) -> str:
    """A failure's name, such as `F00012`."""
    return f"F{number:05d}"


def cluster_name(number: int) -> str:
    """A cluster's name, such as `C0001`."""
    return f"C{number:04d}"


def is_name(text: str) -> bool:
    """Whether a word on the command line has the form of a name in the database."""
    return any(form.fullmatch(text) for form in (FAILURE, CLUSTER, CASE))


def find_failure(store: Store, text: str) -> int | None:
    """The failure of that name; None when the word is not a failure's name."""
    return _find(store, text, FAILURE, "failure")


def find_cluster(store: Store, text: str) -> int | None:
    """The cluster of that name; None when the word is not a cluster's name."""
    return _find(store, text, CLUSTER, "cluster")


def _find(store: Store, text: str, form: re.Pattern[str], what: str) -> int | None:
    match = form.fullmatch(text)
    if match and not store.row(f"SELECT 1 FROM {what}s WHERE id = ?", (int(match[1]),)):
        raise UserError(f"{text}: no such {what} in {store.path}")
    return int(match[1]) if match else None


def live_cluster(store: Store, text: str) -> int:
    """The cluster of that name, or the one that took it in; raises `UserError` for any other word."""
    found = find_cluster(store, text)
    if found is None:
        raise UserError(f"{text}: not a cluster's name; they look like C0001, see `crux triage`")
    while into := store.value("SELECT note FROM clusters WHERE id = ? AND status = 'merged'", (found,)):
        found = int(into.removeprefix("C"))
    return found


def find_case(store: Store, text: str) -> str:
    """The full case id that a name stands for: a case's unique prefix, a failure, a cluster's best failure.

    A failure stands for its reduced case where it has one, a cluster for its smallest failure.
    """
    failure = failure_named(store, text)
    if failure is None:
        return _case_of_prefix(store, text.lower())
    return str(store.value("SELECT coalesce(reduced_case, case_id) FROM failures WHERE id = ?", (failure,)))


def failure_named(store: Store, text: str) -> int | None:
    """The failure of that name, a cluster's best failure for a cluster's; None when it is neither's name."""
    failure = find_failure(store, text)
    cluster = find_cluster(store, text) if failure is None else None
    return failure if cluster is None else representative(store, cluster)


def representative(store: Store, cluster: int) -> int:
    """The failure that shows a cluster best: reduced before not, roots before faces, then the smallest."""
    found = store.value(
        """SELECT failures.id FROM failures
           JOIN cases ON cases.case_id = coalesce(reduced_case, failures.case_id)
           LEFT JOIN faces ON failure = failures.id
           WHERE cluster = ?
           ORDER BY reduced_case IS NULL, root IS NOT NULL, cases.bytes, failures.id LIMIT 1""",
        (cluster,),
    )
    if found is None:
        raise UserError(f"{cluster_name(cluster)}: no failure belongs to it any more")
    return int(found)


def _case_of_prefix(store: Store, prefix: str) -> str:
    if not CASE.fullmatch(prefix):
        raise UserError(f"{prefix}: neither a file nor an id in {store.path}")
    found = store.column(
        "SELECT case_id FROM cases WHERE case_id >= ? AND case_id < ? LIMIT 2", (prefix, prefix + "g")
    )
    if len(found) != 1:
        raise UserError(f"{prefix}: {'several cases' if found else 'no case'} of that id in {store.path}")
    return str(found[0])
