"""Nondeterminism: the un-optimised program, run again on the same inputs, gives another result.

Memory that a kernel never wrote shows like this. Asked only where the runs do not agree anyway: it takes
several more of them.
"""

from corpus.case import Case
from oracles.naming.signature import symptom_of_difference
from oracles.numerics.compare import compare_outputs
from oracles.probes.context import Context
from oracles.verdict import Outcome, Phase, Run, Verdict, WrongResult

ORDER = 55


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Wrong values, if one configuration gives different results in two runs."""
    baseline = runs[0]
    if not all(run.is_ok for run in runs) or context.is_random:
        return None
    for again in context.repeats:
        difference = compare_outputs(baseline.outputs, again.outputs, context.tolerance)
        if again.is_ok and difference is not None:
            symptom = symptom_of_difference("nondeterministic", "un-optimised")
            title = f"another result on every run: {difference} ({baseline.config.label})"
            wrong = WrongResult(difference.output, "un-optimised", "nondeterministic", difference.magnitude)
            return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, (baseline, again), wrong=wrong)
    return None
