"""Inputs for an ONNX model from a seed: small, sane, and the same on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto

from corpus.errors import UserError
from corpus.onnx.graph import consumers, initializer_names
from corpus.onnx.sizes import Plan, Shapes, formula_size, solve
from corpus.onnx.types import declared_shape, graph_types, input_type
from corpus.values import NO_DIMS, InputType, Shape, Tensor, Value

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


def _attention_mask(shape: tuple[int, ...], rng: Generator, extent: Extent, node: NodeProto) -> Tensor:
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
    ("Attention", 3): _attention_mask,
    ("BeamSearch", 1): _extent(0, 1, 4),
    ("BeamSearch", 2): _full(1),
    ("BeamSearch", 3): _full(2),
    **{("BeamSearch", place): _full(1) for place in (4, 5, 6, 7, 8, 9)},
    ("Bernoulli", 0): _probable,
    ("CropAndResize", 1): _boxes,
    ("CropAndResize", 2): _below(0, 0),
    ("CropAndResize", 3): _full(2),
    ("CumSum", 1): _full(0),
    ("DecoderMaskedMultiHeadAttention", 3): _attention_mask,
    ("DecoderMaskedMultiHeadAttention", 7): _extent(1, 2, -1),
    ("DecoderMaskedMultiHeadAttention", 8): _full(1),
    ("DecoderMaskedMultiHeadAttention", 9): _full(0),
    ("DecoderMaskedSelfAttention", 6): _extent(4, 3, -1),
    ("DequantizeLinear", 1): _positive,
    ("Dropout", 1): _full(0.5),
    ("EmbedLayerNormalization", 0): _below(2, 0),
    ("EmbedLayerNormalization", 1): _below(4, 0),
    ("EmbedLayerNormalization", 7): _attention_mask,
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
    ("MultiHeadAttention", 4): _attention_mask,
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


if TYPE_CHECKING:
    from numpy.random import Generator

_SMALL = (2, 3, 4)
_IMAGE = 32
"""The size of an unknown height or width: a network that halves them needs room."""

_IMAGE_RANK = 4


class Sizes:
    """The sizes given so far, by the dim's name; a dim without a name is known by its axis."""

    def __init__(self, seed: int, given: Mapping[str, int]) -> None:
        self._rng = np.random.default_rng([seed % (1 << 63), 0xD1A5])
        self._sizes = dict(given)

    def shape(self, declared: Shape | None) -> tuple[int, ...]:
        """A static shape; a tensor of unknown rank gets one dim."""
        dims = (None,) if declared is None else declared
        return tuple(
            dim
            if isinstance(dim, int)
            else self._size(dim or f"?{axis}", axis >= 2 and len(dims) >= _IMAGE_RANK)
            for axis, dim in enumerate(dims)
        )

    def _size(self, name: str, is_image: bool) -> int:
        if name not in self._sizes:
            small = _IMAGE if is_image else int(self._rng.choice(_SMALL))
            self._sizes[name] = formula_size(name, partial(self._size, is_image=False)) or small
        return self._sizes[name]


Use = tuple[NodeProto, int]
"""A node that reads an input, and at which place."""

MOST_BYTES = 8 << 30
"""Of an input that is made."""

_WORDS = ("a", "b", "ab", "abc", "1", "2.5", "", "é")
_SEQUENCE = 2
_FEW = 3

_CARRIERS_TEXT = """
    Cast Identity Squeeze Unsqueeze Reshape Flatten Transpose Slice Expand Concat
"""
_CARRIERS = frozenset(_CARRIERS_TEXT.split())
"""Operators that hand the integers of their first operand on unchanged."""

