"""Refusal due: a program with a violation was accepted, or one with a dangerous value was survived.

Acceptance is a find only where onnx's checker or inference and an independent implementation turn the program
down as well: many violations mean nothing to a backend that never looks at them. Of what must be survived
only a death counts, which the rules before this one report.
"""

from corpus.case import Case
from oracles.abilities import language_of
from oracles.backends import find_backend
from oracles.probes.context import Context
from oracles.text.normalise import template
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

ORDER = 15
SIDE = "un-optimised"


def is_suspect(case: Case, runs: tuple[Run, ...]) -> bool | None:
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


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Acceptance; whatever else was suspect at first sight is for the other rules."""
    if REFUSAL not in case.settings or not all(run.is_ok for run in runs):
        return None
    reads_no_onnx = case.target is not None and not find_backend(case.target.backend).reads_onnx
    complaint = complaint_of(case, context)
    if reads_no_onnx or complaint is None or context.referee.status is not Status.EXCEPTION:
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs)
    complaint = complaint.split("\n")[0][:160]
    site = template(complaint, context.names)
    symptom = Symptom(Outcome.MISMATCH, Phase.IMPORT, "accepted", site, side=SIDE)
    wrong = WrongResult("", SIDE, "accepted", truth="the checker and the referee", contradiction=complaint)
    title = f"accepted although invalid: {complaint} ({runs[0].config.label})"
    return Verdict(Outcome.MISMATCH, Phase.IMPORT, title, symptom, runs[:1], wrong=wrong)
