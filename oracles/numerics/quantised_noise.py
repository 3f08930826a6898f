"""Noise of quantisation: what falls to a neighbouring step, and floats that optimisers make integers.

Before every quantisation its input moves by up to half a step; under one seed all elements together, under
one not at all, but weights of products, and floats beside integer weights, are rounded to int8 as the
kernels do (`TOGETHER`, `OF_WEIGHTS`).

onnxruntime also makes integers of floats. A product of floats and weights that come out of integers becomes
MatMulNBits, which by default (`session.qdq_matmulnbits_accuracy_level`) rounds the floats of each block to
256 steps, and takes the zero point away from the sum of a block, where large terms cancel. And it quantises
the float weights of a product between DequantizeLinear and QuantizeLinear. Both are meant.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from corpus.values import Tensor
from oracles.numerics.input_noise import EPSILON, HALF, INT8_STEP, Types, static_dims
from oracles.operators import arithmetic_of
from oracles.relation.arithmetic import Nonfinite, Rounding


def constant(name: str, value: Tensor) -> NodeProto:
    """A node that gives a constant tensor."""
    return helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(value))


def scalar(name: str, value: float, element: int) -> NodeProto:
    """A node that gives a constant of rank 0."""
    return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, element, [], [value]))


UNRANDOM_OPSET = 22
"""From here on onnxruntime lacks the operator that draws random numbers."""

MOST_DRAWN = 1 << 20
"""Elements of a constant of noise."""

_PREFIX = "crux_noise_"


@dataclass
class Drawing:
    """The random numbers of one noisy program.

    `seed` chooses them. With `draws` they are drawn here and go into the program as constants.
    """

    types: Types
    seed: int
    draws: bool = field(default=False, kw_only=True)
    _count: int = field(default=0, init=False)
    _opset: int = field(default=0, init=False)
    _raw: dict[str, str] = field(default_factory=dict, init=False)
    """The value whose type a value of ours has."""

    def _uniform(
        self, like: str, target: str, high: float, seed: int, element: int | None = None
    ) -> Iterator[NodeProto]:
        element = element or self.types[like].elem_type
        wide = element in (TensorProto.FLOAT, TensorProto.DOUBLE)
        drawn = target if wide else self._name()
        made_as = element if wide else TensorProto.FLOAT
        if self.draws or self._opset >= UNRANDOM_OPSET:
            yield from self._drawn_here(like, drawn, high, seed, made_as)
        else:
            yield self._drawn_there(like, drawn, high, seed, made_as)
        if not wide:
            yield helper.make_node("Cast", [drawn], [target], to=element)

    def _drawn_there(self, like: str, drawn: str, high: float, seed: int, made_as: int) -> NodeProto:
        return helper.make_node(
            "RandomUniformLike",
            [like],
            [drawn],
            dtype=made_as,
            low=-high,
            high=high,
            seed=float(seed * 10007 + self._count),
        )

    def _drawn_here(self, like: str, drawn: str, high: float, seed: int, made_as: int) -> Iterator[NodeProto]:
        """Yield a constant; the same noise everywhere if the shape is unknown or large."""
        rng = np.random.default_rng((seed, self._count))
        declared = self.types.get(self._raw.get(like, like))
        dims = static_dims(declared) if declared is not None else None
        dtype = np.float64 if made_as == TensorProto.DOUBLE else np.float32
        if dims is not None and math.prod(dims) <= MOST_DRAWN:
            yield constant(drawn, rng.uniform(-high, high, dims).astype(dtype))
            return
        shape = self._name()
        value = onnx.numpy_helper.from_array(np.array([high * rng.choice([-1, 1])], dtype))
        yield helper.make_node("Shape", [like], [shape])
        yield helper.make_node("ConstantOfShape", [shape], [drawn], value=value)

    def _is_float(self, name: str) -> bool:
        declared = self.types.get(self._raw.get(name, name))
        return declared is not None and declared.elem_type in EPSILON

    def _name(self) -> str:
        self._count += 1
        return f"{_PREFIX}{self._count}"


TOGETHER, OF_WEIGHTS = 5, 6
"""The seeds under which quantised values move all the same way, and weights of products are rounded to int8.

