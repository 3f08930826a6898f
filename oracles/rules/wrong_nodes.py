"""Rules that look at single nodes: at what rounding hides, or what a result should have been."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from corpus.case import Case
from corpus.onnx.graph import free_names
from corpus.values import Value, is_float, widen
from oracles.naming import symptom_of_difference, symptom_of_run
from oracles.normalise import parse_message
from oracles.numerics.compare import Difference, compare, nan_mask
from oracles.numerics.input_noise import Contradiction, contradiction, keeps_to
from oracles.numerics.mismatch_kind import left_open
from oracles.operators import arithmetic_of
from oracles.probes.context import Context, Divergence, evidence, other_values
from oracles.probes.wrong_side import OPTIMISED, UN_OPTIMISED, Judgement, judge_sides
from oracles.relation.arithmetic import Rounding
from oracles.rules import Rule
from oracles.verdict import Outcome, Phase, Run, Status, Symptom, Verdict, WrongResult

REDUCTION = "Reduction"
_PASSED_ON = ("Identity", "Constant")


@dataclass(frozen=True)
class _Find:
    """A node, and how its first wrong result contradicts its declared type."""

    node: onnx.NodeProto
    name: str
    what: Contradiction


def declared(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """An un-optimised value has another shape or dtype than its operator fixes.

    The operator's own inference and the reference evaluator must both say so: each of them can be wrong
    alone. Whatever complains further down, or differs because of it, follows from the first such value.
    """
    concerned = set().union(*(context.noise.ancestors(name) for name in _concerned(runs, context)))
    found = next((each for each in _finds(context) if each.name in concerned), None)
    if found is None or _is_misdeclared(found.name, case, context) or not _is_confirmed(found, context):
        return None
    told = f"{found.node.op_type} gives {found.what}"
    title = f"wrong {found.what.kind} of {found.name!r}: {told}"
    if runs[0].config.backend:
        symptom = symptom_of_run(Outcome.UNSUPPORTED, runs[0], context.names)
        return Verdict(
            Outcome.UNSUPPORTED, Phase.COMPARE, f"nothing to compare with: {title}", symptom, runs[:1]
        )
    site = _site(found.node, case.parsed.functions)
    symptom = Symptom(Outcome.MISMATCH, Phase.COMPARE, found.what.kind, site, side=UN_OPTIMISED)
    wrong = WrongResult(
        found.name,
        UN_OPTIMISED,
        found.what.kind,
        truth="its type",
        first=found.name,
        operator=found.node.op_type,
        contradiction=told,
    )
    title = f"{title} ({runs[0].config.label})"
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, runs[:1], wrong=wrong)


def _site(node: onnx.NodeProto, functions: Sequence[onnx.FunctionProto]) -> str:
    """The node's family; of a call of the model's own function the families that it is made of."""
    within = {family(each) for each in _made_of(node, functions) if each.op_type not in _PASSED_ON}
    return REDUCTION if REDUCTION in within else " ".join(sorted(within or {family(node)}))


def _made_of(node: onnx.NodeProto, functions: Sequence[onnx.FunctionProto]) -> Iterator[onnx.NodeProto]:
    """Yield the node, or what the functions that it calls hold; one that calls itself ends there."""
    body = next((each for each in functions if (each.domain, each.name) == (node.domain, node.op_type)), None)
    if body is None:
        yield node
        return
    others = [each for each in functions if each is not body]
    for each in body.node:
        yield from _made_of(each, others)


def family(node: onnx.NodeProto) -> str:
    """The operator, or for those that share their kernels' frame the word for all of them."""
    reduces = node.op_type.startswith("Reduce") or node.op_type in ("ArgMax", "ArgMin")
    return REDUCTION if reduces and not node.domain else node.op_type


