"""Who is wrong where a target writes a program for another framework: the target, or that framework.

An independent implementation runs what was written. If it does as the framework does, the target has written
another program than it was given; if it gives what the target's own baseline gives, the framework is wrong.
"""

from __future__ import annotations

from oracles.numerics.compare import Tolerance, compare_outputs
from oracles.run import Phase, Run
from oracles.verdict import Mark, Notes, Outcome, Verdict

WRITTEN = "what was exported is at fault"
RUNNER = "what runs the exported model is at fault, not the exporter"


def is_exported(verdict: Verdict) -> bool:
    """Return whether a failure came after the program had been written: then either may be wrong."""
    failing = verdict.runs[-1] if len(verdict.runs) > 1 else None
    is_told = verdict.outcome in (Outcome.MISMATCH, Outcome.EXCEPTION, Outcome.CRASH)
    return failing is not None and is_told and (failing.is_ok or failing.phase is Phase.EXECUTE)


def say_whose(verdict: Verdict, independent: Run, tolerance: Tolerance) -> Notes:
    """Say in a note which of the two is wrong, by the run of an independent implementation."""
    baseline, failing = verdict.runs[0], verdict.runs[-1]
    notes, who = Notes(), independent.config.label.rpartition("by ")[2]
    if not independent.is_ok:
        if failing.is_ok:
            notes.add(f"{who} does not run the exported model ({independent.error}): it does not decide")
        else:
            first = independent.message.strip().split("\n")[0][:160]
            notes.add(f"{WRITTEN}: {who} does not run it either ({independent.error}: {first})")
    elif failing.is_ok and _agree(independent, failing, tolerance):
        notes.add(f"{WRITTEN}: {who} gives the same for it")
    elif _agree(independent, baseline, tolerance):
        notes.add(f"{RUNNER}: {who} runs it, and gives what the module gives", Mark.ELSEWHERE)
    else:
        notes.add(f"{who} gives a third result for the exported model: it does not decide")
    return notes


def _agree(one: Run, other: Run, tolerance: Tolerance) -> bool:
    return compare_outputs(one.outputs, other.outputs, tolerance) is None
