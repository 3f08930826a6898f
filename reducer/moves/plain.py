"""The last pass: a case that tells its cause, rather than one that is only small.

Operands that were distinct in the original are distinct again, operands of equal values get values of their
own, and dims that all became 1 become small primes, as long as the failure stays. What must be shared, equal
or 1 for the failure to show is then part of its cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import combinations

import numpy as np
import onnx

from corpus.values import Tensor
from reducer.move import Hints, Move, Search, SearchOf
from reducer.subject.base import NodeSubject, initializer
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject

Place = tuple[int, int]
"""A node of the main graph, and one of its operands."""


def separate_operands(subject: OnnxSubject, hints: Hints) -> Search:
    """All operands at once that one tensor came to stand for; else one after the other."""
    places = list(_merged(subject, hints.operands))
    if not places:
        return subject
    together = cache(partial(_separated, subject, tuple(places)))
    if (yield together):
        return together() or subject
    best = subject
    for place in places if len(places) > 1 else ():
        alone = cache(partial(_separated, best, (place,)))
        if (yield alone):
            best = alone() or best
    return best


def _merged(subject: OnnxSubject, operands: Mapping[str, tuple[str, ...]]) -> Iterator[Place]:
    """The operands that read what another one reads, but did not in the original."""
    first: dict[str, str] = {}
    for index, node in enumerate(subject.nodes):
        before = operands.get(subject.origin(node.output[0]), ()) if node.output else ()
        for place, (name, origin) in enumerate(zip(node.input, before, strict=False)):
            if name and origin and first.setdefault(name, origin) != origin and not subject.is_shape(name):
                yield index, place


def _separated(subject: OnnxSubject, places: tuple[Place, ...]) -> OnnxSubject | None:
    """The subject with a tensor of its own for each of these operands, of the same type and values."""
    inputs, names = dict(subject.inputs), {name for node in subject.nodes for name in node.output}
    names |= {*inputs, *subject.initializers}
    infos: list[onnx.ValueInfoProto] = []
    tensors: list[onnx.TensorProto] = []
    fresh: dict[Place, str] = {}
    for index, place in places:
        old = subject.nodes[index].input[place]
        value, kind = _value(subject, old), subject.type_of(old)
        if value is None or kind is None:
            return None
        name = fresh[index, place] = _free_name("w" if old in subject.initializers else "x", names)
        names.add(name)
        if old in subject.initializers:
            tensors.append(initializer(name, value))
        else:
            infos.append(onnx.ValueInfoProto(name=name, type=kind))
            inputs[name] = value

    def edit(model: onnx.ModelProto) -> None:
        for (index, place), name in fresh.items():
            model.graph.node[index].input[place] = name
        model.graph.input.extend(infos)
        model.graph.initializer.extend(tensors)

    return change_model(subject, edit, inputs)


def _value(subject: OnnxSubject, name: str) -> Tensor | None:
    own = subject.array(name)
    found = own if own is not None else subject.facts.values.get(name)
    return found if isinstance(found, np.ndarray) else None


def _free_name(letter: str, taken: set[str]) -> str:
    return next(name for number in range(len(taken) + 1) if (name := f"{letter}{number}") not in taken)


def distinguish_values(subject: NodeSubject, hints: Hints) -> Search:
    """A small round number of its own for every operand whose values all equal another one's."""
    changed: dict[str, Tensor] = {}
    seen: set[tuple[str, bytes]] = set()
    for name in _data(subject):
        array = np.asarray(subject.array(name))
        if not array.size or array.dtype.kind not in "fiu" or (array != array.flat[0]).any():
            continue
        filled, step = array, 1
        while (key := (str(array.dtype), filled.flat[0].tobytes())) in seen and step < MOST_OPERANDS:
            filled, step = np.full(array.shape, step + 1, array.dtype), step + 1
        seen.add(key)
        if filled is not array:
            changed[name] = filled
    return (yield from _first(subject, [changed] if changed else []))


MOST_OPERANDS = 9
"""Further operands keep their values: a number of two digits is no plainer."""


