"""Smaller dims: axes of one size shrink together, with the constants and attributes that carry that size.

Equal dims are taken for one class; shape inference, which costs no check, says whether a choice fits. What
is left of an axis is a window of its positions, so that a value that the bug needs can stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from corpus.onnx.graph import body_weights
from corpus.values import Tensor
from oracles.numerics.operators import operator_of
from reducer.move import EITHER, Hints, Move, Search
from reducer.subject.graph import GraphSubject
from reducer.subject.graph_edits import resize
from reducer.subject.onnx import Subject
from reducer.subject.order import MANY, size
from reducer.subject.retype import change_tensors
from reducer.subject.tensors import farthest, initializer

SHAPE_ATTRIBUTES = {"kernel_shape", "group", "output_shape", "shape", "split", "hidden_size"} | {
    f"{kind}num_heads" for kind in ("", "q_", "kv_")
}
"""Attributes whose integers are dims or count them."""

COUNT_ATTRIBUTES = SHAPE_ATTRIBUTES - {"kernel_shape", "output_shape", "shape", "split"}
"""Those of which other dims are multiples: the gates of an LSTM, the channels of a group, a head's width."""

Window: TypeAlias = tuple[int, int]
"""The first position kept, and the one after the last."""


@dataclass(frozen=True)
class Resize:
    """Windows by old dim: every axis of that size is cut to its window."""

    windows: tuple[tuple[int, Window], ...]
    only: tuple[str, int] | None = None

    def window(self, name: str, axis: int, dim: int) -> Window | None:
        """The part of a dim that is left, for the axis that is being shrunk; None for the whole."""
        if self.only is not None and self.only != (name, axis):
            return None
        return dict(self.windows).get(dim)

    def size_of(self, dim: int) -> int:
        """The size that a dim has under these windows."""
        low, high = dict(self.windows).get(dim, (0, dim))
        return high - low


def shrink_dims(subject: Subject, hints: Hints) -> Search:
    """All dims at once; counts with their multiples; class by class, with others where need be; axis by axis.

    A class may only go once another has gone (height greater than width), so the quick tries go round until
    nothing changes, and only then is what is left bisected.
    """
    witness = {**_extremes(subject), **dict(reversed(hints.witness))}
    best = yield from _together(subject, witness)
    for count in _counts(best):
        best = yield from _first_smaller(best, _with_multiples(best, count, 1, witness))
    before: Subject | None = None
    while best is not before:
        before = best
        for dim in _sizes(best):
            best = yield from _one_class(best, dim, witness)
    for dim in _sizes(best):
        best = yield from _smallest_window(best, dim)
    for name, axis in _axes(best):
        best = yield from _one_axis(best, name, axis, witness)
    return best


def _extremes(subject: Subject) -> Mapping[int, int]:
    """By dim where the value farthest from zero is, of the first tensor with such an axis: it may matter."""
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


def _together(subject: Subject, witness: Mapping[int, int]) -> Search:
    """All to 1, never to 2 or 3: classes of one size could not be told apart any more."""
    windows = tuple(_window(dim, 1, witness) for dim in _sizes(subject))
    return (yield from _first_smaller(subject, [Resize(windows)]))


def _counts(subject: Subject) -> list[int]:
    """The dims that an attribute of a node counts, largest first."""
    if isinstance(subject, GraphSubject):
        return []
    attributes = (item for node in subject.nodes for item in node.attribute)
    counts = {item.i for item in attributes if item.name in COUNT_ATTRIBUTES}
    return sorted(counts.intersection(_sizes(subject)), reverse=True)


