"""Equal operands: a node gets the same operands both ways, and plainly makes another thing of them.

Where results are rounded to steps, steps explain much of what reaches the outputs. They do not explain this.
"""

from dataclasses import replace

from corpus.case import Case
from oracles.naming.signature import symptom_of_difference
from oracles.numerics.compare import compare
from oracles.probes.context import Context, evidence, other_values
from oracles.probes.wrong_side import OPTIMISED, judge_sides
from oracles.verdict import Outcome, Phase, Run, Verdict, WrongResult

ORDER = 64
"""After the ordinary comparison: only what that takes for rounding."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Wrong values within a quantised model, if float64 confirms those of the one node alone."""
    parted = (pair for pair in other_values(runs, context) if context.quantises)
    found = (_of_nodes(output, run, runs, context) for output, run in parted)
    return next(filter(None, found), None)


def _of_nodes(output: str, run: Run, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    for divergence in context.divergences_on_equal_operands(run.config, output):
        difference = compare(divergence.name, divergence.expected, divergence.actual, context.screen)
        if difference is None or difference.kind != "value":
            continue
        given = divergence.expected, divergence.actual
        found = judge_sides(replace(difference, is_small=True), *given, context.truths_of(divergence))
        if found.side == OPTIMISED and found.truth and context.is_beyond_noise(run.config, divergence):
            words = f"{divergence.node.op_type} gives another result on equal operands"
            title = (
                f"wrong value of {difference}: {words} ({run.config.label} against {runs[0].config.label})"
            )
            wrong = WrongResult(
                output, OPTIMISED, "value", difference.magnitude, found.truth, found.errors,
                first=divergence.name, operator=divergence.node.op_type, located=context.located(divergence),
            )  # fmt: skip
            symptom = symptom_of_difference("value", OPTIMISED, run.config.asked_by)
            notes = (found.note,) if found.note else ()
            return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, evidence(runs, run), notes, wrong)
    return None
