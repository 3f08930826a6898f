"""Mismatch: optimised and un-optimised give different results, beyond what rounding explains."""

from __future__ import annotations

import numpy as np

from corpus.case import Case
from oracles.compare import Difference, compare_outputs
from oracles.context import Context, evidence
from oracles.run import Phase, Run
from oracles.symptom import symptom_of_difference
from oracles.verdict import Outcome, Verdict
from oracles.wrong_side import wrong_side

ORDER = 60
EXACT_LEVELS = ("basic",)
"""Levels at which no group of quantised nodes becomes one integer kernel: every quantisation rounds alone."""


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
    steps = run.config.get("level") not in EXACT_LEVELS
    difference = context.noise.beyond_noise(runs[0].outputs, run.outputs, context.tolerance, steps=steps)
    if difference is None:
        return None
    side, note = _side(runs[0], run, context, difference)
    if side == "un-optimised" and runs[0].config.backend:
        context.notes.append(f"{runs[0].config.label} is the wrong side: {difference}")
        return None
    symptom = symptom_of_difference(difference.kind, side)
    title = f"wrong {difference.kind} of {difference} ({run.config.label} against {runs[0].config.label})"
    return Verdict(
        Outcome.MISMATCH, Phase.COMPARE, title, symptom, evidence(runs, run), (note,) if note else ()
    )


def _side(baseline: Run, run: Run, context: Context, difference: Difference) -> tuple[str, str]:
    """Who is wrong: of two shapes the one that was not inferred, otherwise as a third opinion has it."""
    if difference.kind == "shape":
        actual = run.outputs.get(difference.output)
        declared = context.shape_of(difference.output)
        if isinstance(actual, np.ndarray) and declared == actual.shape:
            return "un-optimised", ""
    return wrong_side(baseline, run, context.referee, difference.output)
