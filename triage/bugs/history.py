"""How a failing case came to be: where it came from, and what its reduction did."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.case import CASE_FILE, Case, read_facts
from corpus.reading import Fields, Text, held_to, read_json
from corpus.target import Target
from reducer.pass_sets import PassSet
from reducer.result import NAME as REDUCTION
from reducer.result import read_result
from triage.store.artifacts import last_event
from triage.store.database import Store
from triage.store.failures import count_failures, first_origins, get_failure, reduction_of, releases_of
from triage.store.names import cluster_name, find_cluster, find_failure, representative

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
        before, after = self.reduction["nodes_before"], self.reduction["nodes_after"]
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
    number = find_failure(store, name)
    cluster = None if number else find_cluster(store, name)
    if cluster is not None:
        number = representative(store, cluster)
    if number is None:
        return History()
    failure = get_failure(store, number)
    cluster_id = cluster_name(failure.cluster)
    return History(
        origins=tuple(first_origins(store, number)),
        reduction=reduction_of(store, failure.cluster),
        cluster=cluster_id,
        sightings=count_failures(store, failure.cluster),
        releases=releases_of(store, failure.cluster),
        bisection=bisection_of(store, (cluster_id, failure.name, failure.case_id, failure.best_case)),
    )


def note_bisection(store: Store, name: str, document: Mapping[str, Any]) -> None:
    """Keep the answer of `crux bisect` as an event of what it was asked for."""
    store.log(BISECTED, name, **document)


def bisection_of(store: Store, names: Sequence[str]) -> dict[str, Any]:
    """The newest answer of `crux bisect` for any of these names; empty if none was asked."""
    found = last_event(store, BISECTED, names)
    return _bisection(found, f"{store.path}: bisection of {names[0]}") if found else {}
