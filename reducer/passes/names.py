"""Short names in reading order, no producer, one opset import: nothing that is only the author's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import onnx

from corpus.onnx_graph import rename, subgraphs, walk_graphs, walk_nodes
from reducer.move import Hints, Move, Search
from reducer.subject import Subject


def canonical_names(subject: Subject, hints: Hints) -> Search:
    """All at once: a name that matters is rare, and then the author's names stay."""
    renamed = _renamed(subject)
    same = renamed.model.SerializeToString(deterministic=True) == subject.model.SerializeToString(
        deterministic=True
    )
    if not same and (yield lambda: renamed):
        return renamed
    return subject


def _renamed(subject: Subject) -> Subject:
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    names = dict(_new_names(model.graph))
    graph = model.graph
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        info.name = names[info.name]
    for sparse in graph.sparse_initializer:
        sparse.values.name = names[sparse.values.name]
    for node in graph.node:
        rename(node, lambda name: names[name])
    for node in walk_nodes(graph):
        node.name = ""
    for number, inner in enumerate(walk_graphs(graph)):
        inner.name = f"graph{number}" if number else "graph"
    model.producer_name = model.producer_version = model.domain = ""
    model.model_version = 0
    inputs = {names[name]: value for name, value in subject.inputs.items()}
    facts = replace(
        subject.facts,
        types={names[name]: value for name, value in subject.facts.types.items() if name in names},
        values={names[name]: value for name, value in subject.facts.values.items() if name in names},
    )
    return replace(subject, model=model, inputs=inputs, facts=facts)


def _new_names(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Inputs x0…, weights w0…, results y0… if they are outputs and t0… if not, in the order they appear."""
    seen: set[str] = set()
    outputs = {info.name for info in graph.output}
    counts: dict[str, int] = {}

    def new(name: str, letter: str) -> Iterator[tuple[str, str]]:
        if name and name not in seen:
            seen.add(name)
            letter = "y" if name in outputs and letter == "t" else letter
            counts[letter] = counts.get(letter, -1) + 1
            yield name, f"{letter}{counts[letter]}"

    for info in graph.input:
        yield from new(info.name, "x")
    for tensor in graph.initializer:
        yield from new(tensor.name, "w")
    for sparse in graph.sparse_initializer:
        yield from new(sparse.values.name, "w")
    for node in graph.node:
        for outer in subgraphs(node):
            for body in walk_graphs(outer):
                for item in (*body.input, *body.initializer):
                    yield from new(item.name, "b")
    for node in walk_nodes(graph):
        for name in (*node.input, *node.output):
            yield from new(name, "t")
    for inner in walk_graphs(graph):
        for info in (*inner.output, *inner.value_info):
            yield from new(info.name, "t")


MOVES = (Move("canonical names", 900, canonical_names, renames=True),)
