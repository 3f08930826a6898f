"""Interpreted: every way of a program of loops gives the same, and another thing than the interpreter.

Where the ways differ among themselves, the mismatch rule tells which is wrong by the same truth.
"""

from __future__ import annotations

from corpus.case import Case
from oracles.naming.symptom import symptom_of_difference
from oracles.numerics.mismatch_kind import finest_kind
from oracles.probes.context import Context
from oracles.probes.tir_context import (
    INTERPRETER,
    ROUNDING,
    TirContext,
    contradiction,
    interpretation_of,
)
from oracles.run import Phase, Run
from oracles.verdict import Outcome, Verdict, WrongResult

ORDER = 65
SIDE = "un-optimised"


def is_suspect(case: Case, runs: tuple[Run, ...]) -> bool | None:
    """Return whether the un-optimised result contradicts the interpreter; no word on other formats."""
    if case.format != "tir" or not runs[0].is_ok or not runs[0].outputs:
        return None
    found = interpretation_of(case.program, case.inputs)
    return True if contradiction(found, runs[0], ROUNDING) is not None else None


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Return a mismatch on the un-optimised side, by the interpreter."""
    if not isinstance(context, TirContext) or not runs[0].is_ok:
        return None
    difference = contradiction(context.interpretation, runs[0], ROUNDING)
    if difference is None:
        return None
    name = difference.output
    expected = context.interpretation.outputs[name]
    title = f"wrong {difference.kind} of {difference} ({runs[0].config.label} against {INTERPRETER})"
    wrong = WrongResult(
        name,
        SIDE,
        finest_kind(difference, expected, runs[0].outputs.get(name)),
        difference.magnitude,
        INTERPRETER,
    )
    symptom = symptom_of_difference(difference.kind, SIDE)
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, runs[:1], wrong=wrong)
