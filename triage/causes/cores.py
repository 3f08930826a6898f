"""What a rewrite takes away and puts in: the core of a bug of passes, whatever stands around it.

The optimiser's program with only the minimal passes enabled, beside that with none, tells the nodes that the
passes replaced. The rest of a reduced case is there for the passes to begin at all, and names nothing.

Where one rewrite fails on programs of one form in two ways, that is one bug: the node that it puts in is
refused where no kernel takes its types, and computes nonsense where one does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import onnx

from corpus.case import Case
from corpus.onnx.graph import walk_nodes
from oracles.judge import Judge
from oracles.text.normalise import parse_message
from oracles.verdict import Config, Verdict
from reducer.pass_sets import failing_config
from triage.language import language_of, model_of


def core_of(case: Case, verdict: Verdict, passes: tuple[str, ...], judge: Judge) -> str:
    """The operators that go and come, such as `-Div -Mul +Div`; empty where that cannot be seen.

    It cannot where the optimised program does not come to be, as with a kernel that does not exist. Whose
    operators they are does not count: QuantizeLinear is one in either of its domains. Of a compiler whose log
    tells what each pass replaced, its word counts.
    """
    known, config = judge.backend.passes, failing_config(verdict, judge)
    if not passes or known is None or config is None:
        return ""
    if not judge.backend.shows_optimised and known.replaced is None:
        return ""
    run = judge.runs(case, (config,), collect_log=True)[0]
    every = known.optimizers(run)
    if known.replaced is not None:
        return _told(" ".join(known.replaced(run, name) for name in passes))
    before = _operators(case, known.without(config, every), judge)
    after = _operators(case, known.without(config, [name for name in every if name not in passes]), judge)
    if before is None or after is None:
        return ""
    signed = [*_signed("-", before - after), *_signed("+", after - before)]
    return " ".join(signed)


def _told(replaced: str) -> str:
    """What the log says of the passes together: what one puts in and another takes away is neither."""
    words = set(replaced.split())
    gone, come = ({word[1:] for word in words if word[0] == sign} for sign in "-+")
    return " ".join([*_signed("-", Counter(gone - come)), *_signed("+", Counter(come - gone))])


_OF_TYPES = re.compile(
    r"Could not find an implementation|Failed to find kernel|TypeInferenceError|\bType Error\b"
    r"|tensor\(\w+\)' of (?:input|output)"
)
"""What says that no kernel takes the types of a node, or that its types do not fit."""


def ill_typed(case: Case, verdict: Verdict, passes: tuple[str, ...]) -> str:
    """The passes with the operator that they put in and that is refused for its types; else empty.

    One text says that there is no kernel, another that types do not fit: the operator set decides which.
    If the program has the operator itself, the passes gave it operands of other types, whatever it is.
    """
    message = verdict.failing.message if verdict.failing is not None else ""
    operator = parse_message(message).op
    if not operator or not _OF_TYPES.search(message):
        return ""
    what = "operands" if operator in case.measure.ops else operator
    return f"{what} of {' '.join(sorted(passes))}"


def _operators(case: Case, config: Config, judge: Judge) -> Counter[str] | None:
    model = judge.executor.optimised(case, config)
    return Counter(node.op_type for node in walk_nodes(model.graph)) if model is not None else None


def _signed(sign: str, operators: Counter[str]) -> list[str]:
    return [f"{sign}{name}" for name in sorted(operators.elements()) if name != "Constant"]


Form = tuple[tuple[Any, ...], ...]
_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


def form_of(case: Case) -> Form | None:
    """The form of an ONNX program, without names, optional operands, the operator set and its inputs.

    Constants count: a factor of infinity is refused for what it is, whatever else is wrong with the rewrite.
    None for a program that is no model.
    """
    if not language_of(case.format).has_model:
        return None
    graph = model_of(case).graph
    sources = {item.name: _type_of(item) for item in graph.input}
    sources |= {item.name: _weight_of(item) for item in graph.initializer}
    places: dict[str, tuple[Any, ...]] = {"": ()}
    form = []
    for at, node in enumerate(graph.node):
        operands = tuple(places.get(name, sources.get(name, ())) for name in _needed(node))
        attributes = sorted(each.SerializeToString(deterministic=True) for each in node.attribute)
        form.append((node.domain, node.op_type, operands, tuple(attributes)))
        places |= {name: ("node", at, index) for index, name in enumerate(node.output) if name}
    return tuple(form)


def _type_of(item: onnx.ValueInfoProto) -> tuple[Any, ...]:
    return ("input", item.type.SerializeToString(deterministic=True))


def _weight_of(tensor: onnx.TensorProto) -> tuple[Any, ...]:
    nameless = onnx.TensorProto()
    nameless.CopyFrom(tensor)
    nameless.name = ""
    return ("weight", nameless.SerializeToString(deterministic=True))


def _needed(node: onnx.NodeProto) -> Sequence[str]:
    """The operands that the operator's schema asks for; all of an operator that it lacks."""
    if not onnx.defs.has(node.op_type, node.domain):
        return list(node.input)
    formal = onnx.defs.get_schema(node.op_type, domain=node.domain).inputs
    return [name for at, name in enumerate(node.input) if at >= len(formal) or formal[at].option != _OPTIONAL]
