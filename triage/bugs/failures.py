"""Recording failures: kept at once when they are found, pointed at their reduced case later.

And how a failing case came to be: where it came from, and what its reduction did.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.case import CASE_FILE, Case, read_facts
from corpus.reading import Fields, Text, held_to, read_json
from corpus.target import Target
from oracles.naming import Signature
from oracles.verdict import Verdict
from oracles.worker.limits import form_of
from reducer.pass_sets import PassSet
from reducer.result import NAME as REDUCTION
from reducer.result import all_nodes, read_result
from triage.clustering.grouping import assign, by_symptom, record_release_result
from triage.store.artifacts import last_event
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
    count_failures,
    declared_rows,
    failure_of_case,
    get_failure,
    is_limit,
    keep_reduction,
    name_failure,
    origins,
    point_at_reduced,
    reduction_of,
    releases_of,
    set_status,
)
from triage.store.names import cluster_name, failure_name, failure_named
from triage.titles import bug_title, passes_tried


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
        number = failure_of_case(store, case)
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
            **{name: getattr(self, name) for name in ("target", "operator", "form", "words", "count")},
            "clusters": list(self.clusters),
            "failure": failure_name(self.failure),
            "reduced": self.is_reduced,
            "release": self.release,
        }


def limits(store: Store) -> list[DeclaredLimit]:
    """The limits of all targets, by target, operator and form."""
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in declared_rows(store):
        form = form_of(row["words"]) or _first_line(row["words"]).rstrip(".")
        found[row["target"], _operator(row), form].append(row)
    return [_limit(*key, found[key]) for key in sorted(found)]


def _operator(row: Row) -> str:
    told = _OPERATOR.match(str(row["trace"]))
    return told.group(1) if told else SEVERAL


def _first_line(words: str) -> str:
    return words.strip().partition("\n")[0]


def _limit(target: str, operator: str, form: str, rows: list[Row]) -> DeclaredLimit:
    best = rows[0]
    return DeclaredLimit(
        target,
        operator,
        form,
        _first_line(best["words"]),
        sum(int(row["seen"]) for row in rows),
        tuple(cluster_name(number) for number in sorted({int(row["cluster"]) for row in rows})),
        int(best["id"]),
        str(best["case_id"]),
        bool(best["reduced"]),
        str(best["release"]),
    )


BISECTED = "bisected"
BISECTED_FILE = "bisect.json"
RELEASE = Text(r"[0-9A-Za-z.+_-]{1,64}")
_MAYBE = (RELEASE, type(None))
BISECTION = Fields(
    {"first_bad": _MAYBE, "last_good": _MAYBE, "first_fixed": _MAYBE},
    {
        "last_bad": _MAYBE,
        "tried": [Fields({"release": RELEASE, "shows": Text(most=1000)}, {"title": Text()})],
        "symptom": str,
        "title": Text(),
    },
)
"""What a report reads of the document of `crux bisect --json`."""


@dataclass(frozen=True)
class History:
    """The known past of a case.

    `reduction` holds the fields of `crux reduce --json`, `bisection` those of `crux bisect --json`; each is
    empty if there was none. `releases` are those on which it was seen.
    """

    origins: tuple[str, ...] = ()
    reduction: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = ""
    sightings: int = 1
    releases: tuple[str, ...] = ()
    bisection: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_minimal(self) -> bool:
        """Whether a reduction said that nothing smaller shows the failure."""
        return bool(self.reduction.get("minimal"))

    @property
    def is_generated(self) -> bool:
        """Whether every program it was seen in is one that crux has made."""
        return bool(self.origins) and all(origin.startswith("seed:") for origin in self.origins)

    def pass_set(self, case: Case, target: Target, release: str) -> PassSet | None:
        """What the reduction found of this very case on this release; None where it was not asked that."""
        found = self.reduction.get("pass_set") or {}
        wanted = {"case": case.case_id, "target": str(target), "release": release}
        if any(found.get(name) != value for name, value in wanted.items()):
            return None
        return PassSet.of_json(found)

    def sentences(self) -> str:
        """Say how it was found and reduced, for the end of a report."""
        found = "found by" if self.is_generated else "seen on a model of the reporter's and judged by"
        text = f"It was {found} `crux`, a fuzzer and test-case reducer for deep-learning compilers"
        if self.sightings > 1:
            text += f", in {self.sightings} failing programs that it takes for the same bug"
        if not self.reduction:
            return text + "."
        before, after = (all_nodes(self.reduction, when) for when in ("before", "after"))
        if before == after:
            return text + "."
        text += f". The failing program had {before} nodes and was reduced to {after}"
        return text + f" in {self.reduction['checks']} checks."


def history_of_folder(folder: Path) -> History:
    """Read the results of `crux reduce` and, in `bisect.json`, of `crux bisect --json` beside a case."""
    origin = read_facts(folder)["origin"] if os.path.lexists(folder / CASE_FILE) else ""
    reduction, bisected = folder / REDUCTION, folder / BISECTED_FILE
    return History(
        (origin,) if origin else (),
        reduction=read_result(reduction) if os.path.lexists(reduction) else {},
        bisection=_bisection(read_json(bisected), str(bisected)) if os.path.lexists(bisected) else {},
    )


def _bisection(document: Any, where: str) -> dict[str, Any]:
    """The answer of `crux bisect`; raises `UserError` where it is none."""
    found: dict[str, Any] = held_to(document, BISECTION, where, "write it with `crux bisect --json`")
    return found


def history_of_name(store: Store, name: str) -> History:
    """Read a failure's or a cluster's history from the store; a bare case has none."""
    number = failure_named(store, name)
    if number is None:
        return History()
    failure = get_failure(store, number)
    return History(
        origins=tuple(origins(store, number)),
        reduction=reduction_of(store, failure.cluster),
        cluster=failure.cluster_name,
        sightings=count_failures(store, failure.cluster),
        releases=releases_of(store, failure.cluster),
        bisection=bisection_of(store, names_of(failure)),
    )


def names_of(failure: Failure) -> tuple[str, ...]:
    """The names that `crux bisect` may have been given for a failure."""
    return failure.cluster_name, failure.name, failure.case_id, failure.best_case


def bisection_of(store: Store, names: Sequence[str]) -> dict[str, Any]:
    """The newest answer of `crux bisect` for any of these names; empty if none was asked."""
    found = last_event(store, BISECTED, names)
    return _bisection(found, f"{store.path}: bisection of {names[0]}") if found else {}
