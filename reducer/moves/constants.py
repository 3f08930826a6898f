"""A tensor that flows in as the other thing: large weights as inputs, what a node makes as a weight.

A cut makes inputs of what depends on one. Where the failure needs a constant there (a shape, a weight that
is folded), the node is replaced by an initializer with its recorded value, and with it goes what only it
needs. The other way round a weight whose values nobody needs to see becomes an input, which is smaller.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import onnx

from corpus.onnx.types import packed_bytes
from reducer.move import Hints, Move, Search, over_sets
from reducer.search import Items, drop_one_at_a_time
from reducer.subject.onnx.nodesets import declaration, keep_nodes
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.onnx.view import MOST_EMBEDDED
from reducer.subject.order import size

GLANCE = 8
"""A weight of no more elements is read at a glance, and stays one."""


def fold_nodes(subject: OnnxSubject, hints: Hints) -> Search:
    """Node by node, last first: what it makes becomes a constant."""
    best, index = subject, len(subject.nodes) - 1
    while index >= 0:
        keep = _without(best, index)
        proposal = partial(keep_nodes, best, keep, constants=True)
        found = proposal() if keep else None
        if found is not None and size(found) < size(best) and (yield proposal):
            best = found
            index = min(index, len(best.nodes))
        index -= 1
    return best


def _without(subject: OnnxSubject, index: int) -> Items:
    """The nodes that are left without one whose result is read, and without those that only it needs."""
    made = frozenset(name for name in subject.nodes[index].output if name)
    if made.isdisjoint(subject.dynamic) or not made.isdisjoint(subject.graph_outputs):
        return frozenset()
    if not any(_may_be_constant(subject, name) for name in made):
        return frozenset()
    gone = {index}
    for above in range(index - 1, -1, -1):
        names = {name for name in subject.nodes[above].output if name}
        readers = {at for at, reads in enumerate(subject.reads) if not names.isdisjoint(reads)}
        if readers and readers <= gone and names.isdisjoint(subject.graph_outputs):
            gone.add(above)
    return frozenset(range(len(subject.nodes))) - gone


def _may_be_constant(subject: OnnxSubject, name: str) -> bool:
    """Return whether a node reads it where constants stand: after its first operand, or as integers."""
    after = any(name in node.input[1:] for node in subject.nodes)
    value = subject.facts.values.get(name)
    is_integers = isinstance(value, np.ndarray) and value.dtype.kind in "iu"
    return after or (is_integers and any(name in node.input for node in subject.nodes))


def weights_to_inputs(subject: OnnxSubject, hints: Hints) -> Search:
    """All large weights at once; else as many as will go."""
    names = [name for name in subject.initializers if _is_large(subject, name)]
    if not names:
        return subject
    everything = partial(_as_inputs, subject, names, frozenset())
    if size(everything()) < size(subject) and (yield everything):
        return everything()
    if len(names) == 1:
        return subject
    search = drop_one_at_a_time(range(len(names)))
    return (yield from over_sets(subject, search, partial(_as_inputs, subject, names)))


def _is_large(subject: OnnxSubject, name: str) -> bool:
    tensor = subject.initializers[name]
    array = subject.array(name)
    if array is None or name in subject.graph_inputs or subject.model.ir_version < 4:
        return False
    held = packed_bytes(tensor.data_type, tensor.dims) or 0
    return array.size > GLANCE and held <= MOST_EMBEDDED and not subject.is_shape(name)


def _as_inputs(subject: OnnxSubject, names: list[str], keep: Items) -> OnnxSubject:
    """Return the subject with these weights as inputs, but for those to keep."""
    changed = dict.fromkeys(name for at, name in enumerate(names) if at not in keep)
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    tensors = [tensor for tensor in model.graph.initializer if tensor.name not in changed]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    model.graph.input.extend(declaration(subject.initializers[name]) for name in changed)
    values = {name: array for name in changed if (array := subject.array(name)) is not None}
    return replace(subject, model=model, inputs={**subject.inputs, **values})


MOVES = (
    Move("large weights become inputs", 545, weights_to_inputs, reshapes=True, on=OnnxSubject),
    Move("nodes become constants", 615, fold_nodes, reshapes=True, chance=0.1, late=True, on=OnnxSubject),
)
