"""Runs of what is compiled before the one that counts: which fit the program, and which fail alone."""

from dataclasses import replace

from corpus.case import EARLIER, Case
from oracles.backends import find_backend
from oracles.sandbox.executor import Executor, job_of
from oracles.verdict import Outcome, Phase, Run, Status, Symptom, Verdict
from oracles.worker.arrays import resized


def held(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs, those as failed that raise in an earlier run of the case which the baseline takes."""
    return (*runs[:1], *(run.held_to(runs[0]) for run in runs[1:]))


def taken_by_baseline(case: Case, executor: Executor) -> Case:
    """The case without earlier runs that another framework's baseline refuses.

    A target that does not look at sizes may then read and write where it should not.
    """
    if not case.earlier or not executor.configs[0].backend:
        return case
    (baseline,) = executor.runs(case, executor.configs[:1])
    return case.with_earlier([sizes for at, sizes in enumerate(case.earlier) if at not in baseline.refused])


def without_refused(case: Case, verdict: Verdict, executor: Executor) -> Case | None:
    """The case without the earlier run that raised, if an independent implementation refuses it as well."""
    failing = verdict.failing
    if verdict.outcome is not Outcome.EXCEPTION or failing is None or not failing.refused:
        return None
    (at,) = failing.refused
    shapes = case.earlier_shapes[at]
    inputs = {name: resized(value, shapes.get(name)) for name, value in case.inputs.items()}
    referee = executor.ask_referee(replace(job_of(case, ()), inputs=inputs))
    return case.with_earlier([*case.earlier[:at], *case.earlier[at + 1 :]]) if is_refusal(referee) else None


def is_refusal(referee: Run) -> bool:
    """Whether an independent implementation refuses a program on its inputs, and not for want of a kernel."""
    unsupported = find_backend("reference").classify(referee) == "unsupported"
    return referee.status is Status.EXCEPTION and not unsupported


def not_repeated(why: str) -> Verdict:
    """Unsupported: no run may come before the one that counts."""
    symptom = Symptom(Outcome.UNSUPPORTED, Phase.EXECUTE, EARLIER)
    return Verdict(Outcome.UNSUPPORTED, Phase.EXECUTE, f"not supported: earlier runs, as {why}", symptom)
