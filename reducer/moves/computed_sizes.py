"""A node on the way to a computed size goes, and what the size is computed from is sized anew.

In `Shape → Gather → Sub → ConstantOfShape → Concat → Reshape` no node can be bypassed alone: each gives
another size, and what follows does not fit any more. So the input of the Shape gets the dim that the Sub used
to give.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter

import numpy as np
from onnx import NodeProto

from corpus.values import Tensor
from reducer.move import Hints, Move, Search, smaller_by
from reducer.subject.onnx.nodesets import assemble, rename_reads
from reducer.subject.onnx.retype import change_model, change_tensors
from reducer.subject.onnx.subject import OnnxSubject

MOST_NODES = 40
"""A larger graph is not looked at: there other moves are cheaper."""

MOST_SIZES = 64
"""Elements of a tensor of sizes."""

FEW_NUMBERS = 8
"""Whole numbers in floating point, from which Ceil, Div and Mul compute a size, are fewer than this."""

MOST_ELEMENTS = 1 << 16
"""Elements that a resized input may get."""

Changes = dict[str, Tensor]


def bypass_computed_sizes(subject: OnnxSubject, hints: Hints) -> Search:
    """Each tensor of sizes gives way to one that it is computed from; first where fewest nodes go."""
    if len(subject.nodes) > MOST_NODES:
        return subject
    pairs = [pair for node in reversed(subject.nodes) for pair in _pairs(subject, node)]
    ways = [partial(way, output, source) for output, source in pairs for way in (_bypassed, _resized_below)]
    if hints.stopped_at:  # there values are not looked at, and other dims may do as well
        others = (pair for node in subject.nodes for pair in _of_an_element(subject, node))
        ways += [partial(_of_other_dims, *pair) for pair in others]
    left = [(-len(found.nodes), way) for way in ways if (found := way(subject)) is not None]
    return (yield from smaller_by(subject, [way for _, way in sorted(left, key=itemgetter(0))]))


def _pairs(subject: OnnxSubject, node: NodeProto) -> Iterator[tuple[str, str]]:
    """Yield the node's result and an ancestor of its type, if both are sizes of other values."""
    if len(node.output) != 1 or _sizes(subject, node.output[0]) is None:
        return
    output = node.output[0]
    for name in reversed(_ancestors(subject, output)):
        if subject.kind(name) == subject.kind(output) and _sizes(subject, name) is not None:
            yield output, name


def _of_an_element(subject: OnnxSubject, node: NodeProto) -> Iterator[tuple[str, str]]:
    """Yield the node's result and its first operand, if they differ in dims alone."""
    if len(node.output) == 1 and node.input:
        made, read = (subject.type_of(name) for name in (node.output[0], node.input[0]))
        if made and read and made != read and made.tensor_type.elem_type == read.tensor_type.elem_type:
            yield node.output[0], node.input[0]


def _ancestors(subject: OnnxSubject, name: str) -> list[str]:
    """The tensors that one is computed from, the nearest first."""
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        index = subject.producer.get(waiting.pop(0))
        new = [each for each in subject.reads[index] if each not in found] if index is not None else []
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


def _sizes(subject: OnnxSubject, name: str) -> Tensor | None:
    """The recorded value of a small tensor of integers, or of a few whole numbers in floating point."""
    value = subject.facts.values.get(name)
    value = subject.array(name) if value is None else value
    if not isinstance(value, np.ndarray):
        return None
    if value.dtype.kind == "f":
        wide = value.astype(np.float64)
        is_whole = (wide == np.round(wide)) & (np.abs(wide) <= MOST_ELEMENTS)
        return value if value.size < FEW_NUMBERS and bool(is_whole.all()) else None
    return value if value.dtype.kind in "iu" and value.size <= MOST_SIZES else None


def _bypassed(output: str, source: str, subject: OnnxSubject) -> OnnxSubject | None:
    """The subject in which `source` stands for `output` and has its value; None where that cannot be."""
    index, wanted, have = subject.producer.get(output), _sizes(subject, output), _sizes(subject, source)
    if index is None or wanted is None or have is None or source not in _ancestors(subject, output):
        return None
    if subject.kind(output) != subject.kind(source):
        return None
    changes: Changes = {}
    if not np.array_equal(wanted, have) and not _solve(subject, source, wanted, changes):
        return None
    sized = change_tensors(subject, changes) if changes else subject
    if sized is None:
        return None
    nodes = [rename_reads(node, {output: source}) for i, node in enumerate(subject.nodes) if i != index]
    return assemble(sized, _alive(nodes, frozenset(subject.graph_outputs), subject))


def _resized_below(output: str, source: str, subject: OnnxSubject) -> OnnxSubject | None:
    """The subject in which `source` stands for `output` as it is: what follows has other sizes."""
    wanted, have = _sizes(subject, output), _sizes(subject, source)
    if wanted is None or have is None or np.array_equal(wanted, have):
        return None
    if subject.kind(output) != subject.kind(source) or source not in _ancestors(subject, output):
        return None
    return _of_other_dims(output, source, subject)


def _of_other_dims(output: str, source: str, subject: OnnxSubject) -> OnnxSubject | None:
    """The subject in which `source` stands for `output`, whatever dims what follows gets."""
    nodes = [rename_reads(node, {output: source}) for node in subject.nodes if output not in node.output]
    found = assemble(subject, _alive(nodes, frozenset(subject.graph_outputs), subject))
    return change_model(found, lambda model: None) if found is not None else None


