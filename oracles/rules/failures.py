"""Rules of runs that fail: a process dies, hangs, starves, or raises what it should not."""

import math

from corpus.case import Case
from oracles.backends import find_backend
from oracles.naming import signal_name, symptom_of_run
from oracles.numerics.input_noise import contradiction, keeps_to
from oracles.probes.context import Context, evidence, own, side_of
from oracles.rules import Rule
from oracles.text.failure_text import wordless_site
from oracles.text.normalise import name_operators, parse_message, unwrap
from oracles.verdict import Outcome, Phase, Run, Status, Symptom, Verdict


def undefined(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A program that divides by zero, leaves its memory, or the like, may do as it pleases.

    What a compiler does with such a program at run time is no failure of it. An interpreter of the program's
    language says so, where there is one.
    """
    failed = next((run for run in runs if not run.is_ok and run.phase is Phase.EXECUTE), None)
    reason = context.excuse(failed) if failed is not None else ""
    if failed is None or not reason:
        return None
    symptom = symptom_of_run(Outcome.INVALID, failed, context.names)
    return Verdict(Outcome.INVALID, failed.phase, f"the program is undefined: {reason}", symptom, runs)


def crash(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """The process died of a signal, whatever the model was."""
    crashed = next((run for run in own(runs) if run.status is Status.CRASH), None)
    if crashed is None:
        return None
    # a kernel that dies without optimisation is one bug, whether or not folding reaches it earlier
    side = side_of(crashed, runs)
    symptom = symptom_of_run(Outcome.CRASH, crashed, context.names, side)
    place = f" in {symptom.site}" if symptom.site else ""
    title = f"{signal_name(crashed.signal)}{place} during {crashed.phase} ({crashed.config.label})"
    return Verdict(Outcome.CRASH, crashed.phase, title, symptom, evidence(runs, crashed))


LONG = "may be long"
MOST_STEPS = 20_000
"""How many nodes a program may run for its hang to be called one."""
BUSY = 0.5
"""Of its CPU time, what a run has used that does not sleep."""
HANGING_TIMES = 20
"""How many times the CPU time of the un-optimised way a hang takes at least."""


def hang(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A run used up its CPU or wall time, twice, and the un-optimised way takes a small part of it.

    A program that stands for a great many steps may just be long: nobody is to blame for it. Nor is a
    compiler that takes long; the judge gives it more time before this rule sees its runs.
    """
    hung = next((run for run in own(runs) if run.status is Status.TIMEOUT), None)
    if hung is None:
        return None
    if context.steps > MOST_STEPS:
        count = f"{context.steps:.3g}" if math.isfinite(context.steps) else "an unknown number of"
        return _may_be_long(f"it runs {count} nodes", hung, runs)
    if runs[0].is_ok and _may_be_slow(hung, runs[0], context):
        return _may_be_long(
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


def _may_be_long(why: str, hung: Run, runs: tuple[Run, ...]) -> Verdict:
    symptom = Symptom(Outcome.UNDECIDED, hung.phase, LONG)
    title = f"undecided: no end during {hung.phase} ({hung.config.label}), but {why}: may be long"
    return Verdict(Outcome.UNDECIDED, hung.phase, title, symptom, evidence(runs, hung))


def memory(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A run passed its memory limit, or the backend said itself that it could not allocate."""

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


MOST_TEXT = 160


def exception(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """An error that one configuration raises and another does not, or that no one should raise."""
    baseline, others = runs[0], runs[1:]
    raised = [run for run in others if run.status is Status.EXCEPTION]
    if baseline.is_ok:
        return _raised(raised[0], "optimised", runs, context) if raised else None
    if baseline.status is not Status.EXCEPTION:
        return None
    if len(raised) < len(others) and not _is_due(baseline, context):
        return _raised(baseline, "un-optimised", runs, context)
    # Every configuration refuses a model that the checker accepts: another implementation decides
    if _is_computed(context):
        return _raised(runs[0], "", runs, context)
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


def _raised(run: Run, side: str, runs: tuple[Run, ...], context: Context) -> Verdict:
    symptom = symptom_of_run(Outcome.EXCEPTION, run, context.names, side)
    title = f"{_summary(run)} ({run.config.label} only)" if side else f"{_summary(run)} (every configuration)"
    if run.phase is Phase.IMPORT:  # no configuration has a part in it
        title = _summary(run)
    return Verdict(Outcome.EXCEPTION, run.phase, title, symptom, evidence(runs, run))


def _summary(run: Run) -> str:
    parsed = parse_message(run.message)
    text = " ".join((unwrap(name_operators(parsed.rest)) or run.message).split())
    site = parsed.site or wordless_site(text, run.trace)
    text = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT].rstrip()}…"
    place = f" in {site}" if site else f" of {parsed.op}" if parsed.op else ""
    return f"{run.error}{place} during {run.phase}: {text}"


RULES = (
    Rule(5, undefined),
    Rule(10, crash),
    Rule(20, hang),
    Rule(30, memory),
    Rule(50, exception),
)
