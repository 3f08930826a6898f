"""Undefined: a program that divides by zero, leaves its memory, or the like, may do as it pleases.

What a compiler does with such a program at run time is no failure of it. An interpreter of the program's
language says so, where there is one.
"""

from corpus.case import Case
from oracles.naming.signature import symptom_of_run
from oracles.probes.context import Context
from oracles.verdict import Outcome, Phase, Run, Verdict

ORDER = 5


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Invalid, where a run of an undefined program ends badly as it is executed."""
    failed = next((run for run in runs if not run.is_ok and run.phase is Phase.EXECUTE), None)
    reason = context.undefined if failed is not None else ""
    if failed is None or not reason:
        return None
    symptom = symptom_of_run(Outcome.INVALID, failed, context.names)
    return Verdict(Outcome.INVALID, failed.phase, f"the program is undefined: {reason}", symptom, runs)
