"""Short names in reading order, no producer, one opset import: nothing that is only the author's."""

from __future__ import annotations

from dataclasses import replace

import onnx

from corpus.onnx_graph import rename, walk_graphs, walk_model, walk_nodes
from reducer.move import Hints, Move, Search
from reducer.naming import new_names
from reducer.order import size
from reducer.subject import Subject


def canonical_names(subject: Subject, hints: Hints) -> Search:
    """All at once: a name that matters is rare, and then the author's names stay."""
    shorter = renamed(subject)
    if size(shorter) < size(subject) and (yield lambda: shorter):
        return shorter
    return subject


def renamed(subject: Subject, stay: frozenset[str] = frozenset()) -> Subject:
    """The subject under short names, but for those that are to stay."""
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    names = {old: old if old in stay else new for old, new in new_names(model.graph).items()}
    graph = model.graph
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        info.name = names[info.name]
    for sparse in graph.sparse_initializer:
        sparse.values.name = names[sparse.values.name]
    for node in graph.node:
        rename(node, lambda name: names[name])
    for node in walk_nodes(graph):
        node.ClearField("name")
    for number, inner in enumerate(walk_graphs(graph)):
        inner.name = f"g{number}" if number else "g"
    _bare_header(model)
    inputs = {names[name]: value for name, value in subject.inputs.items()}
    facts = replace(
        subject.facts,
        types={names[name]: value for name, value in subject.facts.types.items() if name in names},
        values={names[name]: value for name, value in subject.facts.values.items() if name in names},
        specified={names[name]: value for name, value in subject.facts.specified.items() if name in names},
    )
    origins = {new: subject.origin(old) for old, new in names.items()}
    return replace(subject, model=model, inputs=inputs, facts=facts, origins=origins)


def _bare_header(model: onnx.ModelProto) -> None:
    """No producer, no opset that is not used, and no word for the default domain."""
    for field in ("producer_name", "producer_version", "domain", "model_version"):
        model.ClearField(field)
    for item in (*model.opset_import, *walk_nodes(model.graph)):
        if not item.domain:
            item.ClearField("domain")
    domains = {"", "ai.onnx", *(node.domain for node in walk_model(model))}
    for index in reversed(range(len(model.opset_import))):
        if model.opset_import[index].domain not in domains:
            del model.opset_import[index]


MOVES = (Move("canonical names", 550, canonical_names, renames=True),)
