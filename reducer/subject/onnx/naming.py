"""The names that a reduced model's tensors, dims and graphs get: by what they are, in reading order."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from corpus.onnx.graph import subgraphs, walk_all_graphs, walk_graphs, walk_nodes
from reducer.subject.onnx.function_names import count_strange_functions, numbered
from reducer.subject.onnx.remarks import messages


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
    """Yield every name with the letter for what it is, in reading order."""
    yield from ((info.name, "x") for info in graph.input)
    yield from ((tensor.name, "w") for tensor in graph.initializer)
    yield from ((sparse.values.name, "w") for sparse in graph.sparse_initializer)
    bodies = [body for node in graph.node for outer in subgraphs(node) for body in walk_graphs(outer)]
    yield from ((item.name, "b") for body in bodies for item in (*body.input, *body.initializer))
    yield from ((name, "t") for node in walk_nodes(graph) for name in (*node.input, *node.output))
    for inner in walk_graphs(graph):
        yield from ((info.name, "t") for info in (*inner.output, *inner.value_info))


def count_strange(model: onnx.ModelProto) -> int:
    """Count the tensors, dims and parts of functions that do not have plain names."""
    pairs = [*new_names(model.graph).items(), *_dim_names(model).items()]
    return sum(old != new for old, new in pairs) + count_strange_functions(model)


def number_graphs(model: onnx.ModelProto) -> None:
    """Name the main graph g and the bodies g1, g2, … in place."""
    for number, graph in enumerate(walk_all_graphs(model)):
        graph.name = f"g{number}" if number else "g"


def number_dims(model: onnx.ModelProto) -> None:
    """Symbolic dims become d0, d1, … in place."""
    names = _dim_names(model)
    for dim in _symbols(model):
        dim.dim_param = names[dim.dim_param]


def _dim_names(model: onnx.ModelProto) -> dict[str, str]:
    return numbered((dim.dim_param for dim in _symbols(model)), "d")


def _symbols(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """Yield every symbolic dim that a model declares."""
    declared = (info for graph in walk_all_graphs(model) for info in _infos(graph))
    for holder in (*declared, *(info for each in model.functions for info in each.value_info)):
        for message in messages(holder):
            if isinstance(message, onnx.TensorShapeProto.Dimension) and message.dim_param:
                yield message


def _infos(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from (*graph.input, *graph.output, *graph.value_info)
