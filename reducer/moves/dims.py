"""Smaller dims: axes of one size shrink together, with the constants and attributes that carry that size.

Equal dims are taken for one class; shape inference, which costs no check, says whether a choice fits. What
is left of an axis is a window of its positions, so that a value that the bug needs can stay.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import onnx
from onnx import AttributeProto

from corpus.onnx.graph import body_weights
from corpus.values import Tensor
from reducer.move import Hints, Move, Search, SearchOf, all_at_once, first_smaller, first_valid
from reducer.subject.base import NodeSubject, Resize, Window, farthest
from reducer.subject.order import MANY


def shrink_dims(subject: NodeSubject, hints: Hints) -> SearchOf[NodeSubject]:
    """All dims at once; counts with their multiples; class by class, with others where need be; axis by axis.

    A class may only go once another has gone (height greater than width), so the quick tries go round until
    nothing changes, and only then is what is left bisected.
    """
    witness = {**_extremes(subject), **dict(reversed(hints.witness))}
    best = yield from _together(subject, witness)
    for count in sorted(best.counts.intersection(_sizes(best)), reverse=True):
        best = yield from _first_smaller(best, _with_multiples(best, count, 1, witness))
    before: NodeSubject | None = None
    while best is not before:
        before = best
        for dim in _sizes(best):
            best = yield from _one_class(best, dim, witness)
    for dim in _sizes(best):
        best = yield from _smallest_window(best, dim)
    for name, axis in _axes(best):
        best = yield from _one_axis(best, name, axis, witness)
    return best


def _extremes(subject: NodeSubject) -> Mapping[int, int]:
    """Map each size of a dim to the index of the farthest value from zero, in the first such tensor."""
    found: dict[int, int] = {}
    for name in subject.sources:
        array = subject.array(name)
        if array is not None and 1 < array.size <= MANY and array.dtype.kind not in "USO":
            at = np.unravel_index(farthest(array), array.shape)
            found = {**dict(zip(array.shape, map(int, at), strict=True)), **found}
    return found


def _window(dim: int, length: int, witness: Mapping[int, int]) -> tuple[int, Window]:
    """So many positions of a dim: around the value that is wrong, or the one that may matter."""
    length = min(dim, length)
    low = min(witness.get(dim, 0), dim - length)
    return dim, (low, low + length)


def _together(subject: NodeSubject, witness: Mapping[int, int]) -> SearchOf[NodeSubject]:
    """All to 1, never to 2 or 3: classes of one size could not be told apart any more."""
    windows = tuple(_window(dim, 1, witness) for dim in _sizes(subject))
    return (yield from _first_smaller(subject, [Resize(windows)]))


def _with_multiples(subject: NodeSubject, dim: int, small: int, witness: Mapping[int, int]) -> list[Resize]:
    """A dim with all of its multiples, in proportion; none where it has none."""
    multiples = [size for size in _sizes(subject) if size % dim == 0]
    windows = tuple(_window(size, size // dim * small, witness) for size in multiples)
    return [Resize(windows)] if len(windows) > 1 else []


def _one_class(subject: NodeSubject, dim: int, witness: Mapping[int, int]) -> SearchOf[NodeSubject]:
    """1, 2, 3; with its multiples, or jointly with one other class, where it does not fit alone."""
    sizes = _sizes(subject)
    if dim not in sizes:
        return subject
    for small in range(1, min(dim, 4)):
        one = _window(dim, small, witness)
        alone = Resize((one,))
        others = [other for other in sizes if other not in (dim, small)]
        pairs = [Resize((one, _window(other, small, witness))) for other in others]
        jointly = [*_with_multiples(subject, dim, small, witness), *pairs]
        found = yield from _first_smaller(subject, [alone] if _fits(subject, alone) else jointly)
        if found is not subject:
            return found
    return subject


def _smallest_window(subject: NodeSubject, dim: int) -> SearchOf[NodeSubject]:
    """The shortest prefix that suffices, those up to 3 were tried before; then the shortest suffix of it."""
    if dim not in _sizes(subject) or not _fits(subject, Resize(((dim, (0, dim - 1)),))):
        return subject
    low, high = 0, dim
    bound = min(3, dim - 1)
    while high - bound > 1:
        middle = (bound + high) // 2
        if (yield partial(apply, subject, Resize(((dim, (0, middle)),)))):
            high = middle
        else:
            bound = middle
    bound = high - 1
    while bound - low > 0:
        middle = (low + bound + 1) // 2
        if (yield partial(apply, subject, Resize(((dim, (middle, high)),)))):
            low = middle
        else:
            bound = middle - 1
    if (low, high) == (0, dim):
        return subject
    return apply(subject, Resize(((dim, (low, high)),))) or subject


def _one_axis(
    subject: NodeSubject, name: str, axis: int, witness: Mapping[int, int]
) -> SearchOf[NodeSubject]:
    """An axis that only happened to be as long as others."""
    array = subject.array(name)
    if array is None or axis >= array.ndim or array.shape[axis] < 2:
        return subject
    dim = array.shape[axis]
    shorter = [Resize((_window(dim, small, witness),), (name, axis)) for small in (1, 2, 3) if small < dim]
    return (yield from _first_smaller(subject, shorter))


def _first_smaller(subject: NodeSubject, choices: list[Resize]) -> SearchOf[NodeSubject]:
    return (yield from first_smaller(subject, [partial(apply, subject, choice) for choice in choices]))


def _fits(subject: NodeSubject, choice: Resize) -> bool:
    return apply(subject, choice) is not None


def _sizes(subject: NodeSubject) -> list[int]:
    """The dims above 1 of what flows in, largest first."""
    return sorted({dim for array in subject.data.values() for dim in array.shape if dim > 1}, reverse=True)


def _axes(subject: NodeSubject) -> Iterator[tuple[str, int]]:
    for name, array in subject.data.items():
        yield from ((name, axis) for axis in range(array.ndim))


def apply(subject: NodeSubject, choice: Resize) -> NodeSubject | None:
    """The subject with its axes cut to their windows, sizes carried along; None where that does not fit."""
    changed: dict[str, Tensor] = {}
    for name, array in subject.data.items():
        cut = array[choice.index(name, array.shape)] if array.ndim else array
        if cut.shape != array.shape:
            changed[name] = cut
    return subject.resized(changed, choice)


AXIS_ATTRIBUTES = frozenset({"axis", "axes"})


def drop_axes(subject: NodeSubject, hints: Hints) -> Search:
    """Drop leading or trailing axes, as many as possible, of the tensors of highest rank first."""
    best, before = subject, None
    while best is not before:
        before = best
        best = yield from first_valid(best, _proposals(best))
    return best


def _proposals(subject: NodeSubject) -> Iterator[partial[NodeSubject | None]]:
    """Most axes first."""
    for count in range(_highest_rank(subject), 0, -1):
        for position in (0, -1):
            yield partial(_without, subject, count, position)


def _without(subject: NodeSubject, count: int, position: int) -> NodeSubject | None:
    """So many axes fewer, one after the other from the tensors that have the highest rank then."""
    found: NodeSubject | None = subject
    for _ in range(count):
        rank = _highest_rank(found) if found else 0
        found = _dropped(found, rank, position) if found is not None and rank else None
    return found


def _highest_rank(subject: NodeSubject) -> int:
    return max((array.ndim for array in subject.data.values()), default=0)


def _dropped(subject: NodeSubject, rank: int, position: int) -> NodeSubject | None:
    """Without one axis in every tensor of this rank, permutations and axis attributes moved along."""
    changed = {}
    for name, array in subject.data.items():
        if array.ndim == rank:
            if array.shape[position] != 1:
                return None
            changed[name] = array.reshape(array.shape[1:] if position == 0 else array.shape[:-1])
    axis = position % rank
    return subject.with_tensors(changed, partial(_shift, rank=rank, axis=axis)) if changed else None


def _shift(model: onnx.ModelProto, rank: int, axis: int) -> None:
    """Weights in bodies follow, and attributes that name axes speak of the axes that are left."""
    for tensor in body_weights(model.graph):
        if len(tensor.dims) == rank and tensor.dims[axis] == 1:
            del tensor.dims[axis]
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "perm" and len(attribute.ints) == rank:
                left = [place for place in attribute.ints if place != axis]
                attribute.ints[:] = [place - (place > axis) for place in left]
            elif attribute.name in AXIS_ATTRIBUTES and attribute.type == AttributeProto.INT:
                attribute.i -= attribute.i > axis
            elif attribute.name in AXIS_ATTRIBUTES and attribute.type == AttributeProto.INTS:
                attribute.ints[:] = [place - (place > axis) for place in attribute.ints]


MOVES = (
    Move("shrink dims", 400, all_at_once(shrink_dims), reshapes=True, on=NodeSubject),
    Move("drop axes", 552, drop_axes, reshapes=True, on=NodeSubject),
)
