"""A graph of another format than ONNX that is being reduced, with the edits that moves are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import onnx

from corpus.case import Case
from corpus.graphs.format import plain_names
from corpus.graphs.program import (
    CALL,
    GRAPH,
    REF,
    Binding,
    Graph,
    GraphProgram,
    Json,
    dtype_of,
    graph_of_json,
    graph_to_json,
    tag_of,
)
from corpus.values import Tensor
from reducer.search import Items
from reducer.subject.base import Resize, Size
from reducer.subject.graphs.edits import (
    Describe,
    GraphView,
    assemble_bindings,
    change_flow,
    keep_bindings,
    resize,
)
from reducer.subject.order import PLAIN, complexity, function_counts, strange_types

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
    """Whether a text is the name of an element type, and not a short form that numpy knows as well."""
    return text[-1:].isdigit() and text[:1] in "fibuc" and len(text) > 3 and dtype_of(text) is not None


def with_dtype(old: str, new: str, binding: Binding) -> Binding:
    """The binding with one element type in place of another, in its bodies too."""
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


def measured(subject: GraphView) -> Size:
    """The sizes of a graph program, in the order of `size`.

    Nodes, scopes, operators by how plain they are (all alike), elements, edges, of which a symbolic dim is
    one. Then PrimFuncs that are told as loops, and what nodes carry.
    """
    program, main = subject.program, subject.program.main
    arrays = subject.arrays
    bindings = [binding for graph in (main, *program.functions.values()) for binding in graph.walk()]
    bodies = sum(len(binding.bodies) for binding in bindings)
    flowing = [array for name in subject.sources if (array := subject.array(name)) is not None]
    words = [word for binding in main.walk() for word in dtype_words(binding)]
    arguments = [item for binding in bindings for item in (*binding.args, *binding.kwargs.values())]
    plain = plain_names(program)
    return (
        len(bindings),
        bodies + len(program.functions) + len(program.opaque) + len(program.loops),
        0,
        sum(math.prod(array.shape) for array in flowing),
        len(main.inputs) + len(main.outputs) + len(program.constants) + len(symbolic(main)),
        *function_counts([each.function for each in program.loops.values()]),
        sum(array.ndim for array in arrays),
        strange_types(arrays) + sum(word not in PLAIN for word in words),
        sum(1 for _ in literals(arguments)),
        sum(map(complexity, arrays)),
        len(subject.passes),
        sum(name != plain.get(name, name) for name in program.names),
        len(subject.document),
    )


def symbolic(graph: Graph) -> list[str]:
    """The dims of inputs that are names."""
    return [dim for item in graph.inputs for dim in item.shape if isinstance(dim, str)]


def literals(item: Json) -> Iterator[Json]:
    """Yield the literals in arguments, without names."""
    if isinstance(item, list):
        for inner in item:
            yield from literals(inner)
    elif isinstance(item, dict):
        if tag_of(item) not in ("ref", GRAPH):
            for inner in item.values():
                yield from literals(inner)
    elif item is not None:
        yield item


@dataclass(frozen=True)
class GraphSubject(GraphView):
    """The smallest failing program so far, as moves change it."""

    @classmethod
    def of(cls, case: Case, program: GraphProgram, describe: Describe) -> GraphSubject:
        """The subject of a case with its program parsed."""
        return cls(program, inputs=case.inputs, passes=case.passes, describe=describe)

    def measured(self) -> Size:
        """The place in the total order."""
        return measured(self)

    def keep_nodes(self, keep: Items, *, link: bool = False) -> Self | None:
        """The program of the bindings `keep` (by index)."""
        return keep_bindings(self, keep, link)

    def assemble(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> Self | None:
        """A program of the bindings of these nodes, with these outputs."""
        return assemble_bindings(self, [self.bindings[node.name] for node in nodes], outputs)

    def with_tensors(
        self, changed: Mapping[str, Tensor], also: Callable[[onnx.ModelProto], None] | None = None
    ) -> Self | None:
        """The program with these values for some of its inputs and constants; `also` is not for it."""
        return change_flow(self, changed)

    def resized(self, changed: Mapping[str, Tensor], choice: Resize) -> Self | None:
        """The program with tensors cut to windows, the integers that equal an old dim carried along."""
        return resize(self, changed, choice.size_of if choice.only is None else lambda dim: dim)
