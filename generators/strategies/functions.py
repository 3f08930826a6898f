"""Random programs with some of their nodes in model-local functions, plain, nested or wrapped.

Whatever the form, the results must be those of the program as it was.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from enum import StrEnum

import onnx

from corpus.onnx.graph import free_names
from generators.growth.grow import Program, grow
from generators.language.profile import Budget
from generators.language.values import RandomSource
from generators.strategies import each_seed
from oracles.relation.program import UNTYPED_REALMS

DOMAIN = "local"
_FIRST_IR_VERSION = 8
_CONTAINERS = (
    "Optional",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SplitToSequence",
)


class Form(StrEnum):
    """The form of a call: the nodes, a function that holds another, a wrapper, or a wrapper of copies."""

    PLAIN = "plain"
    NESTED = "nested"
    WRAPPER = "wrapper"
    COPY = "copy"


def wrap(model: onnx.ModelProto, draws: RandomSource) -> onnx.ModelProto:
    """The model with a run of its nodes behind a call, in one of the forms."""
    count = len(model.graph.node)
    first = next((at for at, node in enumerate(model.graph.node) if node.op_type != "Constant"), count)
    shown = (*model.graph.input, *model.graph.output)
    if first == count or any(not info.type.HasField("tensor_type") for info in shown):
        return model
    start = draws.between(first, count - 1)
    return wrap_nodes(model, start, draws.between(start + 1, count), draws.pick(tuple(Form)))


def wrap_nodes(model: onnx.ModelProto, start: int, end: int, form: Form) -> onnx.ModelProto:
    """The model with the nodes from `start` to `end` behind a call."""
    wrapped = deepcopy(model)
    wrapped.ir_version = max(wrapped.ir_version, _FIRST_IR_VERSION)
    wrapped.opset_import.add(domain=DOMAIN, version=1)
    graph = wrapped.graph
    nodes = list(graph.node)
    start, end = _without_cut_sequences(graph, start, end)
    inputs, outputs = _interface(graph, start, end)
    functions = _functions(nodes[start:end], inputs, outputs, wrapped.opset_import, form)
    wrapped.functions.extend(functions)
    del graph.node[:]
    graph.node.extend([*nodes[:start], _call(functions[-1].name, inputs, outputs), *nodes[end:]])
    inside = {name for node in nodes[start:end] for name in node.output} - set(outputs)
    kept = [info for info in graph.value_info if info.name not in inside]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    return wrapped


def _without_cut_sequences(graph: onnx.GraphProto, start: int, end: int) -> tuple[int, int]:
    """The run made longer until only tensors pass its ends: onnx infers no type for other values there."""
    made: set[str] = set()
    for node in graph.node:
        if node.op_type in _CONTAINERS or (node.op_type == "Identity" and node.input[0] in made):
            made.update(node.output)
    while start > 0 and made & set(_interface(graph, start, end)[0]):
        start -= 1
    while end < len(graph.node) and made & set(_interface(graph, start, end)[1]):
        end += 1
    return start, end


def _interface(graph: onnx.GraphProto, start: int, end: int) -> tuple[list[str], list[str]]:
    """The values that these nodes read from earlier nodes, and those of theirs that later nodes read."""
    inside = graph.node[start:end]
    made = {name for node in inside for name in node.output if name}
    used = (name for node in inside for name in (*node.input, *sorted(free_names(node))))
    needed = dict.fromkeys(name for name in used if name and name not in made)
    later = {name for node in graph.node[end:] for name in free_names(node)}
    later |= {info.name for info in graph.output}
    return list(needed), [name for node in inside for name in node.output if name in later]


def _functions(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
    opsets: Sequence[onnx.OperatorSetIdProto],
    form: Form,
) -> list[onnx.FunctionProto]:
    """The functions, the one to call last."""

    def function(name: str, body: Sequence[onnx.NodeProto], results: Sequence[str]) -> onnx.FunctionProto:
        made = onnx.FunctionProto(name=name, domain=DOMAIN, input=inputs, output=results, node=body)
        made.opset_import.extend(opsets)
        return made

    if form is Form.NESTED and len(nodes) > 1:
        inner = _nested(nodes, inputs, opsets)
        return [inner, function("outer", [_call(inner.name, inner.input, inner.output), *nodes[1:]], outputs)]
    plain = function("closure", nodes, outputs)
    if form is Form.WRAPPER:
        return [plain, function("wrapper", [_call(plain.name, inputs, outputs)], outputs)]
    if form is Form.COPY:
        copies = [f"{name}_copy" for name in outputs]
        moves = [
            onnx.NodeProto(op_type="Identity", input=[old], output=[new])
            for old, new in zip(outputs, copies, strict=True)
        ]
        return [plain, function("wrapper", [_call(plain.name, inputs, outputs), *moves], copies)]
    return [plain]


def _nested(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], opsets: Sequence[onnx.OperatorSetIdProto]
) -> onnx.FunctionProto:
    """The first node as a function of its own."""
    first = nodes[0]
    needed = [name for name in inputs if name in free_names(first)]
    results = [name for name in first.output if name]
    made = onnx.FunctionProto(name="inner", domain=DOMAIN, input=needed, output=results, node=[first])
    made.opset_import.extend(opsets)
    return made


def _call(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    return onnx.NodeProto(op_type=name, domain=DOMAIN, name=f"call_{name}", input=inputs, output=outputs)


def wrapped(seed: int, nodes: int, budget: Budget) -> Program:
    """A wrapped form of a seed's random program; the results are the same."""
    program = grow(seed, nodes, UNTYPED_REALMS, budget)
    return replace(program, model=wrap(program.model, RandomSource(f"functions/{seed}/{nodes}")))


STRATEGIES = {"functions": each_seed(wrapped)}
