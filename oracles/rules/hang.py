"""Hang: a run used up its CPU or wall time.

A program that stands for a great many steps may just be long: nobody is to blame for it.
"""

from __future__ import annotations

import math

from corpus.case import Case
from oracles.naming.signature import symptom_of_run
from oracles.probes.context import Context, evidence, own, side_of
from oracles.run import Run, Status
from oracles.verdict import Outcome, Symptom, Verdict

ORDER = 20
LONG = "may be long"
MOST_STEPS = 20_000
"""How many nodes a program may run for its hang to be called one."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Return a timeout, if a run of the target did not end; undecided if the program may have no near end."""
    hung = next((run for run in own(runs) if run.status is Status.TIMEOUT), None)
    if hung is None:
        return None
    if context.steps > MOST_STEPS:
        return _is_long(context.steps, hung, runs)
    side = side_of(hung, runs)
    symptom = symptom_of_run(Outcome.TIMEOUT, hung, context.names, side)
    where = " only" if side else ""
    title = f"no end during {hung.phase} ({hung.config.label}{where})"
    return Verdict(Outcome.TIMEOUT, hung.phase, title, symptom, evidence(runs, hung))


def _is_long(steps: float, hung: Run, runs: tuple[Run, ...]) -> Verdict:
    symptom = Symptom(Outcome.UNDECIDED, hung.phase, LONG)
    count = f"{steps:.3g}" if math.isfinite(steps) else "an unknown number of"
    title = (
        f"undecided: no end during {hung.phase} ({hung.config.label}), but it runs {count} nodes: may be long"
    )
    return Verdict(Outcome.UNDECIDED, hung.phase, title, symptom, evidence(runs, hung))
