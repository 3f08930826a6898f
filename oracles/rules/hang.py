"""Hang: a run used up its CPU or wall time, twice, and the un-optimised way takes a small part of it.

A program that stands for a great many steps may just be long: nobody is to blame for it. Nor is a compiler
that takes long; the judge gives it more time before this rule sees its runs.
"""

import math

from corpus.case import Case
from oracles.naming.signature import symptom_of_run
from oracles.probes.context import Context, evidence, own, side_of
from oracles.verdict import Outcome, Run, Status, Symptom, Verdict

ORDER = 20
LONG = "may be long"
MOST_STEPS = 20_000
"""How many nodes a program may run for its hang to be called one."""
BUSY = 0.5
"""Of its CPU time, what a run has used that does not sleep."""
HANGING_TIMES = 20
"""How many times the CPU time of the un-optimised way a hang takes at least."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A timeout, if a run of the target did not end; undecided if the program may have no near end."""
    hung = next((run for run in own(runs) if run.status is Status.TIMEOUT), None)
    if hung is None:
        return None
    if context.steps > MOST_STEPS:
        count = f"{context.steps:.3g}" if math.isfinite(context.steps) else "an unknown number of"
        return _undecided(f"it runs {count} nodes", hung, runs)
    if runs[0].is_ok and _may_be_slow(hung, runs[0], context):
        return _undecided(
            f"{hung.cpu_seconds:.0f} CPU seconds, un-optimised {runs[0].cpu_seconds:.1f}", hung, runs
        )
    side = side_of(hung, runs)
    symptom = symptom_of_run(Outcome.TIMEOUT, hung, context.names, side)
    where = " only" if side else ""
    title = f"no end during {hung.phase} ({hung.config.label}{where})"
    return Verdict(Outcome.TIMEOUT, hung.phase, title, symptom, evidence(runs, hung))


def _may_be_slow(hung: Run, plain: Run, context: Context) -> bool:
    """Whether a run that computed until it was ended took too little of the plain one's time for a hang."""
    if hung.cpu_seconds >= HANGING_TIMES * plain.cpu_seconds:
        return False
    return hung.cpu_seconds >= BUSY * context.executor.limits.cpu_seconds


def _undecided(why: str, hung: Run, runs: tuple[Run, ...]) -> Verdict:
    symptom = Symptom(Outcome.UNDECIDED, hung.phase, LONG)
    title = f"undecided: no end during {hung.phase} ({hung.config.label}), but {why}: may be long"
    return Verdict(Outcome.UNDECIDED, hung.phase, title, symptom, evidence(runs, hung))