def spread_dims(subject: NodeSubject, hints: Hints) -> Search:
    """Distinct small primes where dims have become 1; weights stay as they are where they must."""
    arrays = {name: np.asarray(subject.array(name)) for name in _data(subject)}
    if not any(array.ndim for array in arrays.values()):
        arrays = {name: array.reshape(1) for name, array in arrays.items()}
    axes = [
        (name, axis) for name, array in arrays.items() for axis, dim in enumerate(array.shape) if dim == 1
    ]
    if not 0 < len(axes) <= MOST_AXES:
        return subject
    if any(array.size != 1 for array in arrays.values()):
        return (yield from _first(subject, [_aligned(arrays, axes)]))
    given = [axis for axis in axes if axis[0] not in subject.initializers]
    choices = [axes, *([given] if 0 < len(given) < len(axes) else [])]
    return (yield from _first(subject, [_primes(subject, arrays, each) for each in choices]))


MOST_AXES = 8
MOST_RANK = 64
"""Of numpy's arrays."""
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


def _primes(
    subject: NodeSubject, arrays: Mapping[str, Tensor], axes: list[tuple[str, int]]
) -> dict[str, Tensor]:
    """As many distinct dims as type: each axis alone, or else with one that has to be as long."""
    sizes: dict[tuple[str, int], int] = {}
    primes = iter(PRIMES)
    prime = next(primes)
    groups = [*((axis,) for axis in axes), *combinations(axes, 2)]
    for group in groups:
        if any(axis in sizes for axis in group):
            continue
        tried = {**sizes, **dict.fromkeys(group, prime)}
        if subject.with_tensors(_with_sizes(arrays, tried)) is not None:
            sizes, prime = tried, next(primes, PRIMES[-1])
    for axis in axes:
        for known in dict.fromkeys(sizes.values()):
            if axis not in sizes and subject.with_tensors(_with_sizes(arrays, {**sizes, axis: known})):
                sizes[axis] = known
    return _with_sizes(arrays, sizes)


def _aligned(arrays: Mapping[str, Tensor], axes: list[tuple[str, int]]) -> dict[str, Tensor]:
    """A size of its own for all axes at one place, counted from the end: what broadcasts goes on to."""
    taken = {dim for array in arrays.values() for dim in array.shape}
    free = [size for size in range(2, 3 + len(taken) + MOST_RANK) if size not in taken]
    return _with_sizes(arrays, {(name, axis): free[arrays[name].ndim - axis - 1] for name, axis in axes})


def _with_sizes(arrays: Mapping[str, Tensor], sizes: Mapping[tuple[str, int], int]) -> dict[str, Tensor]:
    shapes = {
        name: tuple(sizes.get((name, axis), dim) for axis, dim in enumerate(array.shape))
        for name, array in arrays.items()
    }
    changed = dict.fromkeys(name for name, _ in sizes)
    return {name: np.array(np.broadcast_to(arrays[name], shapes[name])) for name in changed}


def _data(subject: NodeSubject) -> list[str]:
    """The tensors that flow in and whose values are data, not dims or axes."""
    return [
        name for name in subject.sources if not subject.is_shape(name) and subject.array(name) is not None
    ]


def _first(subject: NodeSubject, choices: list[dict[str, Tensor]]) -> SearchOf[NodeSubject]:
    """The first of these changes with which it still fails."""
    for changed in filter(None, choices):
        proposal = cache(partial(subject.with_tensors, changed))
        if proposal() is not None and (yield proposal):
            return proposal() or subject
    return subject


def declare_ranks(subject: OnnxSubject, hints: Hints) -> Search:
    """Each output is declared with the rank that it has, where nothing infers it."""
    ranks = {
        name: value.ndim for name, value in subject.facts.values.items() if isinstance(value, np.ndarray)
    }

    def edit(model: onnx.ModelProto) -> None:
        for info in model.graph.output:
            dims = info.type.tensor_type.shape.dim
            if info.name in ranks and len(dims) != ranks[info.name]:
                del dims[:]
                dims.extend(onnx.TensorShapeProto.Dimension() for _ in range(ranks[info.name]))

    declared = change_model(subject, edit, dict(subject.inputs))
    if declared is None or declared.model == subject.model:
        return subject
    return declared if (yield lambda: declared) else subject


MOVES = (
    Move("separate operands", 810, separate_operands, reshapes=True, plain=True, on=OnnxSubject),
    Move("spread dims", 820, spread_dims, reshapes=True, plain=True, on=NodeSubject),
    Move("distinguish values", 830, distinguish_values, plain=True, on=NodeSubject),
    Move("declare ranks", 840, declare_ranks, reshapes=True, plain=True, on=OnnxSubject),
)
