"""How a failing case came to be: where it came from, and what its reduction did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triage.failures import count_failures, get_failure, origins, reduction_of
from triage.names import cluster_name, find_cluster, find_failure, representative
from triage.store import Store


@dataclass(frozen=True)
class History:
    """`reduction` holds the fields of `crux reduce --json`, and is empty when there was none."""

    origins: tuple[str, ...] = ()
    reduction: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = ""
    sightings: int = 1

    @property
    def is_minimal(self) -> bool:
        return bool(self.reduction.get("minimal"))

    def sentences(self) -> str:
        text = "It was found by `crux`, a fuzzer and test-case reducer for deep-learning compilers"
        if self.sightings > 1:
            text += f", in {self.sightings} failing programs that reduce to the same bug"
        if not self.reduction:
            return text + "."
        before, after = self.reduction["nodes_before"], self.reduction["nodes_after"]
        text += f". The failing program had {before} nodes and was reduced to {after}"
        return text + f" in {self.reduction['checks']} checks."


def history_of_folder(folder: Path) -> History:
    """What `crux reduce` left beside the case, if it did."""
    path = folder / "reduction.json"
    if not path.is_file():
        return History()
    facts: dict[str, Any] = json.loads(path.read_text())
    needed = ("nodes_before", "nodes_after", "checks")
    return History(reduction=facts if all(name in facts for name in needed) else {})


def history_of_name(store: Store, name: str) -> History:
    """What the store knows of a failure or a cluster; of a bare case nothing."""
    number = find_failure(store, name)
    cluster = None if number else find_cluster(store, name)
    if cluster is not None:
        number = representative(store, cluster)
    if number is None:
        return History()
    failure = get_failure(store, number)
    sightings = count_failures(store, failure.cluster)
    found = tuple(origins(store, number))
    return History(found, reduction_of(store, failure.cluster), cluster_name(failure.cluster), sightings)
