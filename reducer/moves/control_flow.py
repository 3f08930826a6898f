"""An If becomes one of its branches, a Loop or Scan one trip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper

from corpus.onnx.graph import defined_names, free_names, rename
from corpus.values import Value
from reducer.move import Hints, Move, Search, first_smaller
from reducer.subject.base import initializer
from reducer.subject.onnx.nodesets import assemble
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject

_Choice: TypeAlias = Callable[[], OnnxSubject | None]


def unfold(subject: OnnxSubject, hints: Hints) -> Search:
    """Every control-flow node of the main graph, and what comes to the main graph by that."""
    best, position = subject, 0
    while position < len(best.nodes):
        found = yield from first_smaller(best, _unfoldings(best, position))
        position += found is best
        best = found
    return best


def _unfoldings(subject: OnnxSubject, index: int) -> Iterator[_Choice]:
    node = subject.nodes[index]
    graphs = {item.name: item.g for item in node.attribute if item.type == onnx.AttributeProto.GRAPH}
    ways: list[_Unfold] = []
    if node.op_type == "If":
        # The branch that is taken comes first
        condition = subject.facts.values.get(node.input[0], subject.inputs.get(node.input[0]))
        taken = not isinstance(condition, np.ndarray) or bool(condition.all())
        branches = ("then_branch", "else_branch") if taken else ("else_branch", "then_branch")
        ways += [_Trip(node, graphs[branch]).branch for branch in branches if branch in graphs]
    elif node.op_type in ("Loop", "Scan") and "body" in graphs:
        trip = _Trip(node, graphs["body"], {**subject.facts.values, **subject.inputs})
        ways += [trip.loop if node.op_type == "Loop" else trip.scan]
    for way in ways:  # without the unread nodes of the body; then with them, since a body runs them too
        yield partial(_unfolded, subject, index, way)
        yield partial(_unfolded, subject, index, way, shows_unread=True)


def _unfolded(
    subject: OnnxSubject, index: int, unfold_node: _Unfold, shows_unread: bool = False
) -> OnnxSubject | None:
    """The subject with one node replaced by what `unfold_node` makes of it; dead nodes of it dropped.

    With `shows_unread` what nobody reads becomes an output instead; None where there is nothing of the kind.
    """
    made = unfold_node(subject.model.graph)
    if made is None:
        return None
    nodes = [*subject.nodes[:index], *made.nodes, *subject.nodes[index + 1 :]]
    outputs = {info.name for info in subject.model.graph.output}
    unread = _unread(nodes, made.nodes, outputs) if shows_unread else []
    if shows_unread and not unread:
        return None
    live = _without_dead(nodes, outputs.union(unread), len(made.nodes), index)
    model = deepcopy(subject.model)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in unread)
    made.is_stacked |= shows_unread
    del model.graph.node[:]
    model.graph.node.extend(live)
    model.graph.initializer.extend(made.tensors)
    facts = replace(subject.facts, values={**subject.facts.values, **made.slices})
    whole = replace(subject, model=model, facts=facts)
    found = assemble(whole, [node for node in live if made.slices.keys().isdisjoint(node.output)])
    if found is None or not made.is_stacked:
        return found
    return change_model(found, lambda model: None) or found  # one trip stacks fewer slices


def _unread(nodes: list[NodeProto], fresh: list[NodeProto], outputs: set[str]) -> list[str]:
    """The results of the fresh nodes that nobody reads."""
    read = outputs.union(*map(free_names, nodes))
    return [name for node in fresh for name in node.output if name and name not in read]


def _without_dead(nodes: list[NodeProto], outputs: set[str], count: int, start: int) -> list[NodeProto]:
    """Drop those of the `count` new nodes from `start` on whose outputs nobody reads."""
    read = set(outputs)
    kept: list[NodeProto] = []
    for index, node in reversed(list(enumerate(nodes))):
        if start <= index < start + count and read.isdisjoint(node.output):
            continue
        read |= free_names(node)
        kept.append(node)
    return kept[::-1]


@dataclass
class _Made:
    """The nodes and tensors of one run of a body; `slices` are results whose nodes can be cut."""

    nodes: list[NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    slices: dict[str, Value] = field(default_factory=dict)
    is_stacked: bool = False


@dataclass
class _Trip:
    """One run of a body, written out in the graph around it."""

    node: NodeProto
    body: GraphProto
    values: Mapping[str, Value] = field(default_factory=dict)

    def branch(self, outer: GraphProto) -> _Made | None:
        return self._write_out(outer, {}, _Made(), list(self.node.output))

    def loop(self, outer: GraphProto) -> _Made | None:
        """The first trip: counter 0, condition true, carried values as they come in."""
        made = _Made()
        names = [info.name for info in self.body.input]
        carried = list(self.node.input[2:])
        if len(names) != 2 + len(carried) or not all(carried):
            return None
        counter, condition = self._fresh(outer, "trip"), self._fresh(outer, "condition")
        made.tensors.append(initializer(counter, np.zeros((), np.int64)))
        made.tensors.append(initializer(condition, np.ones((), np.bool_)))
        wiring = dict(zip(names, [counter, condition, *carried], strict=True))
        results = ["", *self.node.output]
        results += [""] * (len(self.body.output) - len(results))
        stacked = range(1 + len(carried), len(results))
        return self._write_out(outer, wiring, made, results, dict.fromkeys(stacked, 0))

    def scan(self, outer: GraphProto) -> _Made | None:
        """The first slice of each scanned input."""
        made = _Made()
        attributes = {item.name: helper.get_attribute_value(item) for item in self.node.attribute}
        count = attributes["num_scan_inputs"]
        states = len(self.node.input) - count
        axes = list(attributes.get("scan_input_axes", [0] * count))
        names = [info.name for info in self.body.input]
        if len(names) != len(self.node.input) or not all(self.node.input):
            return None
        zero = self._fresh(outer, "first")
        made.tensors.append(initializer(zero, np.zeros((), np.int64)))
        wiring = dict(zip(names[:states], self.node.input[:states], strict=True))
        for name, source, axis in zip(names[states:], self.node.input[states:], axes, strict=True):
            wiring[name] = self._fresh(outer, name)
            value = self.values.get(source)
            if isinstance(value, np.ndarray) and value.shape[axis]:
                made.slices[wiring[name]] = value.take(0, axis)
            made.nodes.append(helper.make_node("Gather", [source, zero], [wiring[name]], axis=axis))
        out_axes = list(attributes.get("scan_output_axes", [0] * (len(self.body.output) - states)))
        stacked = dict(zip(range(states, len(self.body.output)), out_axes, strict=True))
        return self._write_out(outer, wiring, made, list(self.node.output), stacked)

    def _write_out(
        self,
        outer: GraphProto,
        wiring: Mapping[str, str],
        made: _Made,
        results: list[str],
        stacked: Mapping[int, int] | None = None,
    ) -> _Made | None:
        """Copy the body's nodes under fresh names; `results` are the outer names of its outputs in order."""
        names = dict(wiring)
        produced = {name for node in self.body.node for name in node.output if name}
        read = {name for node in outer.node for name in free_names(node)}
        for position, (info, result) in enumerate(zip(self.body.output, results, strict=False)):
            is_stacked = position in (stacked or {})
            if result and info.name in produced - names.keys() and not (is_stacked and result in read):
                names[info.name] = result  # what nobody reads need not be a stack of one
                made.is_stacked |= is_stacked
        for name in sorted(defined_names(self.body)):
            names.setdefault(name, self._fresh(outer, name))
        for tensor in map(deepcopy, self.body.initializer):
            tensor.name = names[tensor.name]
            made.tensors.append(tensor)
        for node in map(deepcopy, self.body.node):
            rename(node, lambda name: names.get(name, name))
            made.nodes.append(node)
        self._join(made, names, results, stacked or {}, outer)
        return made

    def _join(
        self,
        made: _Made,
        names: Mapping[str, str],
        results: Iterable[str],
        stacked: Mapping[int, int],
        outer: GraphProto,
    ) -> None:
        """Give the outer results that are no node's own output one: stacked, or passed through."""
        for position, (info, result) in enumerate(zip(self.body.output, results, strict=False)):
            inner = names.get(info.name, info.name)
            if not result or inner == result:
                continue
            if position in stacked:
                made.is_stacked = True
                axes = self._fresh(outer, f"axes{position}")
                made.tensors.append(initializer(axes, np.array([stacked[position]], np.int64)))
                made.nodes.append(helper.make_node("Unsqueeze", [inner, axes], [result]))
            else:
                made.nodes.append(helper.make_node("Identity", [inner], [result]))

    def _fresh(self, outer: GraphProto, name: str) -> str:
        """A name that the main graph does not use; it is the same for the same body."""
        base = next(filter(None, self.node.output), self.node.name)
        taken = defined_names(outer)
        fresh = f"{base}/{name}"
        while fresh in taken:
            fresh += "_"
        return fresh


_Unfold: TypeAlias = Callable[[GraphProto], _Made | None]

MOVES = (Move("unfold control flow", 260, unfold, reshapes=True, on=OnnxSubject),)
