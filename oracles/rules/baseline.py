"""Baseline: where another backend's result is what to compare with, and that backend gives none.

Also what a target refuses there for want of a kernel, which says nothing about its optimiser. If it writes
programs for another framework, then also what it has no words for, or that framework no kernel.
"""

from corpus.case import Case
from oracles.backends import find_backend
from oracles.naming.signature import symptom_of_run
from oracles.probes.context import Context, evidence, own
from oracles.verdict import Outcome, Run, Status, Verdict

ORDER = 35
BY_NAME = frozenset(["OpNotImplemented", "NotImplementedError", "Unsupported"])
"""The classes of exceptions that say that an operator is in no table."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Invalid or unsupported, if the un-optimised run of another package refuses, or what is handed on."""
    baseline = runs[0]
    if not baseline.config.backend and not (baseline.is_ok and _hands_on(case)):
        return None
    for run in own(runs):
        if run.status is Status.EXCEPTION and _is_unsupported(run, baseline, context):
            return _verdict(Outcome.UNSUPPORTED, run, "not supported", runs, context)
    if baseline.is_ok:
        return None
    refused = baseline.status is Status.EXCEPTION and context.classify(baseline) != "unsupported"
    outcome = Outcome.INVALID if refused else Outcome.UNSUPPORTED
    return _verdict(outcome, baseline, f"{baseline.config.label} gives nothing to compare", runs, context)


def _hands_on(case: Case) -> bool:
    return case.target is not None and find_backend(case.target.backend).exported_with is not None


def _is_unsupported(run: Run, baseline: Run, context: Context) -> bool:
    """Whether it lacks an operator by name, or a dtype that a node by itself cannot have either.

    What only shows within the program was brought about on the way there: that is no missing support.
    """
    if context.classify(run) != "unsupported":
        return False
    is_by_name = run.error in BY_NAME
    return is_by_name or not baseline.is_ok or context.is_refused_alone(run.config)


def _verdict(outcome: Outcome, run: Run, why: str, runs: tuple[Run, ...], context: Context) -> Verdict:
    symptom = symptom_of_run(outcome, run, context.names)
    first = (run.message.strip() or run.status.value).split("\n")[0][:200]
    return Verdict(outcome, run.phase, f"{why}: {first}", symptom, evidence(runs, run))
