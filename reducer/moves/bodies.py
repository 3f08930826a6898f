"""Fewer nodes inside If, Loop and Scan bodies, by link and by cut.

A removed node's uses go to an operand of the same type; where it has none, or for a result of the body none
but one from outside, a weight of ones takes its place, since what flowed inside a body was not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import TypeAlias

import numpy as np
import onnx
from onnx import GraphProto, NodeProto

from corpus.onnx.graph import body_weights, defined_names, free_names, rename_graph, subgraphs, walk_graphs
from corpus.onnx.types import DTYPES
from reducer.move import Hints, Move, Search, SearchOf, first_smaller, over_sets, smaller_by
from reducer.search import Items, drop_one_at_a_time, find_essentials, nothing_or
from reducer.subject.base import initializer, shape_key, type_of
from reducer.subject.onnx.divergence import inferred
from reducer.subject.onnx.nodesets import assemble, rename_reads
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size

Path: TypeAlias = tuple[tuple[int, int], ...]
"""The way to a body: at each level the index of the node and the number of its body."""


def shrink_bodies(subject: OnnxSubject, hints: Hints) -> Search:
    """Body after body, an outer one before those within it."""
    best = subject
    position = 0
    while position < len(paths := list(_paths(best.model.graph))):
        best = yield from _shrink(best, paths[position])
        position += 1
    return best


def _shrink(subject: OnnxSubject, path: Path) -> SearchOf[OnnxSubject]:
    """Drop a body's nodes: plain weights take the place of results; if nothing goes, outer values do."""
    for flows in (False, True):
        found = yield from _shrink_by(_Body(subject, path, flows))
        if found is not subject:
            return found
    return subject


def _shrink_by(body: _Body) -> SearchOf[OnnxSubject]:
    subject, everything = body.subject, range(len(body.nodes))

    def smaller(keep: Items) -> OnnxSubject | None:
        found = body.keep(keep)
        return found if found is not None and size(found) < size(subject) else None

    if not body.nodes:
        return subject
    for search in (nothing_or(find_essentials(everything)), drop_one_at_a_time(everything)):
        found = yield from over_sets(subject, search, smaller)
        if found is not subject:
            return found
    return subject


def _paths(graph: GraphProto, at: Path = ()) -> Iterator[Path]:
    for index, node in enumerate(graph.node):
        for number, body in enumerate(subgraphs(node)):
            here = (*at, (index, number))
            yield here
            yield from _paths(body, here)


def _at(graph: GraphProto, path: Path) -> GraphProto:
    for index, number in path:
        graph = subgraphs(graph.node[index])[number]
    return graph


