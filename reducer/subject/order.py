"""What "smaller" means: one total order over subjects."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from corpus.onnx.graph import body_weights, subgraphs, walk_model, walk_nodes
from corpus.values import Tensor
from reducer.subject.graph import GraphSubject
from reducer.subject.graph_dtypes import dtype_words
from reducer.subject.graph_order import counts
from reducer.subject.loops import LoopSubject
from reducer.subject.loops_order import counts as loop_counts
from reducer.subject.naming import count_strange
from reducer.subject.onnx import Subject
from reducer.subject.opsets import sum_of_versions
from reducer.subject.plain_ops import strangeness

Size: TypeAlias = tuple[int, ...]


def size(subject: Subject) -> Size:
    """The subject's place in the total order, smallest first.

    A person reads nodes, so fewer nodes come first, those of bodies and functions included; of two with as
    many nodes the one with fewer bodies, weights in bodies and functions to look into; then the one with
    plainer operators. Then what the nodes still carry: elements that flow in, tensors in and out, axes,
    element types other than the plain ones, attributes, how plain the values are, the case's own passes,
    names that are not ours, how new the operator sets are, and at last bytes. A tie is not smaller.
    """
    if SIZE not in subject.measures:
        subject.measures[SIZE] = _measured(subject)
    return subject.measures[SIZE]


SIZE = "size"


def _measured(subject: Subject) -> Size:
    if isinstance(subject, LoopSubject):
        return _of_loops(subject)
    arrays = [array for name in subject.sources if (array := subject.array(name)) is not None]
    arrays += [member for value in subject.inputs.values() if isinstance(value, list) for member in value]
    axes = sum(array.ndim for array in arrays)
    strange = sum(str(array.dtype) not in PLAIN for array in arrays)
    complexity = sum(map(_complexity, arrays))
    passes = len(subject.passes)
    if isinstance(subject, GraphSubject):
        found = counts(subject)
        words = [word for binding in subject.program.main.walk() for word in dtype_words(binding)]
        strange += sum(word not in PLAIN for word in words)
        return (*found.of_nodes, axes, strange, found.literals, complexity, passes, found.names, found.bytes)
    model = subject.model
    graph = model.graph
    nodes = sum(1 for _ in walk_model(model))
    scopes = len(model.functions) + sum(len(subgraphs(node)) for node in walk_model(model))
    inner = list(body_weights(graph))
    operators = sum(map(strangeness, walk_nodes(graph)))
    elements = sum(math.prod(tensor.dims) for tensor in (*graph.initializer, *inner))
    elements += sum(_elements(value) for value in subject.inputs.values())
    edges = len(graph.input) + len(graph.output) + len(graph.initializer)
    attributes = sum(len(node.attribute) for node in walk_model(model))
    attributes += sum(len(each.attribute) + len(each.attribute_proto) for each in model.functions)
    names = count_strange(model)
    return (
        nodes,
        scopes + len(inner),
        operators,
        elements,
        edges,
        axes,
        strange,
        attributes,
        complexity,
        passes,
        names,
        sum_of_versions(model),
        int(model.ByteSize()),
    )


def _of_loops(subject: LoopSubject) -> Size:
    """As for graphs: what there is to read first, then what it carries; a statement counts as a node."""
    values = [value for value in subject.inputs.values() if isinstance(value, np.ndarray)]
    complexity = sum(map(_complexity, values))
    return (*loop_counts(subject), complexity, len(subject.passes), len(subject.document))


def _elements(value: object) -> int:
    if isinstance(value, list):
        return sum(_elements(member) for member in value) + len(value)
    return int(getattr(value, "size", 0))


PLAIN = frozenset({"float32", "int32", "bool"})

MANY = 4096
"""Nobody reads the values of a tensor with more elements."""


def _complexity(array: Tensor | None) -> int:
    """How much there is to read in values: 0 costs nothing, 1 a little, other integers more, the small least.

    What is not finite reads as a small integer does. Of a text its first four letters.
    """
    if array is None or not array.size:
        return 0
    if array.size > MANY:
        return 4 * int(array.size)
    if array.dtype.kind in "USO":
        return sum(min(len(text), 4) for text in array.flat) + len(set(array.flat))
    wide = np.asarray(array).astype(np.float64).ravel()
    is_whole = wide == np.round(wide)
    is_small = (np.abs(wide) < 10) & is_whole | ~np.isfinite(wide)
    is_zero = (wide == 0) & ~np.signbit(wide)
    costs = np.where(is_zero, 0, np.where(wide == 1, 1, np.where(is_small, 2, np.where(is_whole, 3, 4))))
    return int(costs.sum()) + _count_distinct(wide)


def _count_distinct(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
    """As `len(np.unique(values))`, which loads `numpy.ma`: longer than all counts of a reduction."""
    rest = np.sort(values[~np.isnan(values)])
    return int((rest[1:] != rest[:-1]).sum()) + bool(rest.size) + (rest.size < values.size)
