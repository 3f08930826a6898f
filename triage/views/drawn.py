"""Graphs of every format in the one form that pictures are made of: ONNX's, with a type for each value.

A graph of another format becomes boxes and lines only: nobody checks or runs what it is made into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import GraphProto, NodeProto, TypeProto, helper

from corpus.case import Case
from corpus.graphs.program import Binding, GraphProgram, dtype_of
from corpus.onnx.types import ELEMENT_TYPES
from corpus.tir.tree import Module
from corpus.values import Shape, Tensor
from triage.language import language_of
from triage.views.drawn_loops import LoopsPicture

Seen = Mapping[str, tuple[str, Shape | None]]
"""What a framework says of values: dtype and dims by name, None for dims that it does not know."""
MOST_ELEMENTS = 64
"""Elements of a constant that a picture may show; of a longer one it shows the type."""


@dataclass(frozen=True)
class DrawnGraph:
    """A main graph as it is drawn, and the types of its values as far as they are known."""

    graph: GraphProto
    types: Mapping[str, TypeProto]


def drawn(case: Case, seen: Seen | None = None) -> DrawnGraph:
    """The program of a case, where it can be drawn; `seen` are types that its framework infers."""
    draw = language_of(case.format).drawn
    found: DrawnGraph = draw(case.parsed, seen or {}) if draw is not None else DrawnGraph(GraphProto(), {})
    return found


def drawn_loops(module: Module) -> DrawnGraph:
    """Return the statements of a program of loops as nodes."""
    picture = LoopsPicture.of(module)
    types = {name: made for name, kind in picture.known.items() if (made := _type(*kind)) is not None}
    return DrawnGraph(picture.graph, types)


def drawn_graph(program: GraphProgram, seen: Seen) -> DrawnGraph:
    """Bindings as nodes, named by their operators; what bodies read their holder reads."""
    main = program.main
    known: dict[str, tuple[str, Shape]] = {item.name: (item.dtype, item.shape) for item in main.inputs}
    known.update({name: (dtype, tuple(dims)) for name, (dtype, dims) in seen.items() if dims is not None})
    types = {name: made for name, kind in known.items() if (made := _type(*kind)) is not None}
    graph = GraphProto(name="main", node=[_node(binding) for binding in main.bindings])
    graph.initializer.extend(_constants(program.constants))
    graph.input.extend(onnx.ValueInfoProto(name=item.name, type=types.get(item.name)) for item in main.inputs)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in main.outputs)
    return DrawnGraph(graph, types)


def _node(binding: Binding) -> NodeProto:
    """`call_tir` and the like with the function that they call."""
    kind = " ".join((binding.op.removeprefix("relax."), *binding.calls))
    return NodeProto(op_type=kind, input=binding.reads, output=[binding.name])


def _constants(constants: Mapping[str, Tensor]) -> Iterator[onnx.TensorProto]:
    for name, value in constants.items():
        if value.dtype in ELEMENT_TYPES and value.size <= MOST_ELEMENTS:
            yield onnx.numpy_helper.from_array(value, name)
        else:
            yield onnx.TensorProto(name=name, data_type=ELEMENT_TYPES.get(value.dtype, 0), dims=value.shape)


def _type(dtype: str, shape: Sequence[int | str | None]) -> TypeProto | None:
    kind = dtype_of(dtype)
    element = ELEMENT_TYPES.get(kind) if kind is not None else None
    return helper.make_tensor_type_proto(element, shape) if element is not None else None
