"""Crash: the process died of a signal, whatever the model was."""

from corpus.case import Case
from oracles.naming.signature import signal_name, symptom_of_run
from oracles.probes.context import Context, evidence, own, side_of
from oracles.verdict import Outcome, Run, Status, Verdict

ORDER = 10


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A crash, if a process of the target died."""
    crashed = next((run for run in own(runs) if run.status is Status.CRASH), None)
    if crashed is None:
        return None
    # a kernel that dies without optimisation is one bug, whether or not folding reaches it earlier
    side = side_of(crashed, runs)
    symptom = symptom_of_run(Outcome.CRASH, crashed, context.names, side)
    place = f" in {symptom.site}" if symptom.site else ""
    title = f"{signal_name(crashed.signal)}{place} during {crashed.phase} ({crashed.config.label})"
    return Verdict(Outcome.CRASH, crashed.phase, title, symptom, evidence(runs, crashed))
