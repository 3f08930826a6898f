"""Graphs of every format in the one form that pictures are made of: ONNX's, with a type for each value.

A graph of another format becomes boxes and lines only: nobody checks or runs what it is made into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import GraphProto, NodeProto, TypeProto, helper

from corpus.case import Case
from corpus.graphs.program import Binding, GraphProgram, dtype_of
from corpus.onnx.types import ELEMENT_TYPES
from corpus.tir.script import head_of
from corpus.tir.tree import Alloc, Bind, Block, Body, Declare, For, If, Module, Stmt, Store
from corpus.tir.types import numpy_dtype
from corpus.tir.values import Buffer, Const, Load, Var
from corpus.tir.walk import children, walk
from corpus.values import Shape, Tensor
from triage.language import language_of

_PREFIX = re.compile(r"\bT\.")
Kinds = dict[str, tuple[str, tuple[int | None, ...]]]
"""Of each value drawn its dtype and dims, None for computed ones."""


@dataclass
class LoopsPicture:
    """The graph of a program while it is drawn.

    A store makes a new state of its buffer, which later statements read. A statement that holds others, such
    as a loop or an if, leads to each of them.
    """

    module: Module
    graph: GraphProto = field(default_factory=GraphProto)
    kinds: Kinds = field(default_factory=dict)
    now: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, module: Module) -> LoopsPicture:
        """The picture of a module's first function."""
        made = cls(module)
        made.graph.name = module.entry
        for item in module.main.params:
            made._know(item.name, item)
            made.graph.input.append(onnx.ValueInfoProto(name=item.name))
        made._body(module.main.body, "")
        written = [one.name for one in module.main.buffers if one.name in made.now]
        made.graph.output.extend(onnx.ValueInfoProto(name=made.now[name]) for name in written)
        return made

    def _body(self, body: Body, holder: str) -> None:
        for stmt in body:
            self._statement(stmt, holder)

    def _statement(self, stmt: Stmt, holder: str) -> None:
        reads = [self.now.get(name, name) for name in _read_in(stmt)]
        made = self._made(stmt)
        inputs = list(dict.fromkeys(filter(None, (*reads, holder))))
        self.graph.node.append(NodeProto(op_type=_PREFIX.sub("", head_of(stmt)), input=inputs, output=[made]))
        for inside in _bodies(stmt):
            self._body(inside, made)

    def _made(self, stmt: Stmt) -> str:
        """The name of what a statement leaves: a buffer's next state, a variable, else its place."""
        place = f"statement {len(self.graph.node)}"
        match stmt:
            case Store():
                self.now[stmt.buffer] = f"{stmt.buffer} after {place}"
                self.kinds[self.now[stmt.buffer]] = self.kinds.get(stmt.buffer, ("", ()))
                return self.now[stmt.buffer]
            case Bind():
                self._know(stmt.var.name, stmt.var)
                return stmt.var.name
            case Alloc() | Declare():
                self._know(stmt.buffer.name, stmt.buffer)
                return stmt.buffer.name
            case Block():
                for buffer in (*stmt.allocs, *(each.buffer for each in stmt.matches)):
                    self._know(buffer.name, buffer)
        return place

    def _know(self, name: str, item: Buffer | Var) -> None:
        shape = item.shape if isinstance(item, Buffer) else ()
        dims = tuple(int(dim.value) if isinstance(dim, Const) else None for dim in shape)
        self.kinds[name] = (item.dtype, dims)

    @property
    def known(self) -> Mapping[str, tuple[str, tuple[int | None, ...]]]:
        """Map what is drawn to dtype and dims, where numpy has that type."""
        return {
            name: kind for name, kind in self.kinds.items() if kind[0] and numpy_dtype(kind[0]) is not None
        }


def _bodies(stmt: Stmt) -> tuple[Body, ...]:
    """The bodies of a statement in the order of the text."""
    if isinstance(stmt, If):
        return (stmt.then, stmt.other or ())
    return (getattr(stmt, "init", None) or (), getattr(stmt, "body", None) or ())


def _read_in(stmt: Stmt) -> list[str]:
    """List the buffers and variables that a statement itself reads, without those inside it."""
    found = [stmt.buffer] if isinstance(stmt, Store) else []  # what a store leaves alone stays as it was
    own = {stmt.var.name} if isinstance(stmt, Bind | For) else set()
    for child in children(stmt):
        if not isinstance(child, Stmt):
            items = (item for item in walk((child,)) if isinstance(item, Load | Var))
            found += [item.buffer if isinstance(item, Load) else item.name for item in items]
    return [name for name in dict.fromkeys(found) if name not in own]


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
    """The statements of a program of loops as nodes."""
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
