"""Segments: an optimised run makes plainly wrong results of the operands of a few nodes.

Rounding before these nodes explains much of what reaches the outputs, by what it grows to on its way. It
explains nothing here: the un-optimised run computes the same nodes from the very same operands.
"""

from corpus.case import Case
from oracles.naming.signature import symptom_of_difference
from oracles.numerics.compare import Difference
from oracles.numerics.mismatch_kind import left_open
from oracles.probes.context import Context, evidence, other_values
from oracles.probes.divergence import Divergence
from oracles.probes.wrong_side import OPTIMISED, Judgement, judge_sides
from oracles.verdict import Outcome, Phase, Run, Verdict, WrongResult

ORDER = 64
"""After the ordinary comparison: only what that takes for rounding."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Wrong values beyond the rounding of their own segment, if float64 confirms them."""
    asked = set[str]()
    for output, run in other_values(runs, context):
        if run.config.label in asked:
            continue
        asked.add(run.config.label)
        for difference, divergence, truths in context.wrong_segments(run.config):
            if context.left_open(output) or left_open(divergence.node, context.noise.recording.values):
                continue
            given = divergence.expected, divergence.actual
            found = judge_sides(difference, *given, truths)
            if found.side == OPTIMISED and found.truth:
                return _verdict(output, difference, found, divergence, run, runs, context)
    return None


def _verdict(
    output: str,
    difference: Difference,
    judgement: Judgement,
    divergence: Divergence,
    run: Run,
    runs: tuple[Run, ...],
    context: Context,
) -> Verdict:
    words = f"{divergence.node.op_type} gives another result on equal operands"
    title = f"wrong value of {difference}: {words} ({run.config.label} against {runs[0].config.label})"
    wrong = WrongResult(
        output, OPTIMISED, "value", difference.magnitude, judgement.truth, judgement.errors,
        first=divergence.name, operator=divergence.node.op_type, located=context.located(divergence),
    )  # fmt: skip
    symptom = symptom_of_difference("value", OPTIMISED, run.config.asked_by)
    notes = (judgement.note,) if judgement.note else ()
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, evidence(runs, run), notes, wrong)