_INDICES = {("Gather", 1), ("GatherElements", 1), ("GatherND", 1), ("ScatterElements", 1), ("ScatterND", 1)}
_INDICES |= {("Scatter", 1), ("OneHot", 0), ("ArrayFeatureExtractor", 1), ("ReverseSequence", 1)}
_ONES = {("Expand", 1), ("Tile", 1), ("TopK", 1), ("Slice", 2), ("Slice", 4), ("Range", 2), ("Loop", 1)}
_ONES |= {("Resize", 2), ("Resize", 3), ("Upsample", 1), ("Split", 1), ("Loop", 0), ("Range", 1)}
_ONES |= {("ConstantOfShape", 0)}
_ZEROS = {("Slice", 1), ("Pad", 1), ("Range", 0), ("Trilu", 1), ("CumSum", 1)}
_AXES = {("Slice", 3), ("Pad", 3), ("Unsqueeze", 1), ("Squeeze", 1)}
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_AXES |= {(f"Reduce{kind}", 1) for kind in _REDUCTIONS}
_DIVISORS = {("Div", 1), ("Mod", 1)}


def make_inputs(model: ModelProto, seed: int, dims: Mapping[str, int] = NO_DIMS) -> dict[str, Value]:
    """A value for every input without an initializer; an input of a kind that no array holds is left out.

    Symbolic dims are small, and equal where they have the same name. Integers are chosen by what reads them:
    an index stays in range, a shape is of ones, a divisor is never zero. `dims` are sizes that are asked for.
    """
    sizes = Sizes(seed, dims)
    uses = _Uses(model.graph)
    defaults = initializer_names(model.graph)
    inputs: dict[str, Value] = {}
    for index, value in enumerate(model.graph.input):
        declared = input_type(value.type)
        if declared is not None and value.name not in defaults:
            rng = np.random.default_rng([seed % (1 << 63), index])
            rule = uses.rule(value.name)
            if rule is None and declared.dtype.kind in "iu" and is_mask(value.name):
                rule = _mask
            inputs[value.name] = _make(declared, sizes, rule, rng)
    return inputs


def fit_inputs(model: ModelProto, seed: int, plan: Plan) -> dict[str, Value]:
    """Values as `make_inputs` makes them, for sizes on which the graph agrees, by what reads each of them.

    A plan that settles more than the sizes asked for is what a run that refused the values has led to.
    """
    shapes = solve(model, plan).shapes
    uses = _Uses(model.graph, shapes)
    inputs: dict[str, Value] = {}
    for index, value in enumerate(model.graph.input):
        declared = input_type(value.type)
        if declared is None or value.name not in shapes:
            continue
        rng = np.random.default_rng([seed % (1 << 63), index])
        sized = replace(declared, shape=shapes[value.name])
        rule = uses.rule_that_fits(value.name, plan.bounds.get(value.name))
        inputs[value.name] = _make(sized, Sizes(seed, NO_DIMS), rule, rng)
    return inputs


Rule: TypeAlias = "Callable[[tuple[int, ...], Generator], Tensor] | None"
"""How to fill an integer or boolean input of a shape; None where any small values do."""


def _make(declared: InputType, sizes: Sizes, rule: Rule, rng: Generator) -> Value:
    if declared.key is not None:
        keys = np.array(_WORDS[:_FEW]) if declared.key.kind == "U" else np.arange(_FEW, dtype=declared.key)
        return [keys, sample(declared.dtype, keys.shape, rng)]
    if declared.sequence:
        return [_tensor(declared, sizes, None, rng) for _ in range(_SEQUENCE)]
    return _tensor(declared, sizes, rule, rng)


def _tensor(declared: InputType, sizes: Sizes, rule: Rule, rng: Generator) -> Tensor:
    shape = sizes.shape(declared.shape)
    if math.prod(shape) * declared.dtype.itemsize > MOST_BYTES:
        raise UserError(
            f"an input of {declared.dtype.name}{list(shape)} is too large to be made; give --inputs"
        )
    if rule is not None and declared.dtype.kind in "iufb":
        return rule(shape, rng).astype(declared.dtype)
    return sample(declared.dtype, shape, rng)


