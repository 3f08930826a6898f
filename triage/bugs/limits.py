"""The table of declared limits: what a compiler says itself that it does not do, by operator and form."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from oracles.worker.limits import form_of
from triage.store.database import Row, Store
from triage.store.failures import declared_rows
from triage.store.names import cluster_name, failure_name

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
