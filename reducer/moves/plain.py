"""The last passes: a case that tells its cause, rather than one that is only small.

Operands that were distinct in the original are distinct again, operands of equal values get values of their
own, and dims that all became 1 become small primes, as long as the failure stays. What must be shared, equal
or 1 for the failure to show is then part of its cause.

A wrong value may grow into the failure's NaN only further down: a wrong 0 is divided by, then multiplied. The
nodes on that way cannot go while the values stay; with telling values the first wrong node makes a NaN by
itself.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations, count, product

import numpy as np
import onnx

from corpus.values import Tensor, is_float
from reducer.move import Hints, Move, Search, SearchOf, first_of, first_smaller, first_valid, one_by_one
from reducer.search import Items
from reducer.subject.base import NodeSubject, initializer
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject

LEAST_NODES, MOST_NODES = 3, 8
"""Of fewer nodes there is little to gain; of more, too many subsets to ask for."""

FEW_NODES = 2
"""So many nodes are tried alone."""

MOST_TENSORS = 3
"""Of so many tensors that flow in, all combinations of values fit into one program."""

MOST_ASKED = 9
"""So many candidates are asked for; a thorough reduction asks for all."""

POSITIVE = (0.5, 1.0, 2.0)
TELLING = (-2.0, -1.0, -0.5, 0.0, *POSITIVE)
"""The ends of most operators' domains lie between these numbers."""


def feed_distinguishing_values(subject: OnnxSubject, hints: Hints) -> Search:
    """Ask for one node or two, fed with every combination of a few numbers at once."""
    if not LEAST_NODES <= len(subject.nodes) <= MOST_NODES:
        return subject
    most = math.inf if hints.is_thorough else min(MOST_ASKED, hints.looks)
    return (yield from first_smaller(subject, _proposals(subject, hints), most))


def _proposals(subject: OnnxSubject, hints: Hints) -> Iterator[Callable[[], OnnxSubject | None]]:
    for keep in _subsets(subject, hints):
        alone = subject.keep_nodes(keep, link=True)
        names = _floats(alone) if alone is not None else ()
        if alone is not None and 0 < len(names) <= MOST_TENSORS:
            for signed in ((), *((name,) for name in names), names):
                yield partial(_fed, alone, names, frozenset(signed))


def _subsets(subject: OnnxSubject, hints: Hints) -> Iterator[Items]:
    """Single nodes, then pairs; first those to which the evidence points, and those of several operands."""
    blamed = {*hints.divergence, *hints.nodes}

    def rank(index: int) -> tuple[bool, int]:
        return blamed.isdisjoint(subject.nodes[index].output), -len(subject.reads[index])

    order = sorted(range(len(subject.nodes)), key=rank)
    for length in range(1, FEW_NODES + 1):
        yield from (frozenset(chosen) for chosen in combinations(order, length))


def _floats(subject: OnnxSubject) -> tuple[str, ...]:
    """The tensors of floats that flow in."""
    return tuple(name for name, array in subject.data.items() if is_float(array))


def _fed(subject: OnnxSubject, names: tuple[str, ...], signed: frozenset[str]) -> OnnxSubject | None:
    """The subject with vectors that hold every combination; only `signed` ones may be 0 or below."""
    values = np.array(list(product(*(TELLING if name in signed else POSITIVE for name in names))))
    return subject.with_tensors(
        {name: _like(subject.array(name), values[:, place]) for place, name in enumerate(names)}
    )


def _like(array: Tensor | None, values: Tensor) -> Tensor:
    assert array is not None
    return values.astype(array.dtype)


Place = tuple[int, int]
"""A node of the main graph, and one of its operands."""


def separate_operands(subject: OnnxSubject, hints: Hints) -> Search:
    """All operands at once that one tensor came to stand for; else one after the other."""
    places = list(_merged(subject, hints.operands))
    if not places:
        return subject
    best = yield from first_of(subject, [partial(_separated, tuple(places), subject)])
    if best is not subject or len(places) == 1:
        return best
    return (yield from one_by_one(subject, [partial(_separated, (place,)) for place in places]))


def _merged(subject: OnnxSubject, operands: Mapping[str, tuple[str, ...]]) -> Iterator[Place]:
    """The operands that read what another one reads, but did not in the original."""
    first: dict[str, str] = {}
    for index, node in enumerate(subject.nodes):
        before = operands.get(subject.origin(node.output[0]), ()) if node.output else ()
        for place, (name, origin) in enumerate(zip(node.input, before, strict=False)):
            if name and origin and first.setdefault(name, origin) != origin and not subject.is_shape(name):
                yield index, place


def _separated(places: tuple[Place, ...], subject: OnnxSubject) -> OnnxSubject | None:
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
        letter = "w" if old in subject.initializers else "x"
        name = fresh[index, place] = next(f"{letter}{at}" for at in count() if f"{letter}{at}" not in names)
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


def distinguish_values(subject: NodeSubject, hints: Hints) -> Search:
    """A small round number of its own for every operand whose values all equal another one's."""
    changed: dict[str, Tensor] = {}
    seen: set[tuple[str, bytes]] = set()
    for name, given in subject.data.items():
        array = np.asarray(given)
        if not array.size or array.dtype.kind not in "fiu" or (array != array.flat[0]).any():
            continue
        filled, step = array, 1
        while (key := (str(array.dtype), filled.flat[0].tobytes())) in seen and step < MOST_OPERANDS:
            filled, step = np.full(array.shape, step + 1, array.dtype), step + 1
        seen.add(key)
        if filled is not array:
            changed[name] = filled
    return (yield from _first(subject, [changed]))


MOST_OPERANDS = 9
"""Further operands keep their values: a number of two digits is no plainer."""


def spread_dims(subject: NodeSubject, hints: Hints) -> Search:
    """Distinct small primes where dims have become 1; weights stay as they are where they must."""
    arrays = {name: np.asarray(array) for name, array in subject.data.items()}
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


def _first(subject: NodeSubject, choices: list[dict[str, Tensor]]) -> SearchOf[NodeSubject]:
    """The first of these changes with which it still fails."""
    proposals = [partial(subject.with_tensors, changed) for changed in choices if changed]
    return (yield from first_valid(subject, proposals))


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
    is_new = declared is not None and declared.model != subject.model
    return (yield from first_valid(subject, [lambda: declared] if is_new else []))


MOVES = (
    Move(
        "feed a node or two with telling values",
        613,
        feed_distinguishing_values,
        reshapes=True,
        late=True,
        chance=0.05,
        on=OnnxSubject,
    ),
    Move("separate operands", 810, separate_operands, reshapes=True, plain=True, on=OnnxSubject),
    Move("spread dims", 820, spread_dims, reshapes=True, plain=True, on=NodeSubject),
    Move("distinguish values", 830, distinguish_values, plain=True, on=NodeSubject),
    Move("declare ranks", 840, declare_ranks, reshapes=True, plain=True, on=OnnxSubject),
)
