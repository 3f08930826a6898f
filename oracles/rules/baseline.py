"""Baseline: where another backend's result is what to compare with, and that backend gives none.

Also what a target refuses there for want of a kernel, which says nothing about its optimiser.
"""

from __future__ import annotations

from corpus.case import Case
from oracles.context import Context, evidence, own
from oracles.run import Run, Status
from oracles.symptom import symptom_of_run
from oracles.verdict import Outcome, Verdict

ORDER = 35


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    baseline = runs[0]
    if not baseline.config.backend:
        return None
    for run in own(runs):
        if run.status is Status.EXCEPTION and context.classify(run) == "unsupported":
            return _verdict(Outcome.UNSUPPORTED, run, "not supported", runs, context)
    if baseline.is_ok:
        return None
    refused = baseline.status is Status.EXCEPTION and context.classify(baseline) != "unsupported"
    outcome = Outcome.INVALID if refused else Outcome.UNSUPPORTED
    return _verdict(outcome, baseline, f"{baseline.config.label} gives nothing to compare", runs, context)


def _verdict(outcome: Outcome, run: Run, why: str, runs: tuple[Run, ...], context: Context) -> Verdict:
    symptom = symptom_of_run(outcome, run, context.names)
    first = (run.message.strip() or run.status.value).split("\n")[0][:200]
    return Verdict(outcome, run.phase, f"{why}: {first}", symptom, evidence(runs, run))
