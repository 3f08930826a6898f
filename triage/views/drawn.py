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
from corpus.onnx.infer import inferred_types
from corpus.onnx.types import ELEMENT_TYPES
from corpus.tir.tree import Bind, Module, Store
from corpus.tir.values import Buffer, Const, Load, Var
from corpus.tir.walk import expressions, statements
from corpus.values import Shape, Tensor

Seen = Mapping[str, tuple[str, Shape | None]]
"""What a framework says of values: dtype and dims by name, None for dims that it does not know."""
MOST_ELEMENTS = 64
"""Elements of a constant that a picture may show; of a longer one it shows the type."""


@dataclass(frozen=True)
class Drawn:
    """A main graph as it is drawn, and the types of its values as far as they are known."""

    graph: GraphProto
    types: Mapping[str, TypeProto]


def drawn(case: Case, seen: Seen | None = None) -> Drawn:
    """The program of a case; `seen` are types that its framework infers, of a format other than ONNX."""
    program = case.parsed
    if isinstance(program, onnx.ModelProto):
        return Drawn(program.graph, inferred_types(program))
    if isinstance(program, Module):
        return drawn_loops(program)
    return drawn_graph(program, seen or {})


def drawn_loops(module: Module) -> Drawn:
    """Stores and bindings as nodes: what they read, and what a buffer holds after them."""
    graph, now = GraphProto(name=module.entry), dict[str, str]()
    types: dict[str, TypeProto] = {}
    for item in module.main.params:
        shape = item.shape if isinstance(item, Buffer) else ()
        made = _type(item.dtype, [int(dim.value) if isinstance(dim, Const) else None for dim in shape])
        graph.input.append(onnx.ValueInfoProto(name=item.name, type=made))
        if made is not None:
            types[item.name] = made
    for place, stmt in enumerate(statements(module.main.body)):
        name = stmt.buffer if isinstance(stmt, Store) else stmt.var.name if isinstance(stmt, Bind) else ""
        if name and isinstance(stmt, Store | Bind):
            reads = [now.get(each, each) for each in _read_in(stmt)]
            now[name] = f"{name} after {place}" if isinstance(stmt, Store) else name
            graph.node.append(NodeProto(op_type=_words_of(stmt), input=reads, output=[now[name]]))
    graph.output.extend(
        onnx.ValueInfoProto(name=now[one.name]) for one in module.main.buffers if one.name in now
    )
    return Drawn(graph, types)


def _read_in(stmt: Store | Bind) -> list[str]:
    found = (
        item.buffer if isinstance(item, Load) else item.name
        for item in expressions(stmt)
        if isinstance(item, Load | Var)
    )
    return list(dict.fromkeys(found))


def _words_of(stmt: Store | Bind) -> str:
    """Return the operators and callees of a statement, or what it is."""
    kinds = [getattr(item, "op", getattr(item, "callee", "")) for item in expressions(stmt.value)]
    return " ".join(dict.fromkeys(filter(None, kinds))) or type(stmt).__name__.lower()


def drawn_graph(program: GraphProgram, seen: Seen) -> Drawn:
    """Bindings as nodes, named by their operators; what bodies read their holder reads."""
    main = program.main
    known: dict[str, tuple[str, Shape]] = {item.name: (item.dtype, item.shape) for item in main.inputs}
    known.update({name: (dtype, tuple(dims)) for name, (dtype, dims) in seen.items() if dims is not None})
    types = {name: made for name, kind in known.items() if (made := _type(*kind)) is not None}
    graph = GraphProto(name="main", node=[_node(binding) for binding in main.bindings])
    graph.initializer.extend(_constants(program.constants))
    graph.input.extend(onnx.ValueInfoProto(name=item.name, type=types.get(item.name)) for item in main.inputs)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in main.outputs)
    return Drawn(graph, types)


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
