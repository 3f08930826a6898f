"""Refusal: the un-optimised backend turned the case down, and it was right to."""

from __future__ import annotations

from corpus.case import Case
from corpus.errors import UserError
from oracles.naming.symptom import symptom_of_run
from oracles.probes.context import Context
from oracles.run import Run, Status
from oracles.verdict import Outcome, Verdict

ORDER = 40


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Invalid or unsupported, if the un-optimised run is refused."""
    baseline = runs[0]
    if baseline.status is not Status.EXCEPTION:
        return None
    kind = context.classify(baseline)
    if kind == "unavailable":
        raise UserError(
            f"target {case.target}: {_first_line(baseline.message)}; choose another target or build"
        )
    if kind == "unsupported":
        return _refused(Outcome.UNSUPPORTED, "not supported", runs, context)
    if kind == "invalid-input":
        return _refused(Outcome.INVALID, "the data are not allowed", runs, context)
    if context.complaint is not None:
        return _refused(
            Outcome.INVALID, f"the checker agrees: {_first_line(context.complaint)}", runs, context
        )
    return None


def _refused(outcome: Outcome, why: str, runs: tuple[Run, ...], context: Context) -> Verdict:
    symptom = symptom_of_run(outcome, runs[0], context.names)
    return Verdict(outcome, runs[0].phase, f"{why}: {_first_line(runs[0].message)}", symptom, runs)


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0][:200]