@dataclass(frozen=True)
class _Body:
    """A body of the subject, and how it looks with fewer nodes."""

    subject: OnnxSubject
    path: Path
    flows: bool

    @cached_property
    def graph(self) -> GraphProto:
        return _at(self.subject.model.graph, self.path)

    @cached_property
    def nodes(self) -> list[NodeProto]:
        return list(self.graph.node)

    @cached_property
    def types(self) -> Mapping[str, tuple[object, ...] | None]:
        """Map each name of all enclosing graphs to the type that a replacement must have."""
        whole = inferred(self.subject.model)
        found: dict[str, tuple[object, ...] | None] = {}
        for name, value in {**self.subject.facts.values, **self.subject.inputs}.items():
            found[name] = shape_key(type_of(value))
        for depth in range(len(self.path) + 1):
            graph = _at(whole.graph, self.path[:depth])
            for info in (*graph.input, *graph.value_info, *graph.output):
                if found.get(info.name) is None:
                    found[info.name] = shape_key(info.type)
            for tensor in graph.initializer:
                found[tensor.name] = (tensor.data_type, tuple(tensor.dims))
        return found

    def keep(self, keep: Items) -> OnnxSubject | None:
        """The subject with only these nodes in the body; None where nothing can stand in for another."""
        links = self._links(keep)
        kept = [rename_reads(self.nodes[index], links) for index in sorted(keep)]
        nodes, outputs = self._with_outputs(kept, links)
        made = {name for node in nodes for name in node.output if name}
        read = dict.fromkeys(name for node in nodes for name in sorted(free_names(node)))
        removed = {name for node in self.nodes for name in node.output if name} - made
        cut = [self._ones(name) for name in dict.fromkeys([*read, *outputs]) if name in removed]
        ones = [tensor for tensor in cut if tensor is not None]
        if len(ones) < len(cut):
            return None
        return self._with(nodes, outputs, ones)

    def _with(
        self, nodes: list[NodeProto], outputs: list[str], ones: list[onnx.TensorProto]
    ) -> OnnxSubject | None:
        model = deepcopy(self.subject.model)
        graph = _at(model.graph, self.path)
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)
        graph.initializer.extend(ones)
        for info, name in zip(graph.output, outputs, strict=True):
            info.name = name
        read = {name for node in graph.node for name in free_names(node)}
        read |= {info.name for info in graph.output}
        kept = [tensor for tensor in graph.initializer if tensor.name in read]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        whole = replace(self.subject, model=model)
        return assemble(whole, list(whole.nodes))

    @cached_property
    def _own(self) -> frozenset[str]:
        """The names that can be results without a node: the body's inputs and weights."""
        return frozenset(item.name for item in (*self.graph.input, *self.graph.initializer))

    @cached_property
    def _is_endless(self) -> bool:
        """Whether it is the body of a Loop that only its condition ends."""
        outer = _at(self.subject.model.graph, self.path[:-1]).node[self.path[-1][0]]
        return outer.op_type == "Loop" and not (outer.input and outer.input[0])

    def _ones(self, name: str) -> onnx.TensorProto | None:
        """A weight of ones in a tensor's place; None where its type is not known or it ends a loop."""
        kind = self.types.get(name)
        if kind is None or self.subject.model.ir_version < 4 or len(kind) != 2:
            return None
        element, dims = kind
        if not isinstance(dims, tuple) or not all(isinstance(dim, int) for dim in dims):
            return None
        if (self._is_endless and name == self.graph.output[0].name) or element not in DTYPES:
            return None
        dtype = DTYPES[element]
        return initializer(name, np.ones(dims, dtype)) if dtype.kind not in "OUS" else None

    def _links(self, keep: Items) -> dict[str, str]:
        links: dict[str, str] = {}
        for index, node in enumerate(self.nodes):
            if index in keep:
                continue
            operands = [name for name in node.input if name]
            operands += sorted(free_names(node).difference(operands))
            for output in (name for name in node.output if name):
                wanted = self.types.get(output)
                fitting = [name for name in operands if wanted and self.types.get(name) == wanted]
                if fitting:
                    links[output] = links.get(fitting[0], fitting[0])
        return links

    def _with_outputs(
        self, kept: list[NodeProto], links: Mapping[str, str]
    ) -> tuple[list[NodeProto], list[str]]:
        """The nodes, with an Identity where one is needed, and what the body's outputs are called then."""
        nodes = list(kept)
        made = {name for node in kept for name in node.output if name}
        outputs = [info.name for info in self.graph.output]
        for position, output in enumerate(list(outputs)):
            source = links.get(output, "")
            if output in made or not source:
                continue
            if source in made and source not in outputs:
                nodes = [_renamed(node, source, output) for node in nodes]
                made = made - {source} | {output}
                links = {name: output if to == source else to for name, to in links.items()}
            elif source in self._own and source not in outputs:
                outputs[position] = source
            elif source in made or source in self._own or self.flows:
                nodes.append(onnx.helper.make_node("Identity", [source], [output]))
        return nodes, outputs


def _renamed(node: NodeProto, old: str, new: str) -> NodeProto:
    copy = deepcopy(rename_reads(node, {old: new}))
    copy.output[:] = [new if name == old else name for name in node.output]
    return copy


def drop_results(subject: OnnxSubject, hints: Hints) -> Search:
    """Result by result, last first; with it goes what only it needed inside."""
    places = reversed(list(_unread(subject)))
    return (yield from smaller_by(subject, [partial(_without, *place) for place in places]))


