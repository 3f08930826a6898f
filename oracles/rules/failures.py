"""Rules of runs that fail: a process dies, hangs, starves, or raises what it should not; and of refusals.

A target may refuse what it should take, and take what it should have refused.
"""

import math

from corpus.case import Case
from corpus.errors import UserError
from oracles.abilities import language_of
from oracles.backends import find_backend
from oracles.failure_text import wordless_site
from oracles.naming import signal_name, symptom_of_run
from oracles.normalise import name_operators, parse_message, template, unwrap
from oracles.numerics.compare import compare_outputs
from oracles.numerics.input_noise import contradiction, keeps_to
from oracles.probes.context import Context, evidence, own, side_of
from oracles.probes.earlier_runs import is_refusal
from oracles.probes.wrong_side import UN_OPTIMISED
from oracles.rules import Rule
from oracles.verdict import (
    AGREEMENT,
    REFUSAL,
    SURVIVAL,
    Outcome,
    Phase,
    Run,
    Status,
    Symptom,
    Verdict,
    WrongResult,
)


def undefined(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A program that divides by zero, leaves its memory, or the like, may do as it pleases.

    What a compiler does with such a program at run time is no failure of it, nor that it refuses one whose
    rules the referee knows. An interpreter of the program's language says so, where there is one.
    """
    knows = language_of(case.format).referee_knows_rules
    failed = next((run for run in runs if not run.is_ok and _may_fail(run, knows)), None)
    reason = context.excuse(failed) if failed is not None else ""
    if failed is None or not reason:
        return None
    symptom = symptom_of_run(Outcome.INVALID, failed, context.names)
    return Verdict(Outcome.INVALID, failed.phase, f"the program is undefined: {reason}", symptom, runs)


def _may_fail(run: Run, knows_rules: bool) -> bool:
    return run.phase is Phase.EXECUTE or (knows_rules and run.status is Status.EXCEPTION)


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
        return may_be_long(f"it runs {count} nodes", hung, runs)
    if runs[0].is_ok and _may_be_slow(hung, runs[0], context):
        return may_be_long(
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


def may_be_long(why: str, hung: Run, runs: tuple[Run, ...]) -> Verdict:
    """Undecided: a run was ended that may have come to an end."""
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
    if len(raised) < len(others) and not _is_due(case, baseline, context):
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


def _is_due(case: Case, baseline: Run, context: Context) -> bool:
    """Whether the data are not allowed: another implementation refuses them, and not for want of a kernel.

    Then the optimiser has only removed what looks at them. One that knows the language's rules may refuse
    what the framework's own checker lets pass, such as an axis that is not there.
    """
    tells = baseline.phase is Phase.EXECUTE or language_of(case.format).referee_knows_rules
    return tells and is_refusal(context.referee)


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


def is_due_to_refuse(case: Case, runs: tuple[Run, ...]) -> bool | None:
    """Whether a process died, or one is due to refuse and hangs, or does not refuse at all."""
    if AGREEMENT in case.settings:
        refused = [run.status is Status.EXCEPTION for run in runs]
        return False if all(refused) or (refused[0] and runs[0].phase is Phase.EXECUTE) else None
    if not (SURVIVAL in case.settings or REFUSAL in case.settings):
        return None
    if any(run.status is Status.CRASH for run in runs) or SURVIVAL in case.settings:
        return any(run.status is Status.CRASH for run in runs)
    return all(run.is_ok for run in runs) or any(run.status is Status.TIMEOUT for run in runs)


def complaint_of(case: Case, context: Context) -> str | None:
    """Say why a program should be refused; None if nobody but its demand says so.

    It is what the checker says, or the referee where the framework's own checker lets the program pass. What
    the generator noted is not asked: it told of the whole program, and a reduced one may break another rule.
    """
    if context.complaint is not None or context.referee.status is not Status.EXCEPTION:
        return context.complaint
    knows = language_of(case.format).referee_knows_rules
    return f"{context.referee.error}: {context.referee.message}" if knows else None


def refusal_due(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A program with a violation was accepted, or one with a dangerous value was survived.

    Acceptance is a find only where onnx's checker or inference and an independent implementation turn the
    program down as well: many violations mean nothing to a backend that never looks at them. Of what must be
    survived only a death counts, which the rules before this one report.
    """
    if REFUSAL not in case.settings or not all(run.is_ok for run in runs):
        return None
    reads_no_onnx = case.target is not None and not find_backend(case.target.backend).reads_onnx
    complaint = complaint_of(case, context)
    if reads_no_onnx or complaint is None or context.referee.status is not Status.EXCEPTION:
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs)
    complaint = complaint.split("\n")[0][:160]
    site = template(complaint, context.names)
    symptom = Symptom(Outcome.MISMATCH, Phase.IMPORT, "accepted", site, side=UN_OPTIMISED)
    wrong = WrongResult(
        "", UN_OPTIMISED, "accepted", truth="the checker and the referee", contradiction=complaint
    )
    title = f"accepted although invalid: {complaint} ({runs[0].config.label})"
    return Verdict(Outcome.MISMATCH, Phase.IMPORT, title, symptom, runs[:1], wrong=wrong)


