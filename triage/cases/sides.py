"""One case on several targets: what each does with it, and which of them stands alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corpus.case import Case
from corpus.target import Target
from corpus.values import Value
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance, compare_outputs
from oracles.optional import SETTING
from oracles.probes.firing import backend_configs
from oracles.verdict import HARMLESS, Outcome, Verdict
from triage.cases.judging import Judges

SAYS_NOTHING = HARMLESS - {Outcome.PASS}
"""A target with such an outcome neither agrees nor disagrees with the others."""


@dataclass(frozen=True)
class Side:
    """One target's result for a case; `outputs` are its users' values, None if there are none."""

    target: Target
    verdict: Verdict
    outputs: Mapping[str, Value] | None

    @property
    def says(self) -> bool:
        """Whether it has anything to say: it runs the program, or fails in a way that is a bug."""
        return self.verdict.outcome not in SAYS_NOTHING


def side_of(case: Case, target: Target, judge: Judge) -> Side:
    """Judge the case on a target and run it as the target's users do."""
    held = replace(case, target=target)
    verdict = judge.verdict(held)
    (run,) = judge.runs(held, (backend_configs(target),))
    return Side(target, verdict, run.outputs if run.is_ok else None)


def compare_sides(case: Case, targets: Sequence[Target], judges: Judges) -> dict[str, Any]:
    """Judge a case on every target; the document is that of who stands alone, else of the first bug.

    A target stands alone if all others agree with each other and not with it. If each target by itself shows
    nothing, the one that stands alone is judged once more against the other backends, rounding accounted for.
    """
    sides = [side_of(case, target, judges.of(target, case.format)) for target in targets]
    lonely = alone([side for side in sides if side.says], judges.options.tolerances.plain)
    if lonely is not None and not lonely.verdict.is_bug:
        target = lonely.target.with_setting(SETTING, "backends")
        verdict = judges.of(target, case.format).verdict(replace(case, target=target))
        sides = [replace(each, verdict=verdict) if each is lonely else each for each in sides]
        lonely = replace(lonely, verdict=verdict) if verdict.is_bug else None
    shown = lonely or next((side for side in sides if side.verdict.is_bug), sides[0])
    return {
        **_facts(shown),
        "bug": shown.verdict.is_bug,
        "alone": str(lonely.target) if lonely is not None else "",
        "targets": [_facts(side) for side in sides],
        "notes": list(shown.verdict.notes),
    }


def alone(sides: Sequence[Side], tolerance: Tolerance) -> Side | None:
    """Find the one side that differs from all others, if these agree; two sides have no majority."""
    if len(sides) < 3:
        return None
    for lonely in sides:
        first, *others = (side for side in sides if side is not lonely)
        if all(_agree(first, other, tolerance) for other in others) and not _agree(lonely, first, tolerance):
            return lonely
    return None


def _agree(left: Side, right: Side, tolerance: Tolerance) -> bool:
    if left.outputs is None or right.outputs is None:
        return left.outputs is right.outputs
    return compare_outputs(left.outputs, right.outputs, tolerance) is None


def _facts(side: Side) -> dict[str, Any]:
    verdict = side.verdict
    return {
        "outcome": verdict.outcome.value,
        "phase": verdict.phase.value,
        "symptom": str(verdict.symptom or ""),
        "title": verdict.title,
        "target": str(side.target),
    }