def _unread(subject: OnnxSubject) -> Iterator[tuple[int, int]]:
    """Nodes of the main graph with the positions of their results that nobody takes, if another is taken."""
    read = {name for reads in subject.reads for name in reads} | set(subject.graph_outputs)
    for index, node in enumerate(subject.nodes):
        if node.op_type in ("If", "Loop", "Scan") and not node.domain:
            loose = [at for at, name in enumerate(node.output) if name not in read]
            if len(loose) < len(node.output):
                yield from ((index, at) for at in loose)


def _without(index: int, position: int, subject: OnnxSubject) -> OnnxSubject | None:
    model = deepcopy(subject.model)
    node = model.graph.node[index]
    first = 1 if node.op_type == "Loop" else 0  # a Loop's body gives its condition first
    carried = _carried(node)
    for body in subgraphs(node):
        if position + first >= len(body.output):
            return None
        if position < carried:
            _wire(body, 2 * first + position, node.input[2 * first + position])
        del body.output[position + first]
        _drop_dead(body)
    if position < carried:
        del node.input[2 * first + position]
    elif node.op_type == "Scan":
        _drop_axis(node, position - carried)
    del node.output[position]
    whole = replace(subject, model=model)
    return assemble(whole, list(whole.nodes))


def _carried(node: NodeProto) -> int:
    """Count the node's results that carry state from one iteration to the next."""
    if node.op_type == "Loop":
        return len(node.input) - 2
    scanned = next((item.i for item in node.attribute if item.name == "num_scan_inputs"), 0)
    return len(node.input) - scanned if node.op_type == "Scan" else 0


def _wire(body: GraphProto, at: int, outer: str) -> None:
    """Instead of a state the body reads what it began with."""
    inner = body.input[at].name
    del body.input[at]
    rename_graph(body, lambda name: outer if name == inner else name)


def _drop_axis(node: NodeProto, scanned: int) -> None:
    for at in reversed(range(len(node.attribute))):
        item = node.attribute[at]
        if item.name in ("scan_output_axes", "scan_output_directions") and scanned < len(item.ints):
            del item.ints[scanned]
            if not item.ints:
                del node.attribute[at]


def _drop_dead(body: GraphProto) -> None:
    """Without the nodes that make nothing of use."""
    wanted = {info.name for info in body.output}
    live = []
    for node in reversed(body.node):
        if not wanted.isdisjoint(node.output):
            wanted |= free_names(node)
            live.append(node)
    copies = onnx.GraphProto(node=live[::-1])
    del body.node[:]
    body.node.extend(copies.node)


def lift_body_weights(subject: OnnxSubject, hints: Hints) -> Search:
    """All at once, but for those that are a body's result and so must be its own."""
    return (yield from first_smaller(subject, [partial(_lifted, subject)]))


def _lifted(subject: OnnxSubject) -> OnnxSubject:
    if subject.model.ir_version < 4 or not any(True for _ in body_weights(subject.model.graph)):
        return subject
    model = deepcopy(subject.model)
    taken = _defined_once(model.graph)
    for graph in islice(walk_graphs(model.graph), 1, None):
        results = {info.name for info in graph.output}
        movable = [item for item in graph.initializer if item.name in taken and item.name not in results]
        model.graph.initializer.extend(movable)
        kept = [item for item in graph.initializer if item not in movable]
        del graph.initializer[:]
        graph.initializer.extend(kept)
    return replace(subject, model=model)


def _defined_once(graph: onnx.GraphProto) -> frozenset[str]:
    """The names that mean one tensor in the whole model."""
    seen: set[str] = set()
    twice: set[str] = set()
    for inner in walk_graphs(graph):
        names = defined_names(inner)
        twice |= seen & names
        seen |= names
    return frozenset(seen - twice)


MOVES = (
    Move("shrink bodies", 280, shrink_bodies, reshapes=True, on=OnnxSubject),
    Move("drop results of control flow", 288, drop_results, reshapes=True, on=OnnxSubject),
    Move("lift weights out of bodies", 285, lift_body_weights, reshapes=True, on=OnnxSubject),
)
