"""Pictures of graphs: every box and line of one, or the surroundings of a few of its nodes.

Graphs of every format are drawn in one form: ONNX's, with a type for each value. A graph of another format
becomes boxes and lines only: nobody checks or runs what it is made into.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx
from onnx import GraphProto, NodeProto, TypeProto, helper

from corpus.case import Case
from corpus.graphs.program import Binding, GraphProgram, dtype_of
from corpus.onnx.canonical import op_name
from corpus.onnx.graph import free_names, initializer_names
from corpus.onnx.text import tensor_text, type_text
from corpus.onnx.types import ELEMENT_TYPES
from corpus.tir.forms import numpy_dtype
from corpus.tir.script import head_of
from corpus.tir.tree import Alloc, Bind, Block, Body, Declare, For, If, Module, Stmt, Store
from corpus.tir.values import Buffer, Const, Load, Var
from corpus.tir.walk import children, walk
from corpus.values import Shape, Tensor
from triage.language import language_of
from triage.views.graph_layout import Box, Drawing, Gaps, Point, draw, svg_path, topological_order

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


MOST_WHOLE = 150
"""Graphs with more nodes are drawn by the surroundings of the nodes that count."""
MOST_AROUND = 70
MOST_WITH_WEIGHTS = 30
STEPS = 3
MOST_LABEL = 34
STUB = 12.0


@dataclass(frozen=True)
class Item:
    """A box of the picture: its two lines, its kind for the style sheet, whether lines are cut off."""

    title: str
    detail: str
    kind: str
    reads_more: bool = False
    is_read_more: bool = False

    @property
    def box(self) -> Box:
        """The size of the box, by the lengths of its lines."""
        width = max(7.6 * len(self.title), 6.5 * len(self.detail)) + 20
        return Box(max(width, 46.0), 40.0 if self.detail else 26.0)


@dataclass(frozen=True)
class Shown:
    """A laid-out picture, ready for the template."""

    items: tuple[tuple[Item, Point, Box], ...]
    lines: tuple[tuple[str, str], ...]
    width: float
    height: float
    focus: Point


@dataclass(frozen=True)
class Dots:
    """A strip with one dot a node, in topological order, row by row: two paths in cells of one unit."""

    columns: int
    rows: int
    others: str
    kept: tuple[Point, ...]


@dataclass(frozen=True)
class GraphPicture:
    """A main graph with its types; `kept` are the indices of the nodes to highlight."""

    graph: onnx.GraphProto
    types: Mapping[str, onnx.TypeProto]
    kept: frozenset[int] = frozenset()
    values: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """The nodes of the main graph."""
        return tuple(self.graph.node)

    @cached_property
    def producer(self) -> Mapping[str, int]:
        """Map each value to the node that makes it."""
        return {name: index for index, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """List by node the nodes that it reads, through its bodies too."""
        made = self.producer
        return tuple(
            tuple(dict.fromkeys(made[name] for name in _reads(node) if name in made)) for node in self.nodes
        )

    @cached_property
    def readers(self) -> Mapping[int, list[int]]:
        """Map each node to the nodes that read it."""
        found: dict[int, list[int]] = {}
        for index, sources in enumerate(self.sources):
            for source in sources:
                found.setdefault(source, []).append(index)
        return found

    @cached_property
    def order(self) -> list[int]:
        """The nodes in topological order."""
        return topological_order(len(self.nodes), dict(enumerate(self.sources)))

    def whole(self) -> Shown:
        """Every node, with the graph's inputs, outputs and, of a small one, weights."""
        return self._show(range(len(self.nodes)), with_weights=len(self.nodes) <= MOST_WITH_WEIGHTS)

    def original(self) -> Shown:
        """The graph without its weights; of a large one the kept nodes and those a few steps around."""
        if len(self.nodes) <= MOST_WHOLE:
            return self._show(range(len(self.nodes)), with_weights=False)
        return self._show(self._around(), with_weights=False)

    @property
    def is_cut(self) -> bool:
        """Whether the graph is too large to be drawn whole."""
        return len(self.nodes) > MOST_WHOLE

    def _around(self) -> set[int]:
        """The kept nodes and their neighbours, step by step while the picture stays readable."""
        near = set(self.kept) or set(self.order[: MOST_AROUND // 2])
        edge = sorted(near)
        for _ in range(STEPS):
            beside = {
                other for index in edge for other in (*self.sources[index], *self.readers.get(index, ()))
            }
            edge = sorted(beside - near)[: max(0, MOST_AROUND - len(near))]
            near.update(edge)
        return near

    def _show(self, chosen: Iterable[int], *, with_weights: bool) -> Shown:
        shown = set(chosen)
        items: list[Item] = []
        places: dict[str | int, int] = {}
        for name, item in self._leaves(shown, with_weights):
            places[name] = len(items)
            items.append(item)
        for index in (index for index in self.order if index in shown):
            places[index] = len(items)
            items.append(self._item(index, shown))
        edges = list(self._edges(places))
        for info in self.graph.output:
            if (made := self.producer.get(info.name)) in places and made is not None:
                edges.append((places[made], len(items)))
                items.append(self._leaf(info.name, "output"))
        boxes = [item.box for item in items]
        return _shown(items, boxes, edges, draw(boxes, edges, Gaps()))

    def _leaves(self, shown: set[int], with_weights: bool) -> Iterable[tuple[str, Item]]:
        """Yield the inputs and weights that the shown nodes read."""
        read = {name for index in shown for name in _reads(self.nodes[index])}
        weights = initializer_names(self.graph)
        for info in self.graph.input:
            if info.name in read and info.name not in weights:
                yield info.name, self._leaf(info.name, "input")
        for tensor in self.graph.initializer if with_weights else ():
            if tensor.name in read:
                yield tensor.name, Item(_cut(tensor.name), _cut(tensor_text(tensor)), "weight")

    def _leaf(self, name: str, kind: str) -> Item:
        return Item(_cut(name), _cut(self.values.get(name) or self._type(name)), kind)

    def _item(self, index: int, shown: set[int]) -> Item:
        node = self.nodes[index]
        detail = next((self._type(name) for name in node.output if name), "")
        return Item(
            _cut(op_name(node)),
            "" if detail == "?" else _cut(detail),
            "kept" if index in self.kept else "node",
            reads_more=any(source not in shown for source in self.sources[index]),
            is_read_more=any(reader not in shown for reader in self.readers.get(index, ())),
        )

    def _edges(self, places: Mapping[str | int, int]) -> Iterable[tuple[int, int]]:
        for key, place in places.items():
            if isinstance(key, int):
                for name in _reads(self.nodes[key]):
                    source = places.get(self.producer.get(name, name))
                    if source is not None:
                        yield source, place

    def _type(self, name: str) -> str:
        return type_text(self.types[name]) if name in self.types else ""

    def dots(self) -> Dots:
        """The overview: one dot a node."""
        count = len(self.nodes)
        columns = max(40, math.ceil(math.sqrt(12 * count)))
        places = {index: Point(at % columns, at // columns) for at, index in enumerate(self.order)}
        others = [places[index] for index in self.order if index not in self.kept]
        path = "".join(f"M{point.x + 0.5:g} {point.y + 0.5:g}h0" for point in others)
        kept = tuple(places[index] for index in self.order if index in self.kept)
        return Dots(columns, math.ceil(count / columns), path, kept)


def kept_picture(case: Case, kept: Iterable[int]) -> GraphPicture:
    """The graph of a program with these of its nodes highlighted."""
    shown = drawn(case)
    return GraphPicture(shown.graph, shown.types, frozenset(kept))


def small_picture(shown: DrawnGraph, values: Mapping[str, str], wrong: str = "") -> Shown | None:
    """A small graph, with the node marked that makes the wrong value; None of a graph too large to see."""
    if len(shown.graph.node) > MOST_WHOLE:
        return None
    return GraphPicture(shown.graph, shown.types, makers_of(shown.graph, wrong), values).whole()


def makers_of(graph: onnx.GraphProto, value: str) -> frozenset[int]:
    """The node that makes a value, to be marked; none if it is none of the main graph's."""
    return frozenset(at for at, node in enumerate(graph.node) if value and value in node.output)


def _reads(node: onnx.NodeProto) -> list[str]:
    direct = [name for name in node.input if name]
    return list(dict.fromkeys([*direct, *sorted(free_names(node).difference(direct))]))


def _cut(text: str) -> str:
    clean = "".join(char if char.isprintable() else " " for char in text[: 4 * MOST_LABEL])
    return clean if len(clean) <= MOST_LABEL else clean[: MOST_LABEL - 1] + "…"


def _focus(items: list[Item], drawing: Drawing) -> Point:
    """The uppermost kept node; where none is kept, the first one."""
    for kind in ("kept", "node"):
        found = [centre for item, centre in zip(items, drawing.centres, strict=True) if item.kind == kind]
        if found:
            return min(found, key=lambda centre: centre.y) if kind == "kept" else found[0]
    return Point(drawing.width / 2, 0)


def _shown(items: list[Item], boxes: list[Box], edges: list[tuple[int, int]], drawing: Drawing) -> Shown:
    def is_kept(*ends: int) -> bool:
        return all(items[end].kind == "kept" for end in ends)

    lines = [
        (svg_path(route), "kept" if is_kept(*edge) else "")
        for edge, route in zip(edges, drawing.routes, strict=True)
    ]
    for item, box, centre in zip(items, boxes, drawing.centres, strict=True):
        half = box.height / 2
        if item.reads_more:
            lines.append((f"M{centre.x:g} {centre.y - half - STUB:g}v{STUB:g}", "cut"))
        if item.is_read_more:
            lines.append((f"M{centre.x:g} {centre.y + half:g}v{STUB:g}", "cut"))
    focus = _focus(items, drawing)
    triples = tuple(zip(items, drawing.centres, boxes, strict=True))
    return Shown(triples, tuple(lines), drawing.width, drawing.height, focus)
