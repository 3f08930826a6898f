"""What a reduction ends with, and the file that tells it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.measure import Measure
from oracles.signature import Signature
from oracles.verdict import Verdict
from reducer.engine import Step

NAME = "reduction.json"


@dataclass(frozen=True)
class Reduction:
    """The smallest case, what it shows, and what it took.

    `checks` counts every evaluation of the predicate on any candidate, the first included and cache hits
    not; `sweep_checks` those after the last accepted change. `is_minimal` is only set when a full round of
    all `moves` changed nothing. `rate` is the share of runs in which the failure shows; below 1 each decision
    took up to `runs_per_decision` runs.
    """

    case: Case
    verdict: Verdict | None
    signature: Signature | None
    before: Measure
    after: Measure
    checks: int
    sweep_checks: int
    cached: int
    seconds: float
    rate: float
    runs_per_decision: int
    is_minimal: bool
    moves: tuple[str, ...]
    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields of the command-line contract."""
        return {**self._lasting(), "cached": self.cached, "seconds": round(self.seconds, 3)}

    def save(self, folder: Path) -> None:
        """Write the case and `reduction.json`; the same bytes for any run of the same reduction."""
        self.case.save(folder)
        facts = {**self._lasting(), "steps": [asdict(step) for step in self.steps]}
        (folder / NAME).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")

    def _lasting(self) -> dict[str, Any]:
        """What does not depend on the machine or on how often the run was interrupted."""
        return {
            "nodes_before": self.before.nodes,
            "nodes_after": self.after.nodes,
            "function_nodes_before": self.before.function_nodes,
            "function_nodes_after": self.after.function_nodes,
            "bytes_before": self.before.bytes,
            "bytes_after": self.after.bytes,
            "checks": self.checks,
            "sweep_checks": self.sweep_checks,
            "symptom": str(self.verdict.symptom) if self.verdict else "",
            "signature": self.signature.digest if self.signature else "",
            "minimal": self.is_minimal,
            "failure_rate": self.rate,
            "runs_per_decision": self.runs_per_decision,
            "moves": list(self.moves),
            "ops": list(self.after.ops),
            "passes": [],
        }


def finished(folder: Path) -> Mapping[str, Any] | None:
    """What `reduction.json` tells of a reduction that ended by itself; None where there is none."""
    path = folder / NAME
    if not path.is_file():
        return None
    facts: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts if facts.get("minimal") else None