A weight that is rounded takes many values over an edge at once, and a sum of them then moves far.
"""

QUANTISED_PRODUCTS = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul"])
"""What becomes a product of integers between DequantizeLinear and QuantizeLinear."""

BLOCK_PRODUCTS = frozenset(["Gemm", "MatMul"])
"""What becomes MatMulNBits."""

DYNAMIC = frozenset(["DynamicQuantizeLSTM", "DynamicQuantizeLinear", "DynamicQuantizeMatMul"])
"""What quantises its first operand by that operand's own range."""

BLOCK = 32
"""Elements that are quantised together there."""

AXES_OPSET = 18
"""From here on the axes of ReduceMax are an input."""

INT8_LEVEL = 4
"""The level of accuracy at which MatMulNBits rounds floats to int8."""

LEAST_SIZE = 1e-4
"""A block of smaller values is not rounded to steps of its own."""

NEAR_EDGE = 0.1
"""What a quantised value moves by whose operands are the very same: kernels of integers round by tables."""

FOUR_BITS = frozenset([TensorProto.INT4, TensorProto.UINT4])


@dataclass(frozen=True, slots=True)
class Scale:
    """How a value came out of integers: the name of the scale, and the steps that the integers span."""

    name: str
    steps: float


@dataclass
class QuantisedNoise(Drawing):
    """The noise that quantisation adds to one noisy program.

    `steps` says whether values may move by steps at all, `lone` names those that do so only near the edge
    of a step; with `snaps` nothing moves by noise.
    """

    steps: bool = field(default=True, kw_only=True)
    lone: frozenset[str] = field(default=frozenset(), kw_only=True)
    snaps: float = field(default=0.0, kw_only=True)
    _weights: set[str] = field(default_factory=set, init=False)
    _scales: dict[str, Scale] = field(default_factory=dict, init=False)
    _dequantised: set[str] = field(default_factory=set, init=False)

    def _note_weights(self, node: NodeProto) -> None:
        """Note whether a node makes a constant, and whether that came out of integers."""
        is_constant = set(node.input) <= self._weights and not arithmetic_of(node).is_random
        if is_constant and all(not attribute.HasField("g") for attribute in node.attribute):
            self._weights.update(node.output)
        if node.op_type == "DequantizeLinear":
            self._dequantised.update(node.output)
        if node.op_type == "DequantizeLinear" and node.input[0] in self.types:
            steps = 16.0 if self.types[node.input[0]].elem_type in FOUR_BITS else 256.0
            self._scales[node.output[0]] = Scale(node.input[1], steps)
        elif node.input and node.input[0] in self._scales and only_moves(node):
            self._scales[node.output[0]] = self._scales[node.input[0]]

    def _before_quantised(self, node: NodeProto) -> Iterator[NodeProto]:
        if self.snaps:
            return
        if self.steps and self._becomes_blocks(node):
            yield from self._shake_blocks(node)
        if self.seed == OF_WEIGHTS:
            yield from self._round_weights(node)
        elif not self.steps:
            return
        elif node.op_type == "QuantizeLinear" and self._is_float(node.input[0]):
            yield from self._shake_quantised(node, node.input[1])
        elif node.op_type in DYNAMIC and self._is_float(node.input[0]):
            probe = [self._name() for _ in range(3)]
            yield helper.make_node("DynamicQuantizeLinear", [node.input[0]], probe)
            yield from self._shake_quantised(node, probe[1])

    def _becomes_blocks(self, node: NodeProto) -> bool:
        """Whether a product has floats beside constant weights that come out of integers."""
        if node.op_type == "MatMulNBits" and self._is_float(node.input[0]):
            return any(each.name == "accuracy_level" and each.i == INT8_LEVEL for each in node.attribute)
        if node.op_type not in BLOCK_PRODUCTS or node.domain or not self._is_float(node.input[0]):
            return False
        if node.input[0] in self._dequantised:
            return False  # beside integers on both sides no MatMulNBits is made
        return node.input[1] in self._scales and node.input[1] in self._weights

    def _shake_blocks(self, node: NodeProto) -> Iterator[NodeProto]:
        """Move the floats of a product by half a step of 256 over their block."""
        source, element = node.input[0], self.types[node.input[0]].elem_type
        dims = static_dims(self.types[source])
        if dims == () or (dims is not None and 0 in dims):
            return
        side, half, move, shift, moved = (self._name() for _ in range(5))
        greatest = yield from self._greatest_of_block(node, dims)
        node.input[0] = moved
        self._raw[moved] = source
        if self.seed == OF_WEIGHTS:
            yield from self._round_blocks(source, greatest, moved)
            return
        yield from self._side(source, side)
        yield scalar(half, INT8_STEP if self.seed % 2 else -INT8_STEP, element)
        yield helper.make_node("Mul", [side, half], [move])
        yield helper.make_node("Mul", [move, greatest], [shift])
        yield helper.make_node("Add", [source, shift], [moved])

    def _round_blocks(self, source: str, greatest: str, target: str) -> Iterator[NodeProto]:
        """Round the floats as the kernel does: where a sum decides between two, it decides as there."""
        element = self.types[source].elem_type
        least, size, steps, width, count, whole = (self._name() for _ in range(6))
        yield scalar(least, LEAST_SIZE, element)
        yield helper.make_node("Max", [greatest, least], [size])
        yield scalar(steps, 127.0, element)
        yield helper.make_node("Div", [size, steps], [width])
        yield helper.make_node("Div", [source, width], [count])
        yield helper.make_node("Round", [count], [whole])
        yield helper.make_node("Mul", [whole, width], [target])

    def _greatest_of_block(
        self, node: NodeProto, dims: tuple[int, ...] | None
    ) -> Generator[NodeProto, None, str]:
        """The greatest magnitude in each element's block, or in a row that is no whole number of blocks."""
        source, size, greatest = node.input[0], self._name(), self._name()
        yield helper.make_node("Abs", [source], [size])
        is_transposed = any(each.name == "transA" and each.i for each in node.attribute)
        if is_transposed or dims is None or dims[-1] <= BLOCK or dims[-1] % BLOCK:
            yield from self._reduce_max(size, greatest, 0 if is_transposed else -1)
            return greatest
        cut, whole, blocks, ones, wide, back = (self._name() for _ in range(6))
        yield constant(cut, np.array([-1, BLOCK], np.int64))
        yield constant(whole, np.array(dims, np.int64))
        yield helper.make_node("Reshape", [size, cut], [blocks])
        yield from self._reduce_max(blocks, greatest, 1)
        yield constant(ones, np.array([1, BLOCK], np.int64))
        yield helper.make_node("Expand", [greatest, ones], [wide])
        yield helper.make_node("Reshape", [wide, whole], [back])
        return back

    def _reduce_max(self, source: str, target: str, axis: int) -> Iterator[NodeProto]:
        if self._opset < AXES_OPSET:
            yield helper.make_node("ReduceMax", [source], [target], axes=[axis], keepdims=1)
            return
        axes = self._name()
        yield constant(axes, np.array([axis], np.int64))
        yield helper.make_node("ReduceMax", [source, axes], [target], keepdims=1)

    def _with_zero_point(self, node: NodeProto, magnitudes: str) -> Generator[NodeProto, None, str]:
        """Add to magnitudes of weights what a kernel adds and takes away again: all steps of their type."""
        if not (self.steps and self._becomes_blocks(node)) or node.input[1] not in self._scales:
            return magnitudes
        scale, element = self._scales[node.input[1]], self.types[node.input[1]].elem_type
        cast, size, greatest, count, span, more = (self._name() for _ in range(6))
        yield helper.make_node("Cast", [scale.name], [cast], to=element)
        yield helper.make_node("Abs", [cast], [size])
        yield helper.make_node("ReduceMax", [size], [greatest], keepdims=0)
        yield scalar(count, scale.steps, element)
        yield helper.make_node("Mul", [greatest, count], [span])
        yield helper.make_node("Add", [magnitudes, span], [more])
        return more

    def _shake_quantised(self, node: NodeProto, scale: str) -> Iterator[NodeProto]:
        """Move each element of the input by half a step, up or down; the next seed moves it the other way."""
        step = yield from self._broadcastable(node, scale)
        if step is None:
            return
        source, side, shift, moved = node.input[0], *(self._name() for _ in range(3))
        yield from self._side(source, side)
        half, move = self._name(), self._name()
        size = HALF if self.lone.isdisjoint(node.output) else NEAR_EDGE
        yield scalar(half, size if self.seed % 2 else -size, self.types[source].elem_type)
        yield helper.make_node("Mul", [side, half], [move])
        yield helper.make_node("Mul", [move, step], [shift])
        yield helper.make_node("Add", [source, shift], [moved])
        node.input[0] = moved

    def _round_weights(self, node: NodeProto) -> Iterator[NodeProto]:
        """Weights of a product as onnxruntime's WeightBiasQuantization makes them int8: 256 steps with 0."""
        if not self._may_become_integers(node):
            return
        weights, element = node.input[1], self.types[node.input[1]].elem_type
        zero, low, high, least, most, span, steps = (self._name() for _ in range(7))
        width, count, half, below, whole, rounded = (self._name() for _ in range(6))
        yield scalar(zero, 0.0, element)
        yield helper.make_node("ReduceMin", [weights], [low])
        yield helper.make_node("ReduceMax", [weights], [high])
        yield helper.make_node("Min", [low, zero], [least])
        yield helper.make_node("Max", [high, zero], [most])
        yield helper.make_node("Sub", [most, least], [span])
        yield scalar(steps, 255.0, element)
        yield helper.make_node("Div", [span, steps], [width])
        yield helper.make_node("Div", [weights, width], [count])
        yield scalar(half, 0.5, element)
        yield helper.make_node("Sub", [count, half], [below])
        yield helper.make_node("Ceil", [below], [whole])
        yield helper.make_node("Mul", [whole, width], [rounded])
        node.input[1] = rounded

    def _may_become_integers(self, node: NodeProto) -> bool:
        """Whether a product has float weights beside an operand that comes out of integers."""
        if node.op_type not in QUANTISED_PRODUCTS or not self._is_float(node.input[1]):
            return False
        source, weights = node.input[:2]
        return source in self._scales and weights in self._weights and weights not in self._scales

    def _of_integer_weights(self, node: NodeProto, element: int) -> float:
        """The error of a product whose float weights may become int8, in units of the last place."""
        return INT8_STEP / EPSILON[element] if self._may_become_integers(node) else 0.0

    def _side(self, source: str, side: str) -> Iterator[NodeProto]:
        """One or minus one for each element of a value, by chance, or the same for all of them."""
        if self.seed == TOGETHER:
            yield scalar(side, 1.0, self.types[source].elem_type)
            return
        noise = self._name()
        yield from self._uniform(source, noise, 1.0, (self.seed + 1) // 2)
        yield helper.make_node("Sign", [noise], [side])

    def _broadcastable(self, node: NodeProto, scale: str) -> Generator[NodeProto, None, str | None]:
        """The scale shaped so that it broadcasts along its axis; None when its place cannot be told."""
        declared, source = self.types.get(scale), self.types.get(node.input[0])
        dims = static_dims(declared) if declared is not None else ()
        if dims in ((), (1,)):
            return scale
        if dims is None or len(dims) != 1 or source is None or not source.HasField("shape"):
            return None
        rank = len(source.shape.dim)
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1) % rank
        shape = [dims[0] if i == axis else 1 for i in range(rank)]
        target, step = self._name(), self._name()
        yield constant(target, np.array(shape, np.int64))
        yield helper.make_node("Reshape", [scale, target], [step])
        return step


def only_moves(node: NodeProto) -> bool:
    """Whether a result holds the elements of the first operand: a Transpose, a Reshape, a Cast."""
    operator = arithmetic_of(node)
    moves = operator.rounding is Rounding.NOTHING and operator.nonfinite is Nonfinite.MOVED
    return len(node.output) == 1 and (moves or node.op_type == "Cast")
