"""Fewer bindings in bodies and functions of graphs of other formats than ONNX, where the bug needs those.

A removed binding's uses go to an operand of the same type, else to a constant of ones: what flows inside was
not recorded. The framework tells the types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from corpus.graphs.program import (
    GRAPH,
    Binding,
    Graph,
    GraphProgram,
    Json,
    dtype_of,
    graph_of_json,
    graph_to_json,
    tag_of,
)
from corpus.values import Tensor
from reducer.move import Hints, Move, Search, SearchOf, over_sets
from reducer.search import Items, drop_one_at_a_time, find_essentials
from reducer.subject.graphs.edits import redirect, without_unused
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.order import size

FEW = 4
"""Up to here, asking for each binding is cheaper than bisecting."""

Kind: TypeAlias = tuple[str, tuple[int | str, ...]]


def shrink_graph_bodies(subject: GraphSubject, hints: Hints) -> Search:
    """Graph after graph, inner ones first: all of its bindings at once, then as few as will do."""
    best: GraphSubject = subject
    for names in [binding_names(graph) for graph in inner_graphs(subject.program)]:
        left = [name for name in names if name in best.program.names]
        if left:
            best = yield from _shrink(best, tuple(left))
    return best


def inner_graphs(program: GraphProgram) -> Iterator[Graph]:
    """Yield the bodies and functions of a program, what is inside of one before it."""
    for graph in (program.main, *program.functions.values()):
        yield from _inside(graph)
    yield from program.functions.values()


def _inside(graph: Graph) -> Iterator[Graph]:
    for body in (body for binding in graph.bindings for body in binding.bodies):
        yield from _inside(body)
        yield body


def binding_names(graph: Graph) -> tuple[str, ...]:
    """Return the names of a graph's bindings, in order."""
    return tuple(binding.name for binding in graph.bindings)


def _shrink(subject: GraphSubject, names: tuple[str, ...]) -> SearchOf[GraphSubject]:
    kinds = _kinds(subject)
    build = partial(_smaller, subject, names, kinds)
    nothing = partial(build, frozenset())
    if (yield nothing):
        return nothing() or subject
    search = find_essentials(range(len(names))) if len(names) > FEW else drop_one_at_a_time(range(len(names)))
    return (yield from over_sets(subject, search, build))


def _smaller(
    subject: GraphSubject, names: tuple[str, ...], kinds: Mapping[str, Kind], keep: Items
) -> GraphSubject | None:
    """The subject with these bindings of one graph alone; None where that is no smaller or ill-formed."""
    gone = frozenset(name for place, name in enumerate(names) if place not in keep)
    thinned = _Thinned(gone, kinds, subject.program)
    program = changed_graphs(subject.program, lambda graph: thinned.graph(graph, names))
    constants = {**program.constants, **thinned.constants}
    fresh = subject.with_program(without_unused(replace(program, constants=constants)), subject.inputs)
    return fresh if size(fresh) < size(subject) and not fresh.complaint else None


def _kinds(subject: GraphSubject) -> dict[str, Kind]:
    """Return the types of tensors in every graph, by name."""
    told = subject.describe(subject.document, subject.inputs).get("types", {})
    found = {name: (dtype, tuple(dims)) for name, (dtype, dims) in told.items() if dtype and dims is not None}
    graphs = [subject.program.main, *subject.program.functions.values(), *inner_graphs(subject.program)]
    for item in (item for graph in graphs for item in graph.inputs if item.declared is None):
        found[item.name] = (item.dtype, tuple(item.shape))
    for name, value in subject.program.constants.items():
        found[name] = (value.dtype.name, value.shape)
    return found


@dataclass
class _Thinned:
    """A graph without some of its bindings; collects the constants that stand for what nothing else can."""

    gone: frozenset[str]
    kinds: Mapping[str, Kind]
    program: GraphProgram

    def __post_init__(self) -> None:
        self.constants: dict[str, Tensor] = {}

    def graph(self, graph: Graph, names: tuple[str, ...]) -> Graph:
        """Return the graph of these names thinned; any other as it is."""
        if not set(names).issubset(binding_names(graph)):
            return graph
        instead: dict[str, str] = {}
        kept: list[Binding] = []
        for binding in graph.bindings:
            other = self.other(binding, instead) if binding.name in self.gone else ""
            if other:
                instead[binding.name] = other
            else:
                kept.append(redirect(binding, instead))
        outputs = tuple(instead.get(name, name) for name in graph.outputs)
        return replace(graph, bindings=tuple(kept), outputs=outputs)

    def other(self, binding: Binding, instead: Mapping[str, str]) -> str:
        """Return a name of the same type to read instead of a binding; empty if there is none."""
        kind = self.kinds.get(binding.name)
        same = [name for name in binding.reads if kind is not None and self.kinds.get(name) == kind]
        if same:
            return instead.get(same[0], same[0])
        ones = _ones(kind) if kind is not None else None
        name = f"{binding.name}_ones"
        if ones is None or name in self.program.names:
            return ""
        self.constants[name] = ones
        return name


def _ones(kind: Kind) -> Tensor | None:
    dtype, dims = kind
    known = dtype_of(dtype)
    if known is None or not all(isinstance(dim, int) for dim in dims):
        return None
    return np.ones([int(dim) for dim in dims], known)


def changed_graphs(program: GraphProgram, change: Callable[[Graph], Graph]) -> GraphProgram:
    """The program with each body and function changed, what is inside of one before it; main as it is."""

    def body(item: Json) -> Json:
        if tag_of(item) != GRAPH:
            return item
        return {GRAPH: graph_to_json(change(inside(graph_of_json(item[GRAPH]))))}

    def inside(graph: Graph) -> Graph:
        return replace(graph, bindings=tuple(binding.mapped(body) for binding in graph.bindings))

    functions = {name: change(inside(graph)) for name, graph in program.functions.items()}
    return replace(program, main=inside(program.main), functions=functions)


MOVES = (Move("shrink graph bodies", 195, shrink_graph_bodies, reshapes=True, on=GraphSubject),)
