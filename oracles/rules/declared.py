"""Declared against actual: an un-optimised value has another shape or dtype than its operator fixes.

The operator's own inference and the reference evaluator must both say so: each of them can be wrong alone.
Whatever complains further down, or differs because of it, follows from the first such value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx

from corpus.case import Case
from corpus.onnx.graph import free_names
from oracles.naming.signature import symptom_of_run
from oracles.numerics.compare import compare
from oracles.numerics.input_noise import Contradiction, contradiction, keeps_to
from oracles.probes.context import Context
from oracles.text.normalise import parse_message
from oracles.verdict import Outcome, Phase, Run, Status, Symptom, Verdict, WrongResult

ORDER = 45
SIDE = "un-optimised"
REDUCTION = "Reduction"
_PASSED_ON = ("Identity", "Constant")


@dataclass(frozen=True)
class _Find:
    """A node, and how its first wrong result contradicts its declared type."""

    node: onnx.NodeProto
    name: str
    what: Contradiction


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A wrong shape or dtype, if an un-optimised value contradicts its operator."""
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
    symptom = Symptom(Outcome.MISMATCH, Phase.COMPARE, found.what.kind, site, side=SIDE)
    wrong = WrongResult(
        found.name,
        SIDE,
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