def _alive(nodes: list[NodeProto], outputs: frozenset[str], subject: OnnxSubject) -> list[NodeProto]:
    """The nodes without those of which nothing is read any more, though it was."""
    was_read = {name for reads in subject.reads for name in reads}
    while True:
        read = {name for node in nodes for name in node.input} | outputs
        kept = [node for node in nodes if read.intersection(node.output) or not was_read & {*node.output}]
        if len(kept) == len(nodes):
            return kept
        nodes = kept


def _solve(subject: OnnxSubject, name: str, wanted: Tensor, changes: Changes) -> bool:
    """Choose the values of sources for which a tensor has the wanted value; False where none is found."""
    index = subject.producer.get(name)
    if index is None:
        known = subject.array(name)
        if known is None or known.shape != wanted.shape or name in subject.inputs.keys() & changes.keys():
            return False
        changes[name] = wanted.astype(known.dtype)
        return True
    node = subject.nodes[index]
    solve = _WAYS_BACK.get(node.op_type)
    return solve is not None and solve(subject, node, wanted, changes)


def _back_through_moves(subject: OnnxSubject, node: NodeProto, wanted: Tensor, changes: Changes) -> bool:
    source = _sizes(subject, node.input[0])
    if source is None or source.size != wanted.size:
        return False
    return _solve(subject, node.input[0], wanted.reshape(source.shape).astype(source.dtype), changes)


def _back_through_arithmetic(subject: OnnxSubject, node: NodeProto, wanted: Tensor, changes: Changes) -> bool:
    """One operand changes, the other keeps its value; the first for which that can be."""
    values = [_sizes(subject, name) for name in node.input]
    for place, name in enumerate(node.input):
        mine, other = values[place], values[1 - place]
        if mine is None or other is None or mine.shape != wanted.shape:
            continue
        needed = _operand(node.op_type, place, wanted.astype(np.float64), other.astype(np.float64))
        tried, is_whole = dict(changes), np.array_equal(needed, np.round(needed))
        if is_whole and _solve(subject, name, needed.astype(mine.dtype), tried):
            changes.update(tried)
            return True
    return False


def _operand(op: str, place: int, wanted: Tensor, other: Tensor) -> Tensor:
    """Solve for the operand that gives the wanted result beside the other operand; NaN if none does."""
    with np.errstate(all="ignore"):
        if op in ("Add", "Sub"):
            return wanted - other if op == "Add" else wanted + other if place == 0 else other - wanted
        if op == "Mul" or place == 1:
            return wanted / other if op == "Mul" else other / wanted
        return wanted * other


def _with(data: Tensor, places: Tensor, wanted: Tensor) -> Tensor:
    new = data.copy()
    new[places] = wanted
    return new


def _back_through_gather(subject: OnnxSubject, node: NodeProto, wanted: Tensor, changes: Changes) -> bool:
    data, places = _sizes(subject, node.input[0]), _sizes(subject, node.input[1])
    if data is None or places is None or data.ndim != 1:
        return False
    new = _with(data, places, wanted)
    return bool(np.array_equal(new[places], wanted)) and _solve(subject, node.input[0], new, changes)


def _back_through_slice(subject: OnnxSubject, node: NodeProto, wanted: Tensor, changes: Changes) -> bool:
    data = _sizes(subject, node.input[0])
    bounds = [_sizes(subject, name) for name in node.input[1:] if name]
    if data is None or data.ndim != 1 or len(bounds) < 2 or any(each is None for each in bounds):
        return False
    start, end = (int(each.ravel()[0]) for each in bounds[:2] if each is not None)
    step = int(bounds[3].ravel()[0]) if len(bounds) > 3 and bounds[3] is not None else 1
    places = np.arange(data.size)[start:end:step]
    if places.shape != wanted.shape:
        return False
    return _solve(subject, node.input[0], _with(data, places, wanted), changes)


def _back_through_concat(subject: OnnxSubject, node: NodeProto, wanted: Tensor, changes: Changes) -> bool:
    at = 0
    for name in node.input:
        part = _sizes(subject, name)
        if part is None or part.ndim != 1:
            return False
        piece, at = wanted[at : at + part.size], at + part.size
        if not np.array_equal(piece, part) and not _solve(subject, name, piece, changes):
            return False
    return at == wanted.size


def _back_through_shape(subject: OnnxSubject, node: NodeProto, wanted: Tensor, changes: Changes) -> bool:
    name, known = node.input[0], subject.array(node.input[0])
    is_whole = not node.attribute and wanted.ndim == 1 and bool((wanted >= 0).all())
    if known is None or name not in subject.sources or not is_whole or known.ndim != wanted.size:
        return False
    dims = tuple(int(size) for size in wanted)
    if name in changes or math.prod(dims) > MOST_ELEMENTS or known.size == 0:
        return False
    changes[name] = np.resize(known, dims)
    return True


Back = Callable[[OnnxSubject, NodeProto, Tensor, Changes], bool]
_WAYS_BACK: dict[str, Back] = {
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), _back_through_arithmetic),
    **dict.fromkeys(("Cast", "Ceil", "Floor", "Identity", "Round"), _back_through_moves),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _back_through_moves),
    **{"Concat": _back_through_concat, "Gather": _back_through_gather},
    **{"Shape": _back_through_shape, "Slice": _back_through_slice},
}

_NAME = "size anew what sizes are computed from"
MOVES = (Move(_NAME, 602, bypass_computed_sizes, reshapes=True, late=True, on=OnnxSubject),)
