"""The element types in a graph of another format than ONNX, wherever they stand: in tensors and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from corpus.graphs.program import (
    CALL,
    GRAPH,
    REF,
    Binding,
    Graph,
    Json,
    dtype_of,
    graph_of_json,
    graph_to_json,
    tag_of,
)

CASTS: Mapping[str, str] = {
    "Tensor.double": "float64",
    "Tensor.float": "float32",
    "Tensor.half": "float16",
    "Tensor.bfloat16": "bfloat16",
    "Tensor.long": "int64",
    "Tensor.int": "int32",
    "Tensor.short": "int16",
    "Tensor.char": "int8",
    "Tensor.byte": "uint8",
    "Tensor.bool": "bool",
}
"""By operator, the element type that its name says."""
CASTS_TO: Mapping[str, str] = {name: op for op, name in CASTS.items()}


def dtype_words(binding: Binding) -> Iterator[str]:
    """Yield the names of element types in what a binding is told, those of its bodies not."""
    if binding.op in CASTS:
        yield CASTS[binding.op]
    yield from _words([*binding.args, *binding.kwargs.values()])


def _words(item: Json) -> Iterator[str]:
    if isinstance(item, str):
        if is_dtype(item):
            yield item
    elif isinstance(item, list):
        for inner in item:
            yield from _words(inner)
    elif isinstance(item, dict) and tag_of(item) not in (REF, CALL, GRAPH):
        for inner in item.values():
            yield from _words(inner)


def is_dtype(text: str) -> bool:
    """Return whether a text is the name of an element type, and not a short form that numpy knows as well."""
    return text[-1:].isdigit() and text[:1] in "fibuc" and len(text) > 3 and dtype_of(text) is not None


def with_dtype(old: str, new: str, binding: Binding) -> Binding:
    """Return the binding with one element type in place of another, in its bodies too."""
    op = CASTS_TO.get(new, binding.op) if CASTS.get(binding.op) == old else binding.op
    change = partial(_worded, lambda word: new if word == old else word, partial(with_dtype, old, new))
    kwargs = {key: change(item) for key, item in binding.kwargs.items()}
    return replace(binding, op=op, args=tuple(map(change, binding.args)), kwargs=kwargs)


def _worded(change: Callable[[str], str], inner: Callable[[Binding], Binding], item: Json) -> Json:
    if isinstance(item, str):
        return change(item)
    if isinstance(item, list):
        return [_worded(change, inner, each) for each in item]
    if not isinstance(item, dict) or tag_of(item) in (REF, CALL):
        return item
    if tag_of(item) == GRAPH:
        return {GRAPH: graph_to_json(_changed(inner, graph_of_json(item[GRAPH])))}
    return {key: _worded(change, inner, each) for key, each in item.items()}


def _changed(inner: Callable[[Binding], Binding], graph: Graph) -> Graph:
    return replace(graph, bindings=tuple(map(inner, graph.bindings)))
