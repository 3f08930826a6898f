"""Weights out of bodies into the main graph, where every other move sees them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import onnx

from corpus.onnx.graph import body_weights, defined_names, walk_graphs
from reducer.move import Hints, Move, Search
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size


def lift_body_weights(subject: OnnxSubject, hints: Hints) -> Search:
    """All at once, but for those that are a body's result and so must be its own."""
    lifted = _lifted(subject)
    if size(lifted) < size(subject) and (yield lambda: lifted):
        return lifted
    return subject


def _lifted(subject: OnnxSubject) -> OnnxSubject:
    if subject.model.ir_version < 4 or not any(True for _ in body_weights(subject.model.graph)):
        return subject
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
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
    """Return the names that mean one tensor in the whole model."""
    seen: set[str] = set()
    twice: set[str] = set()
    for inner in walk_graphs(graph):
        names = defined_names(inner)
        twice |= seen & names
        seen |= names
    return frozenset(seen - twice)


MOVES = (Move("lift weights out of bodies", 285, lift_body_weights, reshapes=True, on=OnnxSubject),)