def _concerned(runs: tuple[Run, ...], context: Context) -> Iterator[str]:
    """Yield the tensors at which something is wrong: outputs, and what goes into the node that complains."""
    baseline = runs[0]
    broken = context.noise.recording.crashed_at
    for node in context.nodes:
        if broken and (node.name == broken or broken in node.output):
            yield from free_names(node)
        elif not broken and baseline.status is Status.EXCEPTION:  # nothing to be seen while each is an output
            yield from node.output
    for name, value in baseline.outputs.items():
        others = (run.outputs.get(name) for run in runs[1:] if run.is_ok)
        if _contradiction(context, name) or any(
            compare(name, value, other, context.tolerance) for other in others
        ):
            yield name
    for operator in {parse_message(run.message).op for run in runs if run.status is Status.EXCEPTION}:
        named = (node for node in context.nodes if node.op_type == operator)
        yield from (name for node in named for name in node.input)


def _contradiction(context: Context, name: str) -> Contradiction | None:
    declared, value = context.declared(name), context.noise.recording.values.get(name)
    return contradiction(declared, value) if declared is not None else None


def _finds(context: Context) -> Iterator[_Find]:
    """Yield the results that contradict their types, in the order of the graph."""
    for node in context.nodes:
        for name in node.output:
            what = _contradiction(context, name) if name else None
            if what is not None:
                yield _Find(node, name, what)


def _is_confirmed(found: _Find, context: Context) -> bool:
    """Whether the node alone fails in the same way on the same operands while the referee gives the
    declared type.
    """
    alone = context.alone(found.node, found.name)
    if alone is None:
        return False
    _, job = alone
    again, referee = context.rerun(job)[0], context.ask_referee(job)
    declared = context.declared(found.name)
    return (
        declared is not None
        and again.is_ok
        and referee.is_ok
        and contradiction(declared, again.outputs.get(found.name)) == found.what
        and keeps_to(declared, referee.outputs.get(found.name), found.what.kind)
    )


def _is_misdeclared(name: str, case: Case, context: Context) -> bool:
    """Whether the model itself declares an output of another rank than its operator fixes."""
    fixed = context.declared(name)
    own = next((each.type.tensor_type for each in case.parsed.graph.output if each.name == name), None)
    if own is None or fixed is None or not own.HasField("shape"):
        return False
    return len(own.shape.dim) != len(fixed.shape.dim)


