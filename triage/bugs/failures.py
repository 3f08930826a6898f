"""Recording failures: kept at once when they are found, pointed at their reduced case later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from corpus.case import Case
from oracles.naming.signature import Signature
from oracles.verdict import Verdict
from triage.claims.titles import bug_title, passes_tried
from triage.clustering.grouping import assign, by_symptom, record_release_result
from triage.store.clusters import list_apart, move
from triage.store.database import Store
from triage.store.failures import (
    EXPLAINED,
    NEW,
    REDUCED,
    Failure,
    add_failure,
    add_origin,
    count_again,
    find_failure,
    get_failure,
    is_limit,
    keep_reduction,
    name_failure,
    point_at_reduced,
    set_status,
)


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
