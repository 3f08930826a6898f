"""Mismatch: optimised and un-optimised give different results, beyond what rounding explains."""

from __future__ import annotations

from corpus.case import Case
from oracles.compare import compare_outputs
from oracles.context import Context
from oracles.run import Phase, Run
from oracles.symptom import symptom_of_difference
from oracles.verdict import Outcome, Verdict

ORDER = 60


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    baseline = runs[0]
    if not baseline.is_ok:
        return None
    for run in runs[1:]:
        if run.is_ok and compare_outputs(baseline.outputs, run.outputs, context.tolerance) is not None:
            verdict = _weigh(run, runs, context)
            if verdict is not None:
                return verdict
    return None


def _weigh(run: Run, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    difference = context.noise.beyond_noise(runs[0].outputs, run.outputs, context.tolerance)
    if difference is None:
        return None
    side, why = context.wrong_side(runs[0], run, difference)
    symptom = symptom_of_difference(difference, side)
    title = f"wrong {difference.kind} of {difference} ({run.config.label} against {runs[0].config.label})"
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, runs, why)