def _with_multiples(subject: Subject, dim: int, small: int, witness: Mapping[int, int]) -> list[Resize]:
    """A dim with all of its multiples, in proportion; none where it has none."""
    multiples = [size for size in _sizes(subject) if size % dim == 0]
    windows = tuple(_window(size, size // dim * small, witness) for size in multiples)
    return [Resize(windows)] if len(windows) > 1 else []


def _one_class(subject: Subject, dim: int, witness: Mapping[int, int]) -> Search:
    """1, 2, 3; with its multiples, or jointly with one other class, where it does not fit alone."""
    sizes = _sizes(subject)
    if dim not in sizes:
        return subject
    for small in (1, 2, 3):
        if small < dim:
            one = _window(dim, small, witness)
            others = [other for other in sizes if other not in (dim, small)]
            pairs = [Resize((one, _window(other, small, witness))) for other in others]
            alone = Resize((one,))
            jointly = [*_with_multiples(subject, dim, small, witness), *pairs]
            found = yield from _first_smaller(subject, [alone] if _fits(subject, alone) else jointly)
            if found is not subject:
                return found
    return subject


def _smallest_window(subject: Subject, dim: int) -> Search:
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


def _one_axis(subject: Subject, name: str, axis: int, witness: Mapping[int, int]) -> Search:
    """An axis that only happened to be as long as others."""
    array = subject.array(name)
    if array is None or axis >= array.ndim or array.shape[axis] < 2:
        return subject
    dim = array.shape[axis]
    shorter = [Resize((_window(dim, small, witness),), (name, axis)) for small in (1, 2, 3) if small < dim]
    return (yield from _first_smaller(subject, shorter))


def _first_smaller(subject: Subject, choices: list[Resize]) -> Search:
    for choice in choices:
        found = apply(subject, choice)
        if found is not None and size(found) < size(subject) and (yield partial(apply, subject, choice)):
            return found
    return subject


def _fits(subject: Subject, choice: Resize) -> bool:
    return apply(subject, choice) is not None


def _sizes(subject: Subject) -> list[int]:
    """The dims above 1 of what flows in, largest first."""
    arrays = (subject.array(name) for name in subject.sources if not is_shape(subject, name))
    return sorted(
        {dim for array in arrays if array is not None for dim in array.shape if dim > 1}, reverse=True
    )


def _axes(subject: Subject) -> Iterator[tuple[str, int]]:
    for name in subject.sources:
        array = subject.array(name)
        if array is not None and not is_shape(subject, name):
            yield from ((name, axis) for axis in range(array.ndim))


def is_shape(subject: Subject, name: str) -> bool:
    """Whether a tensor is read as a list of dims, axes or the like, so that its own length is no dim."""
    return name in _shape_tensors(subject)


def _shape_tensors(subject: Subject) -> Mapping[str, None]:
    """Small int64 vectors that are initializers and read by nodes as shapes, axes, pads, starts or ends."""
    found: dict[str, None] = {}
    for node in subject.nodes:
        operator = operator_of(node)
        if operator.dims_at or operator.reads_axes:
            for name in node.input[:1] if 0 in operator.dims_at else node.input[1:]:
                tensor = subject.initializers.get(name)
                if (
                    tensor is not None
                    and tensor.data_type == onnx.TensorProto.INT64
                    and len(tensor.dims) == 1
                ):
                    found[name] = None
    return found


def apply(subject: Subject, choice: Resize) -> Subject | None:
    """The subject with its axes cut to their windows, sizes carried along; None where that does not fit."""
    changed = _cut_tensors(subject, choice)
    if isinstance(subject, GraphSubject):
        return resize(subject, changed, choice.size_of if choice.only is None else lambda dim: dim)
    if choice.only is None:
        for carry in ((True, True), (True, False), (False, True), (False, False)):
            found = _carried(subject, choice, changed, *carry)
            if found is not None:
                return found
        return None
    return change_tensors(subject, changed) if changed else None


def _cut_tensors(subject: Subject, choice: Resize) -> dict[str, Tensor]:
    changed: dict[str, Tensor] = {}
    for name in subject.sources:
        array = subject.array(name)
        if array is None or not array.ndim or is_shape(subject, name):
            continue
        cut = array[_index(choice, name, array.shape)]
        if cut.shape != array.shape:
            changed[name] = cut
    return changed


def _index(choice: Resize, name: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
    windows = [choice.window(name, axis, dim) or (0, dim) for axis, dim in enumerate(shape)]
    return tuple(slice(low, high) for low, high in windows)


def _carried(
    subject: Subject, choice: Resize, changed: Mapping[str, Tensor], constants: bool, attributes: bool
) -> Subject | None:
    resized = dict(changed)
    if constants:
        resized |= _resized_constants(subject, choice)
    if not resized:
        return None
    return change_tensors(subject, resized, partial(_resize, choice=choice, attributes=attributes))


def _resize(model: onnx.ModelProto, choice: Resize, attributes: bool) -> None:
    """What goes along with the tensors that flow in, in place: weights in bodies, and attributes."""
    for tensor in body_weights(model.graph):
        if any(choice.size_of(dim) != dim for dim in tensor.dims):
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(initializer(tensor.name, array[_index(choice, "", array.shape)]))
    if attributes:
        _resize_attributes(model, choice)


def _resized_constants(subject: Subject, choice: Resize) -> dict[str, Tensor]:
    """The elements of shape constants that equal a dim that changes."""
    found: dict[str, Tensor] = {}
    for node in subject.nodes:
        for position in operator_of(node).dims_at:
            name = node.input[position] if position < len(node.input) else ""
            tensor = subject.initializers.get(name)
            array = subject.array(name) if tensor is not None else None
            if array is not None and array.dtype == "int64":
                fresh = array.copy()
                for index, value in enumerate(array.flat):
                    fresh.flat[index] = choice.size_of(int(value))
                found[name] = fresh
    return found


def _resize_attributes(model: onnx.ModelProto, choice: Resize) -> None:
    """The attributes that count dims, in place."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in SHAPE_ATTRIBUTES and attribute.type == onnx.AttributeProto.INT:
                attribute.i = choice.size_of(attribute.i)
            elif attribute.name in SHAPE_ATTRIBUTES and attribute.type == onnx.AttributeProto.INTS:
                attribute.ints[:] = [choice.size_of(value) for value in attribute.ints]
            elif attribute.s == b"bidirectional" and choice.size_of(2) == 1:
                attribute.s = b"forward"  # the first axis of a recurrent network's weights


MOVES = (Move("shrink dims", 400, shrink_dims, reshapes=True, subjects=EITHER),)
