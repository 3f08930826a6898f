"""ONNX models, to the judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx import ModelProto, NodeProto, defs

from corpus.case import Case
from corpus.onnx.check import repair
from corpus.onnx.graph import initializer_names, walk_nodes, without_functions
from corpus.onnx.types import dtype_name
from corpus.values import Value
from oracles.abilities import Describe, Language, Opened, Rewritten
from oracles.numerics.compare import Tolerance
from oracles.numerics.input_noise import Types, outputs_contradict, tensor_types
from oracles.sandbox.executor import Executor, job_of

if TYPE_CHECKING:
    from oracles.probes.onnx_context import OnnxContext

DECLARED_BYTES = 16 << 20
"""Of a larger program the outputs' types are not compared with the outputs."""

_FUNCTIONS = b"\xca\x01"
"""The field of a model in which functions stand, as protobuf writes it."""


def _open(
    opened: Opened, executor: Executor, *, tolerance: Tolerance, screen: Tolerance, accept_invalid: bool
) -> OnnxContext:
    """Open the repaired model for the rules; what was repaired is noted."""
    from oracles.probes.onnx_context import OnnxContext

    case = opened.case
    model, notes = opened.repaired
    program = case.program if model is case.parsed else model.SerializeToString()
    context = OnnxContext(
        model,
        job_of(replace(case, program=program), executor.configs[:1]),
        executor,
        tolerance=tolerance,
        screen=screen,
        is_wide=executor.backend.computes_wide and executor.target.device == "cpu",
        accept_invalid=accept_invalid,
    )
    for note in notes:
        context.notes.add(note)
    return context


def _names(model: ModelProto) -> frozenset[str]:
    from oracles.naming import names_of

    return names_of(model)


def _repaired(model: ModelProto) -> tuple[ModelProto, tuple[str, ...]]:
    found, notes = repair(model)
    return found, tuple(notes)


def _contradicts(case: Case, outputs: Mapping[str, Value]) -> bool:
    return len(case.program) <= DECLARED_BYTES and outputs_contradict(case.parsed, outputs)


def _has_functions(case: Case) -> bool:
    return _FUNCTIONS in case.program and bool(case.parsed.functions)


def _rewrites(case: Case, describe: Describe) -> Iterator[Rewritten]:
    from oracles.numerics.rewrites import REWRITES

    if case.external:
        return
    for what, rewrite in REWRITES.items():
        found = rewrite(case.parsed, case.inputs)
        if found is not None:
            rewritten, inputs = found
            yield Rewritten(what, rewritten.SerializeToString(deterministic=True), inputs)


def _pattern(model: ModelProto) -> str:
    """The operators in order, each with the type of its first output: `Pad:float32 MaxPool:float32`."""
    model = without_functions(model)
    types = tensor_types(model)
    nodes = (node for node in walk_nodes(model.graph) if node.op_type != "Constant")
    return " ".join(f"{node.op_type}:{_dtype(types, node)}".rstrip(":") for node in nodes)


def _dtype(types: Types, node: NodeProto) -> str:
    declared = types.get(node.output[0]) if node.output else None
    return dtype_name(declared.elem_type) if declared is not None else ""


def _written_out(model: ModelProto, operators: str) -> str:
    """The operators with those of the model's own functions in place of the calls: names are nobody's."""
    bodies = {f"{each.domain}:{each.name}": each.node for each in model.functions}
    bodies |= {each.name: each.node for each in model.functions if not defs.has(each.name)}
    called, seen = set(operators.split()) & bodies.keys(), set[str]()
    if not called:
        return operators
    found = [word for word in operators.split() if word not in called]
    while called:
        seen |= called
        inner = [node for name in called for node in bodies[name]]
        called = {f"{node.domain}:{node.op_type}" for node in inner} & bodies.keys() - seen
        kinds = [node.op_type for node in inner if f"{node.domain}:{node.op_type}" not in bodies]
        found += [kind for kind in kinds if kind not in ("Constant", "Identity")]
    return " ".join(sorted(found)) or "Identity"


def _computed(model: ModelProto) -> str:
    """An exponent, or what is added before a root."""
    graph = model.graph
    fixed = initializer_names(graph) | {node.output[0] for node in graph.node if node.op_type == "Constant"}
    rooted = {node.input[0] for node in graph.node if node.op_type == "Sqrt"}
    exponents = [node.input[1] for node in graph.node if node.op_type == "Pow"]
    sums = [node for node in graph.node if node.op_type == "Add" and node.output[0] in rooted]
    found = ["exponent"] if any(name not in fixed for name in exponents) else []
    return " ".join(found + (["epsilon"] if any(fixed.isdisjoint(node.input) for node in sums) else []))


LANGUAGE = Language(
    open=_open,
    names=_names,
    pattern=_pattern,
    repaired=_repaired,
    contradicts=_contradicts,
    has_functions=_has_functions,
    rewrites=_rewrites,
    written_out=_written_out,
    computed=_computed,
)
