"""Memory: a run passed its memory limit, or the backend said itself that it could not allocate."""

from corpus.case import Case
from oracles.naming.signature import symptom_of_run
from oracles.probes.context import Context, evidence, own, side_of
from oracles.verdict import Outcome, Run, Status, Verdict

ORDER = 30


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Out of memory, if a run took more than it may."""

    def is_out(run: Run) -> bool:
        refused = run.status is Status.EXCEPTION and context.classify(run) == "out-of-memory"
        return refused or run.status is Status.OUT_OF_MEMORY

    starved = next((run for run in own(runs) if is_out(run)), None)
    if starved is None or (starved is not own(runs)[0] and runs[0].status is Status.EXCEPTION):
        return None
    side = side_of(starved, runs)
    symptom = symptom_of_run(Outcome.OUT_OF_MEMORY, starved, context.names, side)
    where = " only" if side else ""
    title = f"out of memory during {starved.phase} ({starved.config.label}{where})"
    return Verdict(Outcome.OUT_OF_MEMORY, starved.phase, title, symptom, evidence(runs, starved))