def contradicted(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Dims that do not go together, in inputs or operands; what fails of them is no bug."""
    words = context.contradiction
    if not words:
        return None
    failing = next((run for run in runs if not run.is_ok), None)
    if failing is None:
        failing = next((run for run in runs[1:] if _differs(runs[0], run, context)), None)
    if failing is None:
        return None
    symptom = symptom_of_run(Outcome.INVALID, failing, context.names)
    title = f"dims do not go together: {words} (a matter for whoever made the program or its inputs)"
    return Verdict(Outcome.INVALID, failing.phase, title, symptom, runs)


def _differs(baseline: Run, run: Run, context: Context) -> bool:
    return compare_outputs(baseline.outputs, run.outputs, context.screen) is not None


BY_NAME = frozenset(["OpNotImplemented", "NotImplementedError", "Unsupported"])
"""The classes of exceptions that say that an operator is in no table."""


def baseline(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Where another backend's result is what to compare with, and that backend gives none.

    Also what a target refuses there for want of a kernel, which says nothing about its optimiser. If it
    writes programs for another framework, then also what it has no words for, or that framework no kernel.
    """
    baseline = runs[0]
    if not baseline.config.backend and not (baseline.is_ok and _hands_on(case)):
        return None
    for run in own(runs):
        if run.status is Status.EXCEPTION and _is_unsupported(run, baseline, context):
            return _incomparable(Outcome.UNSUPPORTED, run, "not supported", runs, context)
    if baseline.is_ok:
        return None
    refused = baseline.status is Status.EXCEPTION and context.classify(baseline) != "unsupported"
    outcome = Outcome.INVALID if refused else Outcome.UNSUPPORTED
    return _incomparable(
        outcome, baseline, f"{baseline.config.label} gives nothing to compare", runs, context
    )


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


def _incomparable(outcome: Outcome, run: Run, why: str, runs: tuple[Run, ...], context: Context) -> Verdict:
    symptom = symptom_of_run(outcome, run, context.names)
    first = (run.message.strip() or run.status.value).split("\n")[0][:200]
    return Verdict(outcome, run.phase, f"{why}: {first}", symptom, evidence(runs, run))


WHOM = {
    Outcome.INVALID: "a matter for the exporter, or whoever made the model",
    Outcome.UNSUPPORTED: "a matter for the target, which lacks it",
}
"""Whom to ask about a refusal."""


def refusal(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """The un-optimised backend turned the case down, and it was right to."""
    for run in runs:
        if run.status is Status.EXCEPTION and context.classify(run) == "unavailable":
            raise UserError(
                f"target {case.target}: {_first_line(run.message)}; choose another target or build"
            )
        if run.status is Status.EXCEPTION and context.classify(run) == "ill-marked":
            return _refused(Outcome.UNSUPPORTED, "its marks do not fit", run, runs, context)
    baseline = runs[0]
    if baseline.status is not Status.EXCEPTION:
        return None
    kind = context.classify(baseline)
    if kind == "unsupported":
        return _refused(Outcome.UNSUPPORTED, "not supported", baseline, runs, context)
    if kind == "invalid-input":
        return _refused(Outcome.INVALID, "the data are not allowed", baseline, runs, context)
    if context.complaint is not None:
        return _refused(
            Outcome.INVALID, f"the checker agrees: {_first_line(context.complaint)}", baseline, runs, context
        )
    return _unsupported_within(baseline, runs, context)


def _unsupported_within(baseline: Run, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Unsupported, if the program with its functions written out is: the call is only refused first."""
    plain = context.written_out()
    inlined = context.rerun(plain[0])[0] if plain is not None else baseline
    if inlined is baseline or inlined.status is not Status.EXCEPTION:
        return None
    if context.classify(inlined) != "unsupported":
        return None
    why = f"not supported outside of its function either ({_first_line(inlined.message)})"
    return _refused(Outcome.UNSUPPORTED, why, baseline, runs, context)


def _refused(outcome: Outcome, why: str, run: Run, runs: tuple[Run, ...], context: Context) -> Verdict:
    symptom = symptom_of_run(outcome, run, context.names)
    # what was repaired on the way must not move the blame: the words are those of the model as it came
    plain = context.plain
    said = plain.message if plain is not None and plain.status is Status.EXCEPTION else run.message
    return Verdict(outcome, run.phase, f"{why}: {_first_line(said)} ({WHOM[outcome]})", symptom, runs)


def _first_line(text: str) -> str:
    """The first line of what is said, without the C++ function and file that say it."""
    return (parse_message(text.strip()).rest or text).strip().split("\n")[0][:200]


RULES = (
    Rule(5, undefined),
    Rule(10, crash),
    Rule(20, hang),
    Rule(30, memory),
    Rule(50, exception),
    Rule(15, refusal_due, is_due_to_refuse),
    Rule(33, contradicted),
    Rule(35, baseline),
    Rule(40, refusal),
)
