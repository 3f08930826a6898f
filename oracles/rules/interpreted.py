"""Interpreted: every way gives the same, and another thing than an interpreter of the program's language.

Where the ways differ among themselves, the mismatch rule tells which is wrong by the same truth.
"""

from corpus.case import Case
from oracles.abilities import language_of
from oracles.naming.signature import symptom_of_difference
from oracles.numerics.mismatch_kind import finest_kind
from oracles.probes.context import INTERPRETER, Context
from oracles.verdict import Outcome, Phase, Run, Verdict, WrongResult

ORDER = 65
SIDE = "un-optimised"


def is_suspect(case: Case, runs: tuple[Run, ...]) -> bool | None:
    """Whether the un-optimised result contradicts the interpreter; no word where there is none."""
    if not runs[0].is_ok or not runs[0].outputs:
        return None
    return language_of(case.format).is_suspect(case, runs[0]) or None


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A mismatch on the un-optimised side, by the interpreter."""
    found = context.contradicted_by_interpreter(runs[0]) if runs[0].is_ok else None
    if found is None:
        return None
    difference, expected = found
    name = difference.output
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
