"""The names that a reduced model's tensors get: by what they are, in reading order."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from corpus.onnx_graph import subgraphs, walk_graphs, walk_nodes


def new_names(graph: onnx.GraphProto) -> dict[str, str]:
    """Inputs x0…, weights w0…, results y0… if they are outputs and t0… if not, in the order they appear."""
    outputs = {info.name for info in graph.output}
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for name, letter in _appearances(graph):
        if name and name not in names:
            letter = "y" if name in outputs and letter == "t" else letter
            counts[letter] = counts.get(letter, -1) + 1
            names[name] = f"{letter}{counts[letter]}"
    return names


def _appearances(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Every name with the letter for what it is, in reading order."""
    yield from ((info.name, "x") for info in graph.input)
    yield from ((tensor.name, "w") for tensor in graph.initializer)
    yield from ((sparse.values.name, "w") for sparse in graph.sparse_initializer)
    bodies = [body for node in graph.node for outer in subgraphs(node) for body in walk_graphs(outer)]
    yield from ((item.name, "b") for body in bodies for item in (*body.input, *body.initializer))
    yield from ((name, "t") for node in walk_nodes(graph) for name in (*node.input, *node.output))
    for inner in walk_graphs(graph):
        yield from ((info.name, "t") for info in (*inner.output, *inner.value_info))


def count_strange(graph: onnx.GraphProto) -> int:
    """How many tensors do not have the name that they would get."""
    return sum(old != new for old, new in new_names(graph).items())
