"""Values that operators can take: indices below the extents they index, lengths, masks, scales, scalars.

What a rule needs of the other operands of its node it asks by place and axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from onnx import NodeProto

from corpus.values import Shape, Tensor

if TYPE_CHECKING:
    from numpy.random import Generator

Extent = Callable[[int, int], int]
"""The size of an operand's dim, by place and axis; a small number where it is not known."""

Fill: TypeAlias = "Callable[[tuple[int, ...], Generator, Extent, NodeProto], Tensor]"

USUAL = 3
"""A size that is not known."""


def extents(node: NodeProto, shapes: Mapping[str, Shape | None]) -> Extent:
    """What rules ask of the operands of a node."""

    def extent(place: int, axis: int) -> int:
        name = node.input[place] if place < len(node.input) else ""
        shape = shapes.get(name) or ()
        dim = shape[axis] if -len(shape) <= axis < len(shape) else None
        return dim if isinstance(dim, int) else USUAL

    return extent


def value_rule(node: NodeProto, place: int) -> Fill | None:
    """How to fill the operand at a place of a node; None where any values will do."""
    return RULES.get((node.op_type, place))


def _full(value: float) -> Fill:
    return lambda shape, rng, extent, node: np.full(shape, value)


def _below(place: int, axis: int) -> Fill:
    """Indices below an extent."""
    return lambda shape, rng, extent, node: rng.integers(0, max(extent(place, axis), 1), shape)


def _extent(place: int, axis: int, more: int = 0) -> Fill:
    """An extent itself, or one that is longer or shorter."""
    return lambda shape, rng, extent, node: np.full(shape, extent(place, axis) + more)


def _gathered(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
    axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
    return rng.integers(0, max(extent(0, axis), 1), shape)


def _points(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
    """Indices along several axes at once, one in each column."""
    sizes = [max(extent(0, axis), 1) for axis in range(shape[-1] if shape else 0)]
    return np.stack([rng.integers(0, size, shape[:-1]) for size in sizes], axis=-1)


def _mask(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
    """Zeros and ones, of which the first is a one; or, in a vector, how long each sequence is."""
    if len(shape) < 2:
        return np.full(shape, extent(0, 1))
    mask = rng.integers(0, 2, shape)
    mask[..., 0] = 1
    return mask


def _lengths(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
    return rng.integers(1, 1 + max(extent(0, 0), 1), shape)


def _boxes(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
    """Corners, the first two below the last two."""
    return np.sort(rng.random(shape), axis=-1)


def _sides(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
    """The sizes of the first operand's own last dims."""
    count = shape[0] if shape else 1
    return np.array([extent(0, axis - count) for axis in range(count)]).reshape(shape)


def _positive(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
    return rng.random(shape) * 0.09 + 0.01


def _probable(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
    return rng.random(shape)


RULES: dict[tuple[str, int], Fill] = {
    ("Attention", 3): _mask,
    ("BeamSearch", 1): _extent(0, 1, 4),
    ("BeamSearch", 2): _full(1),
    ("BeamSearch", 3): _full(2),
    **{("BeamSearch", place): _full(1) for place in (4, 5, 6, 7, 8, 9)},
    ("Bernoulli", 0): _probable,
    ("CropAndResize", 1): _boxes,
    ("CropAndResize", 2): _below(0, 0),
    ("CropAndResize", 3): _full(2),
    ("CumSum", 1): _full(0),
    ("DecoderMaskedMultiHeadAttention", 3): _mask,
    ("DecoderMaskedMultiHeadAttention", 7): _extent(1, 2, -1),
    ("DecoderMaskedMultiHeadAttention", 8): _full(1),
    ("DecoderMaskedMultiHeadAttention", 9): _full(0),
    ("DecoderMaskedSelfAttention", 6): _extent(4, 3, -1),
    ("DequantizeLinear", 1): _positive,
    ("Dropout", 1): _full(0.5),
    ("EmbedLayerNormalization", 0): _below(2, 0),
    ("EmbedLayerNormalization", 1): _below(4, 0),
    ("EmbedLayerNormalization", 7): _mask,
    ("EmbedLayerNormalization", 8): _below(3, 0),
    ("GRU", 4): _lengths,
    ("Gather", 1): _gathered,
    ("GatherElements", 1): _gathered,
    ("GatherND", 1): _points,
    ("GreedySearch", 1): _extent(0, 1, 4),
    **{("GreedySearch", place): _full(1) for place in (2, 3, 4, 5, 6)},
    ("GroupQueryAttention", 5): _extent(0, 1, -1),
    ("GroupQueryAttention", 6): _extent(0, 1),
    ("LSTM", 4): _lengths,
    ("Loop", 0): _full(2),
    ("Loop", 1): _full(1),
    ("MaxRoiPool", 1): _boxes,
    ("MultiHeadAttention", 4): _mask,
    ("MultiHeadAttention", 8): _full(1),
    ("MultiHeadAttention", 9): _full(0),
    ("NonMaxSuppression", 2): _full(3),
    ("NonMaxSuppression", 3): _full(0.5),
    ("NonMaxSuppression", 4): _full(0.1),
    ("OneHot", 1): _full(4),
    ("PackedAttention", 3): _full(0),
    ("QuantizeLinear", 1): _positive,
    ("RNN", 4): _lengths,
    ("Range", 1): _full(5),
    ("Range", 2): _full(1),
    ("Resize", 3): _sides,
    ("RoiAlign", 1): _boxes,
    ("RoiAlign", 2): _below(0, 0),
    ("RotaryEmbedding", 1): _full(0),
    ("STFT", 1): _full(1),
    **{("Sampling", place): _full(1) for place in (2, 3, 4, 5, 6, 7)},
    ("Sampling", 1): _extent(0, 1, 4),
    ("ScatterElements", 1): _gathered,
    ("ScatterND", 1): _points,
    ("SequenceAt", 1): _full(0),
    ("SequenceErase", 1): _full(0),
    ("SequenceInsert", 2): _full(0),
    ("SparseAttention", 7): _full(1),
    ("SplitToSequence", 1): _full(1),
    **{("WhisperBeamSearch", place): _full(1) for place in (2, 4, 5, 6)},
    ("WhisperBeamSearch", 1): _extent(0, 1, 4),
    ("WhisperBeamSearch", 3): _full(2),
}
"""By operator and place; only for inputs that the usual values did not fit."""
