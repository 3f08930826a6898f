"""Fewer results of control flow: what no node reads need not come out of If, Loop or Scan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import onnx
from onnx import GraphProto, NodeProto

from corpus.onnx.graph import free_names, rename_graph, subgraphs
from reducer.move import Hints, Move, Search, smaller_by
from reducer.subject.onnx.nodesets import assemble
from reducer.subject.onnx.subject import OnnxSubject


def drop_results(subject: OnnxSubject, hints: Hints) -> Search:
    """Result by result, last first; with it goes what only it needed inside."""
    places = reversed(list(_unread(subject)))
    return (
        yield from smaller_by(subject, [partial(_without, index, position) for index, position in places])
    )


def _unread(subject: OnnxSubject) -> Iterator[tuple[int, int]]:
    """Nodes of the main graph with the positions of their results that nobody takes, if another is taken."""
    read = {name for reads in subject.reads for name in reads} | set(subject.graph_outputs)
    for index, node in enumerate(subject.nodes):
        if node.op_type in ("If", "Loop", "Scan") and not node.domain:
            loose = [at for at, name in enumerate(node.output) if name not in read]
            if len(loose) < len(node.output):
                yield from ((index, at) for at in loose)


def _without(index: int, position: int, subject: OnnxSubject) -> OnnxSubject | None:
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
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


MOVES = (Move("drop results of control flow", 288, drop_results, reshapes=True, on=OnnxSubject),)
