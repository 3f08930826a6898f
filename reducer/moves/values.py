"""Simpler values in inputs and weights: zeros, ones, small integers, one value throughout.

A cut makes inputs of what depends on one. Where the failure needs a constant there (a shape, a weight that
is folded), the node is replaced by an initializer with its recorded value, and with it goes what only it
needs. The other way round a weight whose values nobody needs to see becomes an input, which is smaller.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from corpus.onnx.graph import walk_graphs, walk_nodes
from corpus.onnx.types import element_type, packed_bytes
from corpus.values import Tensor, Value
from oracles.numerics.mismatch_kind import is_scale
from oracles.operators import arithmetic_of
from reducer.move import Hints, Move, Search, all_at_once, first_smaller, first_valid, over_sets, smaller_by
from reducer.search import Items, drop_one_at_a_time
from reducer.subject.base import NodeSubject, farthest, initializer, real_parts, type_of
from reducer.subject.onnx.nodesets import MOST_EMBEDDED, declaration, keep_nodes
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size

Change: TypeAlias = Callable[[Tensor], Tensor]


def simplify_values(subject: NodeSubject, hints: Hints) -> Search:
    """Every tensor at once, then each alone, by the simplest change that still fails."""
    whole = (partial(_changed, subject, tuple(subject.data), change) for change in ALIKE)
    best = yield from first_smaller(subject, whole)
    if best is not subject:
        return best
    for name in subject.data:
        singles = [partial(_changed, best, (name,), change) for change in CHANGES]
        best = yield from first_smaller(best, singles)
    return best


def zero_values(subject: NodeSubject, hints: Hints) -> Search:
    """All zeros before dims are looked at; not where a value is what is wrong."""
    proposal = partial(_changed, subject, tuple(subject.data), _zeros)
    return (yield from first_smaller(subject, [] if hints.witness else [proposal]))


def _changed(subject: NodeSubject, names: tuple[str, ...], change: Change) -> NodeSubject | None:
    changed = {}
    scales = {
        node.input[1] for node in subject.nodes if arithmetic_of(node).has_scale and len(node.input) > 1
    }
    for name in names:
        array = subject.array(name)
        if array is None or not array.size:
            continue
        if array.dtype.kind not in "USO":
            changed[name] = change(np.asarray(array))
            if name in scales and is_scale(array) and not is_scale(changed[name]):
                changed[name] = _ones(array)  # what nothing is quantised by, no bug needs
        elif change in TEXTS:
            changed[name] = np.full(array.shape, TEXTS[change], dtype=object)
    return subject.with_tensors(changed) if changed else None


def _zeros(array: Tensor) -> Tensor:
    return np.zeros_like(array)


def _ones(array: Tensor) -> Tensor:
    return np.ones(array.shape, array.dtype)


def _splat(array: Tensor) -> Tensor:
    """The first value throughout."""
    return np.full(array.shape, array.flat[0], array.dtype)


def _small_integers(array: Tensor) -> Tensor:
    """Rounded away from zero and kept small; what is not finite stays."""
    return _rounded(array, 9)


def _rounded(array: Tensor, most: float) -> Tensor:
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind == "c":
        made: Tensor = _rounded(real_parts(array), most).view(array.dtype).reshape(array.shape)
        return made
    wide = array.astype(np.float64)
    rounded = np.clip(np.copysign(np.ceil(np.abs(wide)), wide), -most, most)
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(wide), rounded, wide).astype(array.dtype)


def _integers(array: Tensor) -> Tensor:
    """Rounded away from zero; what is not finite or has no digits behind the point stays."""
    return _rounded(array, np.inf)


def _extreme(array: Tensor) -> Tensor:
    """An array filled with the value farthest from zero, or with NaN if the array holds one."""
    return np.full(array.shape, array.flat[farthest(array)], array.dtype)


TEXTS: Mapping[Change, str] = {_zeros: "", _ones: "a"}
"""Of texts, what zero and one are of numbers."""

ALIKE = (_zeros, _ones, _small_integers, _splat)
"""What is tried on all tensors at once."""

CHANGES = (*ALIKE, _extreme, _integers)


_OTHER_FLOATS = (TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_EIGHT_BITS = (
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
)
_OTHER_INTEGERS = (
    *(TensorProto.INT4, TensorProto.INT8, TensorProto.INT16, TensorProto.INT64),
    *(TensorProto.UINT4, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)
LATTICE: Mapping[int, tuple[int, ...]] = {
    **dict.fromkeys((*_OTHER_FLOATS, TensorProto.COMPLEX64), (TensorProto.FLOAT,)),
    **dict.fromkeys(_OTHER_INTEGERS, (TensorProto.INT32,)),
    **dict.fromkeys(_EIGHT_BITS, (TensorProto.FLOAT, TensorProto.INT32)),
    TensorProto.COMPLEX128: (TensorProto.FLOAT, TensorProto.COMPLEX64),
}
"""By element type, what is plainer: float32 and int32 are what every operator and every reader knows."""

TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype"})


def plainer_dtypes(subject: OnnxSubject, hints: Hints) -> Search:
    """One element type after the other, throughout the model; inference says which choices type."""
    best = subject
    for old in sorted({element_type(array.dtype) for array in subject.data.values()}):
        plainer = [partial(_retyped, best, old, new) for new in LATTICE.get(old, ())]
        best = yield from first_valid(best, plainer)
    return best


def _retyped(subject: OnnxSubject, old: int, new: int) -> OnnxSubject | None:
    """Every tensor of type `old` that flows in, and every type attribute that says so, as `new`."""
    target = onnx.helper.tensor_dtype_to_np_dtype(new)
    changed = {
        name: cast(array, target) for name, array in subject.data.items() if element_type(array.dtype) == old
    }
    if not changed:
        return None
    inputs: dict[str, Value] = {name: changed.get(name, value) for name, value in subject.inputs.items()}
    return change_model(subject, partial(_edit, old=old, new=new, changed=changed), inputs)


def cast(array: Tensor, target: np.dtype[np.generic]) -> Tensor:
    """The values as another type; whole numbers that do not fit become the nearest that do."""
    if target.kind in "iu":
        limits = np.iinfo(target.name)
        wide = np.minimum(array, np.iinfo(np.int64).max) if array.dtype.name == "uint64" else array
        return np.clip(np.asarray(wide).astype(np.int64), limits.min, limits.max).astype(target)
    real = array.real if array.dtype.kind == "c" and target.kind != "c" else array
    with np.errstate(over="ignore"):
        return np.asarray(np.asarray(real).astype(target))


def _edit(model: onnx.ModelProto, old: int, new: int, changed: Mapping[str, Tensor]) -> None:
    for tensor in model.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(initializer(tensor.name, changed[tensor.name]))
    for graph in walk_graphs(model.graph):
        for info in (*graph.input, *graph.output):
            if info.type.tensor_type.elem_type == old and (info.name in changed or info not in graph.input):
                info.type.tensor_type.elem_type = new
    for node in walk_nodes(model.graph):
        for attribute in node.attribute:
            is_type = attribute.name in TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT
            if is_type and attribute.i == old:
                attribute.i = new


Members: TypeAlias = list[Tensor]


def shrink_sequences(subject: OnnxSubject, hints: Hints) -> Search:
    """Shrink all members of each sequence at once; else drop members, then shrink axes, then values."""
    best = subject
    for name in [name for name, value in subject.inputs.items() if isinstance(value, list)]:
        changes = [partial(_changed_sequences, name, change) for change in _changes(best, name)]
        best = yield from smaller_by(best, changes)
    return best


def _changes(subject: OnnxSubject, name: str) -> Iterator[Callable[[Members], Members]]:
    yield _least
    for count in (1, 2, 3):
        yield partial(_first, count=count)
    rank = max((member.ndim for member in _members(subject, name)), default=0)
    for axis in range(rank):
        yield partial(_cut, axis=axis)
    yield _zero_members


def _members(subject: OnnxSubject, name: str) -> Members:
    value = subject.inputs[name]
    return value if isinstance(value, list) else []


def _first(members: Members, count: int) -> Members:
    return members[:count]


def _cut(members: Members, axis: int) -> Members:
    """One position of an axis, where there is one."""
    return [
        member.take([0], axis) if axis < member.ndim and member.shape[axis] else member for member in members
    ]


def _zero_members(members: Members) -> Members:
    return [np.full_like(member, "" if member.dtype.kind in "USO" else 0) for member in members]


def _least(members: Members) -> Members:
    """One member with one zero."""
    one = _zero_members(members[:1])
    for axis in range(one[0].ndim if one else 0):
        one = _cut(one, axis)
    return one


def _changed_sequences(
    name: str, change: Callable[[Members], Members], subject: OnnxSubject
) -> OnnxSubject | None:
    members = change(_members(subject, name))
    declared = type_of(members)

    def edit(model: onnx.ModelProto) -> None:
        for info in model.graph.input:
            if info.name == name and info.type.WhichOneof("value") == "sequence_type" and declared:
                info.type.CopyFrom(declared)

    return change_model(subject, edit, {**subject.inputs, name: members})


GLANCE = 8
"""A weight of no more elements is read at a glance, and stays one."""


def fold_nodes(subject: OnnxSubject, hints: Hints) -> Search:
    """Node by node, last first: what it makes becomes a constant."""
    best, index = subject, len(subject.nodes) - 1
    while index >= 0:
        keep = _without(best, index)
        proposals = [partial(keep_nodes, best, keep, constants=True)] if keep else []
        best = yield from first_smaller(best, proposals)
        index = min(index, len(best.nodes)) - 1
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
    """Whether a node reads it where constants stand: after its first operand, or as integers."""
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
    """The subject with these weights as inputs, but for those to keep."""
    changed = dict.fromkeys(name for at, name in enumerate(names) if at not in keep)
    model = deepcopy(subject.model)
    tensors = [tensor for tensor in model.graph.initializer if tensor.name not in changed]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    model.graph.input.extend(declaration(subject.initializers[name]) for name in changed)
    values = {name: array for name in changed if (array := subject.array(name)) is not None}
    return replace(subject, model=model, inputs={**subject.inputs, **values})


MOVES = (
    Move("zero values", 390, zero_values, reshapes=True, on=NodeSubject),
    Move("simplify values", 500, all_at_once(simplify_values), reshapes=True, on=NodeSubject),
    Move("plainer element types", 554, plainer_dtypes, reshapes=True, on=OnnxSubject),
    Move("shrink sequences", 395, shrink_sequences, reshapes=True, on=OnnxSubject),
    Move("large weights become inputs", 545, weights_to_inputs, reshapes=True, on=OnnxSubject),
    Move("nodes become constants", 615, fold_nodes, reshapes=True, chance=0.1, late=True, on=OnnxSubject),
)
