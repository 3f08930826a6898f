"""Hang: a run used up its CPU or wall time."""

from __future__ import annotations

from corpus.case import Case
from oracles.naming.symptom import symptom_of_run
from oracles.probes.context import Context, evidence, own, side_of
from oracles.run import Run, Status
from oracles.verdict import Outcome, Verdict

ORDER = 20


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A timeout, if a run of the target did not end."""
    hung = next((run for run in own(runs) if run.status is Status.TIMEOUT), None)
    if hung is None:
        return None
    side = side_of(hung, runs)
    symptom = symptom_of_run(Outcome.TIMEOUT, hung, context.names, side)
    where = " only" if side else ""
    title = f"no end during {hung.phase} ({hung.config.label}{where})"
    return Verdict(Outcome.TIMEOUT, hung.phase, title, symptom, evidence(runs, hung))
