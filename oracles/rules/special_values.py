"""Special values: an operator that defines what it makes of NaN and infinity makes something else of them.

It does not matter where they came from: the first tensor that differs is made from equal values.
"""

import numpy as np

from corpus.case import Case
from corpus.onnx.graph import free_names
from corpus.values import Value, is_float, widen
from oracles.naming.signature import symptom_of_difference
from oracles.numerics.compare import compare
from oracles.operators import arithmetic_of
from oracles.probes.context import Context, evidence
from oracles.probes.divergence import Divergence
from oracles.probes.wrong_side import OPTIMISED
from oracles.verdict import Outcome, Phase, Run, Verdict, WrongResult

ORDER = 62
"""After the ordinary comparison: only what that leaves open."""


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """Wrong values, if a special value such as NaN is treated otherwise."""
    baseline = runs[0]
    if not baseline.is_ok or not context.nodes:
        return None
    for run in runs[1:]:
        for name, value in baseline.outputs.items() if run.is_ok else ():
            if _differs_specially(name, value, run.outputs.get(name), context):
                divergence = context.divergence(run.config, name)
                if divergence is not None and _is_defined(divergence, run, context):
                    return _verdict(name, divergence, run, runs, context)
    return None


def _differs_specially(name: str, expected: Value, actual: Value, context: Context) -> bool:
    """Whether the values differ and one of them, or what it is computed from, is not finite."""
    if compare(name, expected, actual, context.tolerance) is None:
        return False
    return not (_is_finite(expected) and _is_finite(actual)) or not context.noise.nonfinite.isdisjoint(
        context.noise.ancestors(name)
    )


def _is_finite(value: Value) -> bool:
    return not isinstance(value, np.ndarray) or not is_float(value) or bool(np.isfinite(widen(value)).all())


def _is_defined(divergence: Divergence, run: Run, context: Context) -> bool:
    """Whether the operator's text says what it makes of its operands, and it alone makes another thing."""
    if not arithmetic_of(divergence.node).defines_nonfinite:
        return False
    values = context.noise.recording.values
    if all(_is_finite(values.get(name)) for name in free_names(divergence.node)):
        return False
    found = context.alone(divergence.node, divergence.name)
    other = context.run_as(found[1], run.config) if found is not None else None
    if other is None or not other.is_ok:
        return False
    expected = values.get(divergence.name)
    return (
        compare(divergence.name, expected, other.outputs.get(divergence.name), context.tolerance) is not None
    )


def _verdict(name: str, divergence: Divergence, run: Run, runs: tuple[Run, ...], context: Context) -> Verdict:
    difference = compare(divergence.name, divergence.expected, divergence.actual, context.tolerance)
    kind = difference.kind if difference is not None else "value"
    words = f"{divergence.node.op_type} of what is not finite gives another result on equal operands"
    title = (
        f"wrong {kind} of {divergence.name!r}: {words} ({run.config.label} against {runs[0].config.label})"
    )
    wrong = WrongResult(
        name, OPTIMISED, kind, divergence.error, "the text of the operator",
        first=divergence.name, operator=divergence.node.op_type, located=context.located(divergence),
    )  # fmt: skip
    symptom = symptom_of_difference(kind, OPTIMISED, run.config.asked_by)
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, evidence(runs, run), wrong=wrong)
