"""The names that a model gives its nodes and values: they may stand in a message and mean nothing there."""

from __future__ import annotations

import re

import onnx

from corpus.onnx_graph import defined_names, walk_graphs, walk_model

_PLAIN_WORD = re.compile(r"[A-Za-z]+")


def names_of(model: onnx.ModelProto) -> frozenset[str]:
    """Every name of a node or value except plain words: `input` must not be cut out of a message."""
    names = {node.name for node in walk_model(model)}
    for node in walk_model(model):
        names.update(node.output)
    for graph in walk_graphs(model.graph):
        names |= defined_names(graph)
        names.add(graph.name)
    return frozenset(name for name in names if name and not _PLAIN_WORD.fullmatch(name))
