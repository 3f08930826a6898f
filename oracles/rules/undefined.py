"""Undefined: a program of loops that divides by zero, leaves its memory, or the like, may do as it pleases.

What a compiler does with such a program at run time is no failure of it.
"""

from __future__ import annotations

from corpus.case import Case
from oracles.naming.symptom import symptom_of_run
from oracles.probes.context import Context
from oracles.probes.tir_context import TirContext
from oracles.run import Phase, Run
from oracles.verdict import Outcome, Verdict

ORDER = 5


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Invalid, where a run of an undefined program ends badly as it is executed."""
    if not isinstance(context, TirContext):
        return None
    failed = next((run for run in runs if not run.is_ok and run.phase is Phase.EXECUTE), None)
    if failed is None or not context.interpretation.reason or not context.interpretation.is_modelled:
        return None
    reason = context.interpretation.reason
    symptom = symptom_of_run(Outcome.INVALID, failed, context.names)
    return Verdict(Outcome.INVALID, failed.phase, f"the program is undefined: {reason}", symptom, runs)
