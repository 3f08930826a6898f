"""Contradicted: inputs that give one symbolic dim of the model two sizes; what fails of them is no bug."""

from corpus.case import Case
from oracles.naming.signature import symptom_of_run
from oracles.numerics.compare import compare_outputs
from oracles.probes.context import Context
from oracles.verdict import Outcome, Run, Verdict

ORDER = 33
"""Before what reads the messages that such inputs bring about; a death of the process counts all the same."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Invalid, if the inputs contradict each other and some run fails or differs."""
    words = context.contradiction
    if not words:
        return None
    failing = next((run for run in runs if not run.is_ok), None)
    if failing is None:
        failing = next((run for run in runs[1:] if _differs(runs[0], run, context)), None)
    if failing is None:
        return None
    symptom = symptom_of_run(Outcome.INVALID, failing, context.names)
    title = f"the inputs contradict each other: {words} (a matter for whoever made the inputs)"
    return Verdict(Outcome.INVALID, failing.phase, title, symptom, runs)


def _differs(baseline: Run, run: Run, context: Context) -> bool:
    return compare_outputs(baseline.outputs, run.outputs, context.screen) is not None
