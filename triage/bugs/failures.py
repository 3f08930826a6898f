"""Recording failures: kept at once when they are found, pointed at their reduced case later."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corpus.case import Case
from oracles.naming import Signature
from oracles.verdict import Verdict
from oracles.worker.limits import form_of
from triage.claims.titles import bug_title, passes_tried
from triage.clustering.grouping import assign, by_symptom, record_release_result
from triage.store.clusters import list_apart, move
from triage.store.database import Row, Store
from triage.store.failures import (
    EXPLAINED,
    NEW,
    REDUCED,
    Failure,
    add_failure,
    add_origin,
    count_again,
    declared_rows,
    find_failure,
    get_failure,
    is_limit,
    keep_reduction,
    name_failure,
    point_at_reduced,
    set_status,
)
from triage.store.names import cluster_name, failure_name


def record_failure(
    store: Store,
    case: Case,
    verdict: Verdict,
    *,
    run: int | None = None,
    release: str = "",
    sketched: Signature | None = None,
) -> Failure:
    """Keep a failing case with its verdict; the same case on the same target is counted, not kept twice.

    `release` is that of the package it was seen on, where it is known; `sketched` names the failure until it
    is reduced, its symptom where there is none.
    """
    case_id = store.add_case(case)
    with store.transaction():
        number = find_failure(store, case)
        if number:
            count_again(store, number, release)
        else:
            signature = sketched or by_symptom(case, verdict)
            cluster = assign(store, signature, verdict.title, reduced=False)
            if is_limit(verdict):
                list_apart(store, cluster)
            number = add_failure(store, case, verdict, signature, cluster, run=run, release=release)
        add_origin(store, number, case.origin or case_id)
        record_release_result(store, get_failure(store, number).cluster, release)
    return get_failure(store, number)


def record_reduction(
    store: Store,
    failure: Failure,
    reduced: Case,
    verdict: Verdict,
    signature: Signature,
    document: Mapping[str, Any],
) -> Failure:
    """Point a failure at its reduced case, whose signature says to which cluster it belongs."""
    case_id = store.add_case(reduced)
    title = bug_title(verdict, reduced, passes_tried(document))
    with store.transaction():
        cluster = assign(store, signature, title, reduced=True, inside=failure.cluster)
        point_at_reduced(store, failure.id, case_id, signature, title, verdict)
        move(store, failure.id, cluster, "the reduced case's signature")
        if cluster != failure.cluster:
            record_release_result(store, cluster, failure.release)
        keep_reduction(store, failure.id, case_id, REDUCED, document)
    return get_failure(store, failure.id)


def set_aside(store: Store, failure: Failure, status: str, document: Mapping[str, Any]) -> None:
    """Say why a failure is not going to be reduced: its status, with the circumstances."""
    with store.transaction():
        set_status(store, failure.id, status)
        keep_reduction(store, failure.id, None, status, document)


def mark_explained(store: Store, failure: Failure, bug: Failure, why: str) -> None:
    """Put a failure that is not reduced beside the reduced one that explains it."""
    with store.transaction():
        name_failure(store, failure.id, bug.signature)
        set_status(store, failure.id, EXPLAINED)
        move(store, failure.id, bug.cluster, why)
        record_release_result(store, bug.cluster, failure.release)


def return_to_new(store: Store, failures: Iterable[int]) -> None:
    """Let explained failures wait for reduction again."""
    with store.transaction():
        for number in failures:
            set_status(store, number, NEW)


_OPERATOR = re.compile(r"^(?:Error converting|reached) operator (\w+)")
SEVERAL = "several"
"""The operator of a limit whose texts name none."""


@dataclass(frozen=True, slots=True)
class DeclaredLimit:
    """One form of an operator that a target declares not to take; `words` are its own.

    `failure` is the one with the smallest case, reduced ones first; `count` counts all that were seen.
    """

    target: str
    operator: str
    form: str
    words: str
    count: int
    clusters: tuple[str, ...]
    failure: int
    case_id: str
    is_reduced: bool
    release: str

    def document(self) -> dict[str, Any]:
        """The limit as a row of `crux triage limits --json`."""
        return {
            "target": self.target,
            "operator": self.operator,
            "form": self.form,
            "words": self.words,
            "count": self.count,
            "clusters": list(self.clusters),
            "failure": failure_name(self.failure),
            "reduced": self.is_reduced,
            "release": self.release,
        }


def limits(store: Store) -> list[DeclaredLimit]:
    """The limits of all targets, by target, operator and form."""
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in declared_rows(store):
        found[str(row["target"]), _operator(row), _form(str(row["words"]))].append(row)
    return [_limit(*key, found[key]) for key in sorted(found)]


def _operator(row: Row) -> str:
    told = _OPERATOR.match(str(row["trace"]))
    return told.group(1) if told else SEVERAL


def _form(words: str) -> str:
    """The form that the words name, or their first line where they name none."""
    return form_of(words) or words.strip().partition("\n")[0].rstrip(".")


def _limit(target: str, operator: str, form: str, rows: list[Row]) -> DeclaredLimit:
    best = rows[0]
    return DeclaredLimit(
        target,
        operator,
        form,
        str(best["words"]).strip().partition("\n")[0],
        sum(int(row["seen"]) for row in rows),
        tuple(cluster_name(number) for number in sorted({int(row["cluster"]) for row in rows})),
        int(best["id"]),
        str(best["case_id"]),
        bool(best["reduced"]),
        str(best["release"]),
    )
