"""Exception: an error that one configuration raises and another does not, or that no one should raise."""

from corpus.case import Case
from oracles.backends import find_backend
from oracles.naming.signature import symptom_of_run
from oracles.numerics.input_noise import contradiction, keeps_to
from oracles.probes.context import Context, evidence
from oracles.text.normalise import name_operators, parse_message, unwrap
from oracles.verdict import Outcome, Phase, Run, Status, Verdict

ORDER = 50
MOST_TEXT = 160


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """An exception, if only some configurations raise one."""
    baseline, others = runs[0], runs[1:]
    raised = [run for run in others if run.status is Status.EXCEPTION]
    if baseline.is_ok:
        return _verdict(raised[0], "optimised", runs, context) if raised else None
    if baseline.status is not Status.EXCEPTION:
        return None
    if len(raised) < len(others) and not _is_due(baseline, context):
        return _verdict(baseline, "un-optimised", runs, context)
    # Every configuration refuses a model that the checker accepts: another implementation decides
    if _is_computed(context):
        return _verdict(runs[0], "", runs, context)
    symptom = symptom_of_run(Outcome.INVALID, runs[0], context.names)
    title = f"refused by {context.referee.config.label} too: {_summary(runs[0])}"
    return Verdict(Outcome.INVALID, runs[0].phase, title, symptom, runs)


def _is_computed(context: Context) -> bool:
    """Whether another implementation computes what is declared: numpy broadcasts what operators may not."""
    types = ((context.declared(name), value) for name, value in context.referee.outputs.items())
    return context.referee.is_ok and all(
        declared is None or contradiction(declared, value) is None or keeps_to(declared, value, "shape")
        for declared, value in types
    )


def _is_due(baseline: Run, context: Context) -> bool:
    """Whether the data are not allowed: another implementation refuses them, and not for want of a kernel.

    Then the optimiser has only removed what looks at them.
    """
    referee = context.referee
    refused = baseline.phase is Phase.EXECUTE and referee.status is Status.EXCEPTION
    return refused and find_backend("reference").classify(referee) != "unsupported"


def _verdict(run: Run, side: str, runs: tuple[Run, ...], context: Context) -> Verdict:
    symptom = symptom_of_run(Outcome.EXCEPTION, run, context.names, side)
    title = f"{_summary(run)} ({run.config.label} only)" if side else f"{_summary(run)} (every configuration)"
    if run.phase is Phase.IMPORT:  # no configuration has a part in it
        title = _summary(run)
    return Verdict(Outcome.EXCEPTION, run.phase, title, symptom, evidence(runs, run))


def _summary(run: Run) -> str:
    parsed = parse_message(run.message)
    text = " ".join((unwrap(name_operators(parsed.rest)) or run.message).split())
    text = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT].rstrip()}…"
    place = f" in {parsed.site}" if parsed.site else f" of {parsed.op}" if parsed.op else ""
    return f"{run.error}{place} during {run.phase}: {text}"