def sample(dtype: np.dtype, shape: tuple[int, ...], rng: Generator) -> Tensor:
    """Values that are sane for the dtype: reals within 1, small integers, short strings."""
    if dtype.kind == "U":
        return np.asarray(np.array(_WORDS)[rng.integers(0, len(_WORDS), shape)], dtype=np.str_)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape, dtype=np.int8).astype(np.bool_)
    if dtype.kind in "iu":
        return rng.integers(0, _FEW, shape, dtype=np.int8).astype(dtype)
    if dtype.kind == "c":
        return (_reals(shape, rng) + 1j * _reals(shape, rng)).astype(dtype)
    if dtype.name == "float8_e8m0fnu":
        return np.exp2(rng.integers(-1, 2, shape)).astype(dtype)
    if "int" in dtype.name:
        return rng.integers(0, 2, shape, dtype=np.int8).astype(dtype)
    return _reals(shape, rng).astype(dtype, copy=False)


def _reals(shape: tuple[int, ...], rng: Generator) -> Tensor:
    return np.asarray(rng.random(shape, dtype=np.float32) * np.float32(2) - np.float32(1))


class _Uses:
    """The readers of each input of a graph, and the rule for its values that follows."""

    def __init__(self, graph: GraphProto, shapes: Shapes = NO_DIMS) -> None:  # type: ignore[assignment]
        self._readers = consumers(graph)
        types = graph_types(graph).items()
        self._types: dict[str, Shape | None] = {
            name: declared_shape(declared.tensor_type) for name, declared in types
        }
        self._types |= shapes

    def rule(self, name: str) -> Rule:
        """The rule for an input: that of the first of its uses that has one."""
        return next((rule for use in self._reach(name) if (rule := self._rule_of(*use)) is not None), None)

    def rule_that_fits(self, name: str, bounds: tuple[int, int] | None) -> Rule:
        """The rule for an input whose usual values a run refuses; `bounds` go before all others."""
        if bounds is not None:
            low, high = bounds
            return lambda shape, rng: rng.integers(low, high + 1, shape)
        uses = self._reach(name)
        rules = ((RULES.get((node.op_type, place)), node) for node, place in uses)
        fitting = (self._filled(rule, node) for rule, node in rules if rule is not None)
        return next(fitting, None) or self.rule(name) or (_mask if is_mask(name) else None)

    def _filled(self, rule: Fill, node: NodeProto) -> Rule:
        extent = extents(node, self._types)
        return lambda shape, rng: rule(shape, rng, extent, node)

    def _reach(self, name: str) -> list[Use]:
        """List the uses of a value and of its unchanged copies."""
        uses: list[Use] = []
        names, seen = [name], {name}
        while names:
            name = names.pop()
            for node in self._readers.get(name, ()):
                places = [place for place, read in enumerate(node.input) if read == name]
                uses += [(node, place) for place in places]
                carried = node.op_type in _CARRIERS and (0 in places or node.op_type == "Concat")
                new = [output for output in node.output if carried and output not in seen]
                seen.update(new)
                names += new
        return uses

    def _rule_of(self, node: NodeProto, place: int) -> Rule:
        use = (node.op_type, place)
        if use in _INDICES:
            # One past the largest index that is in range along every known dim of the indexed tensor
            shape = self._types.get(node.input[0]) or ()
            known = [dim for dim in shape if isinstance(dim, int) and dim > 0]
            limit = min([2, *known])
            return lambda shape, rng: rng.integers(0, limit, shape)
        if use in _DIVISORS:
            return _divisors
        if use == ("Reshape", 1):
            return _flat_shape
        if use in _AXES:
            return lambda shape, rng: np.arange(math.prod(shape)).reshape(shape)
        if use in _ONES:
            return lambda shape, rng: np.ones(shape, np.int8)
        return (lambda shape, rng: np.zeros(shape, np.int8)) if use in _ZEROS else None


def _divisors(shape: tuple[int, ...], rng: Generator) -> Tensor:
    return rng.integers(1, 1 + _FEW, shape)


def _flat_shape(shape: tuple[int, ...], rng: Generator) -> Tensor:
    """-1, 1, 1, …: what every tensor can be reshaped to."""
    flat = np.ones(shape, np.int64)
    flat[:1] = -1
    return flat


def is_mask(name: str) -> bool:
    """Whether an input is by its name a mask, whose numbers are zeros and ones."""
    return "mask" in name.lower()


def _mask(shape: tuple[int, ...], rng: Generator) -> Tensor:
    return rng.integers(0, 2, shape)