def special_values(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """An operator that defines what it makes of NaN and infinity makes something else of them.

    It does not matter where they came from: the first tensor that differs is made from equal values.
    """
    baseline = runs[0]
    if not baseline.is_ok or not context.nodes:
        return None
    for run in runs[1:]:
        for name, value in baseline.outputs.items() if run.is_ok else ():
            if _differs_specially(name, value, run.outputs.get(name), context):
                divergence = context.divergence(run.config, name)
                if divergence is None or _are_operands_finite(divergence, context):
                    continue
                judgement = _judge_special(divergence, run, baseline, context)
                if judgement is not None:
                    return _wrong_special(name, divergence, judgement, run, runs, context)
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


def _are_operands_finite(divergence: Divergence, context: Context) -> bool:
    values = context.noise.recording.values
    return all(_is_finite(values.get(name)) for name in free_names(divergence.node))


def _judge_special(divergence: Divergence, run: Run, baseline: Run, context: Context) -> Judgement | None:
    """Who is wrong, and who says so; None where it is left open what the operator makes of its operands."""
    truth = ""
    if arithmetic_of(divergence.node).defines_nonfinite:
        truth = "the text of the operator"
    elif _is_agreed(divergence, context):
        truth = "the reference implementation of ONNX"
    if truth and _differs_alone(divergence, run, context):
        return Judgement(OPTIMISED, truth)
    if not baseline.config.backend and _is_against_definition(divergence, context):
        return Judgement(UN_OPTIMISED, "the operators by which ONNX defines this one")
    return None


def _differs_alone(divergence: Divergence, run: Run, context: Context) -> bool:
    """Whether the node alone gives another result in the way of the run, too."""
    found = context.alone(divergence.node, divergence.name)
    other = context.run_as(found[1], run.config) if found is not None else None
    if other is None or not other.is_ok:
        return False
    given = other.outputs.get(divergence.name)
    return compare(divergence.name, divergence.expected, given, context.tolerance) is not None


def _is_agreed(divergence: Divergence, context: Context) -> bool:
    """Whether an independent implementation makes the same of NaN, on which the operator's text is silent.

    Asked of operators that choose among their operands or order them, and of a NaN that goes in and does not
    come out. Beside an infinity the others may make one NaN more, by the order in which they compute.
    """
    node, values = divergence.node, context.noise.recording.values
    operands = [values.get(name) for name in sorted(free_names(node))]
    if not any(map(_has_nan, operands)) or left_open(node, values) or not context.orders_nan(node):
        return False
    row = arithmetic_of(node)
    chooses = row.rounding is Rounding.NOTHING and not row.quantises
    if not chooses and (any(map(_has_infinity, operands)) or not _loses_nan(divergence)):
        return False
    found = context.alone(node, divergence.name)
    referee = context.ask_referee(found[1]) if found is not None else None
    given = referee.outputs.get(divergence.name) if referee is not None and referee.is_ok else None
    return (
        given is not None and compare(divergence.name, divergence.expected, given, context.tolerance) is None
    )


def _is_against_definition(divergence: Divergence, context: Context) -> bool:
    """Whether the un-optimised run makes a NaN of infinity where the operator's own definition makes none.

    ONNX defines many operators by others: what a run of these gives, and another framework, too, is meant.
    """
    values = context.noise.recording.values
    is_nan_in = any(_has_nan(values.get(name)) for name in free_names(divergence.node))
    if is_nan_in or not _loses_nan(divergence):
        return False
    meant = context.as_defined(divergence)
    return meant is not None and compare(divergence.name, divergence.actual, meant, context.tolerance) is None


def _loses_nan(divergence: Divergence) -> bool:
    """Whether the one result has a NaN wherever the other differs, and the other has none there."""
    left, right = divergence.expected, divergence.actual
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray) or left.shape != right.shape:
        return False
    return bool((nan_mask(left) & ~nan_mask(right)).any()) and not bool(
        (nan_mask(right) & ~nan_mask(left)).any()
    )


def _has_nan(value: Value) -> bool:
    return isinstance(value, np.ndarray) and bool(nan_mask(value).any())


def _has_infinity(value: Value) -> bool:
    return isinstance(value, np.ndarray) and is_float(value) and bool(np.isinf(widen(value)).any())


def _wrong_special(
    name: str,
    divergence: Divergence,
    judgement: Judgement,
    run: Run,
    runs: tuple[Run, ...],
    context: Context,
) -> Verdict:
    difference = compare(divergence.name, divergence.expected, divergence.actual, context.tolerance)
    kind = difference.kind if difference is not None else "value"
    words = f"{divergence.node.op_type} of what is not finite gives another result on equal operands"
    title = (
        f"wrong {kind} of {divergence.name!r}: {words} ({run.config.label} against {runs[0].config.label})"
    )
    wrong = WrongResult(
        name, judgement.side, kind, divergence.error, judgement.truth,
        first=divergence.name, operator=divergence.node.op_type, located=context.located(divergence),
    )  # fmt: skip
    symptom = symptom_of_difference(kind, judgement.side, run.config.asked_by)
    return Verdict(Outcome.MISMATCH, Phase.COMPARE, title, symptom, evidence(runs, run), wrong=wrong)


def segments(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """An optimised run makes plainly wrong results of the operands of a few nodes.

    Rounding before these nodes explains much of what reaches the outputs, by what it grows to on its way. It
    explains nothing here: the un-optimised run computes the same nodes from the very same operands.
    """
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
                return _wrong_segment(output, difference, found, divergence, run, runs, context)
    return None


def _wrong_segment(
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


RULES = (Rule(45, declared), Rule(62, special_values), Rule(64, segments))
