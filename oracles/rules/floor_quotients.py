"""Floor quotients: another whole number than the exact floor of a quotient, on operands equal to the bit.

Noise that comes from far above moves such a quotient as far as a bug does. What flows into it both ways is
equal here, and the quotient of that is told by fractions.
"""

from collections.abc import Mapping

import numpy as np

from corpus.case import Case
from corpus.values import Value
from oracles.naming.signature import symptom_of_difference
from oracles.numerics.compare import describe
from oracles.numerics.floor_quotients import FloorQuotient, is_wrong_floor
from oracles.probes.context import Context, evidence, other_values
from oracles.probes.wrong_side import OPTIMISED
from oracles.verdict import Located, Outcome, Phase, Run, Verdict, WrongResult

ORDER = 66
"""After the ordinary comparison: only what that takes for rounding."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Wrong values, if an output that differs is computed from a wrong floor of a quotient."""
    parted = (pair for pair in other_values(runs, context) if context.floor_quotients)
    found = (_of_quotients(output, run, runs, context) for output, run in parted)
    return next(filter(None, found), None)


def _of_quotients(output: str, run: Run, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    wanted = context.noise.ancestors(output)
    quotients = [each for each in context.floor_quotients if each.name in wanted]
    if not quotients:
        return None
    plain, other = context.noise.recording.values, context.recorded_as(run.config)
    for quotient in quotients:
        verdict = _of_one(output, quotient, plain, other, run, runs, context)
        if verdict is not None:
            return verdict
    return None


def _of_one(
    output: str,
    quotient: FloorQuotient,
    plain: Mapping[str, Value],
    other: Mapping[str, Value],
    run: Run,
    runs: tuple[Run, ...],
    context: Context,
) -> Verdict | None:
    wrong = is_wrong_floor(quotient, plain, other, context.recorded_in_double)
    expected, actual = plain.get(quotient.name), other.get(quotient.name)
    if wrong is None or not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return None
    difference = describe(quotient.name, expected, actual, wrong)
    words = f"{quotient.op} is not the floor of the exact quotient of equal operands"
    title = f"wrong value of {difference}: {words} ({run.config.label} against {runs[0].config.label})"
    right = tuple(each for each in quotient.operands if isinstance(each, str))
    located = Located(quotient.name, quotient.name, quotient.op, difference.magnitude, right)
    result = WrongResult(
        output, OPTIMISED, "value", difference.magnitude, "the exact quotient",
        (0.0, difference.magnitude), first=quotient.name, operator=quotient.op, located=located,
    )  # fmt: skip
    symptom = symptom_of_difference("value", OPTIMISED, run.config.asked_by)
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, evidence(runs, run), wrong=result)
