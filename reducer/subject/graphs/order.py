"""The place of a graph of another format than ONNX in the total order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from corpus.graphs.names import plain_names
from corpus.graphs.program import GRAPH, Graph, Json, tag_of
from reducer.subject.base import Size
from reducer.subject.graphs.dtypes import dtype_words
from reducer.subject.graphs.view import GraphView
from reducer.subject.reading import PLAIN, complexity, strange_types
from reducer.subject.tir_counts import function_counts


@dataclass(frozen=True, slots=True)
class Counts:
    """`of_nodes`: nodes, scopes, operators by how plain they are (all alike), elements, edges.

    A symbolic dim counts as an edge. Then PrimFuncs that are told as loops, and what nodes carry.
    """

    of_nodes: tuple[int, int, int, int, int]
    loops: tuple[int, ...]
    literals: int
    names: int
    bytes: int


def measured(subject: GraphView) -> Size:
    """Return the sizes of a graph program, in the order of `size`."""
    found = counts(subject)
    arrays = subject.arrays
    axes = sum(array.ndim for array in arrays)
    words = [word for binding in subject.program.main.walk() for word in dtype_words(binding)]
    strange = strange_types(arrays) + sum(word not in PLAIN for word in words)
    values = sum(map(complexity, arrays))
    passes = len(subject.passes)
    return (
        *found.of_nodes,
        *found.loops,
        axes,
        strange,
        found.literals,
        values,
        passes,
        found.names,
        found.bytes,
    )


def counts(subject: GraphView) -> Counts:
    """Count the parts of a graph program."""
    program = subject.program
    graphs = [program.main, *program.functions.values()]
    bindings = [binding for graph in graphs for binding in graph.walk()]
    bodies = sum(len(binding.bodies) for binding in bindings)
    arrays = [array for name in subject.sources if (array := subject.array(name)) is not None]
    main, plain = program.main, plain_names(program)
    edges = len(main.inputs) + len(main.outputs) + len(program.constants) + len(symbolic(main))
    scopes = bodies + len(program.functions) + len(program.opaque) + len(program.loops)
    arguments = [item for binding in bindings for item in (*binding.args, *binding.kwargs.values())]
    return Counts(
        (len(bindings), scopes, 0, sum(math.prod(array.shape) for array in arrays), edges),
        function_counts([each.function for each in program.loops.values()]),
        sum(1 for _ in literals(arguments)),
        sum(name != plain.get(name, name) for name in program.names),
        len(subject.document),
    )


def symbolic(graph: Graph) -> list[str]:
    """Return the dims of inputs that are names."""
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
