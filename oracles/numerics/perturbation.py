"""A model with rounding-sized noise in its floats: what results may do when nothing is wrong.

After every node that rounds, each float output `y` becomes `y + size * noise`: `size` is its magnitude, or
after a sum that of its terms (`oracles.numerics.sums`). Before every quantisation its input moves by up to
half a step, so that a value may fall to the neighbouring one; under one seed all elements together, under one
not at all, but weights of products are rounded to int8 (`TOGETHER`, `OF_WEIGHTS`). Integer paths have no
rounding and stay as they are. Values that are not finite are replaced by several finite ones in turn: what
then changes did depend on them.

Seeds come in pairs of opposite noise, of at least half the full size at every element: whatever lies within
half the noise of a jump (Floor, Mod, a comparison …) jumps under one of the two. Noise never hits a single
point, though, that changes a result (the sign of 0, a remainder of 0, an equality). For that two more
variants *snap*: each result that rounds and lies within its noise of a round number becomes that number.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from corpus.onnx.graph import subgraphs
from oracles.numerics.constants import constant, scalar
from oracles.numerics.input_noise import (
    EPSILON,
    GREATEST,
    HALF,
    INT8_STEP,
    MOST_NOISE,
    NOISE_ULPS,
    SHORT,
    grid_factor,
    stand_ins,
)
from oracles.numerics.operators import operator_of
from oracles.numerics.operators.row import Rounding
from oracles.numerics.sums import growth, terms_of
from oracles.numerics.value_types import Types, static_dims

TOGETHER, OF_WEIGHTS = 5, 6
"""The seeds under which quantised values move all the same way, and weights of products are rounded to int8.

A weight that is rounded takes many values over an edge at once, and a sum of them then moves far.
"""

UNRANDOM_OPSET = 22
"""From here on onnxruntime lacks the operator that draws random numbers."""

MOST_DRAWN = 1 << 20
"""Elements of a constant of noise."""

QUANTISED_PRODUCTS = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul"])

_PREFIX = "crux_noise_"


@dataclass
class Perturbation:
    """One noisy variant of a model.

    `seed` chooses the noise; an even seed moves everything the other way than the odd one before it.
    `replaced` names the values to make finite. `steps` says whether quantised values move at all. With
    `snaps` results are not moved by noise, but to a grid of numbers that is coarser by this factor.
    With `draws` the noise is drawn here and goes into the program as constants. `large` names finite values
    that come near the greatest number: noise does not take them out of the range. `is_wide` says that floats
    of 16 bits are computed as float32, so that an operator rounds once, whatever it sums.
    """

    types: Types
    seed: int
    replaced: Collection[str] = ()
    steps: bool = True
    snaps: float = 0.0
    draws: bool = False
    large: Collection[str] = ()
    is_wide: bool = False
    _count: int = field(default=0, init=False)
    _opset: int = field(default=0, init=False)
    _raw: dict[str, str] = field(default_factory=dict, init=False)
    _dequantised: set[str] = field(default_factory=set, init=False)
    _weights: set[str] = field(default_factory=set, init=False)

    def apply(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Return a noisy copy; the model itself stays as it is."""
        noisy = onnx.ModelProto()
        noisy.CopyFrom(model)
        self._count = 0
        self._opset = next((each.version for each in model.opset_import if not each.domain), 0)
        self._perturb_graph(noisy.graph)
        return noisy

    def _perturb_graph(self, graph: GraphProto) -> None:
        self._weights |= {tensor.name for tensor in graph.initializer}
        self._weights |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
        self._dequantised |= {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
        nodes = [new for node in graph.node for new in self._around(node)]
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)

    def _around(self, node: NodeProto) -> Iterator[NodeProto]:
        changed = NodeProto()
        changed.CopyFrom(node)
        for body in subgraphs(changed):
            self._perturb_graph(body)
        yield from self._before(changed)
        yield from self._shake_operand(changed)
        after = [new for i in range(len(changed.output)) for new in self._after(changed, i)]
        yield changed
        yield from after

    def _before(self, node: NodeProto) -> Iterator[NodeProto]:
        if self.seed == OF_WEIGHTS:
            yield from self._round_weights(node)
        elif not self.steps or self.snaps:
            return
        elif node.op_type == "QuantizeLinear" and self._is_float(node.input[0]):
            yield from self._shake_quantised(node, node.input[1])
        elif node.op_type == "DynamicQuantizeLinear":
            probe = [self._name() for _ in range(3)]
            yield helper.make_node("DynamicQuantizeLinear", [node.input[0]], probe)
            yield from self._shake_quantised(node, probe[1])

    def _shake_quantised(self, node: NodeProto, scale: str) -> Iterator[NodeProto]:
        """Move each element of the input by half a step, up or down; the next seed moves it the other way."""
        step = yield from self._broadcastable(node, scale)
        if step is None:
            return
        source, side, shift, moved = node.input[0], *(self._name() for _ in range(3))
        yield from self._side(source, side)
        half, move = self._name(), self._name()
        yield scalar(half, HALF if self.seed % 2 else -HALF, self.types[source].elem_type)
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
        """Return whether a product has float weights beside an operand that comes out of integers."""
        is_product = node.op_type in QUANTISED_PRODUCTS and self._is_float(node.input[1])
        return is_product and node.input[1] in self._weights and node.input[0] in self._dequantised

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

    def _after(self, node: NodeProto, index: int) -> Iterator[NodeProto]:
        name = node.output[index]
        if not name or not self._is_float(name):
            return
        rounds = self._rounds(node, name)
        if name in self.replaced:
            raw = node.output[index] = self._name()
            finite = self._name() if rounds else name
            self._raw |= {raw: name, finite: name}
            yield from self._make_finite(raw, finite, self.types[name].elem_type)
            if rounds:
                yield from self._shake(node, finite, name)
        elif rounds:
            raw = node.output[index] = self._name()
            self._raw[raw] = name
            yield from self._shake(node, raw, name)

    def _rounds(self, node: NodeProto, name: str) -> bool:
        rounding = operator_of(node).rounding
        if rounding is not Rounding.NARROWING:
            return rounding is not Rounding.NOTHING
        source = self.types.get(node.input[0])
        if source is None or source.elem_type not in EPSILON:
            return False
        return EPSILON[source.elem_type] < EPSILON[self.types[name].elem_type]

    def _shake_operand(self, node: NodeProto) -> Iterator[NodeProto]:
        """Noise in what a normalisation gets: it may subtract nearly equal values."""
        sums_inside = operator_of(node).rounding in (Rounding.INSIDE, Rounding.LOGARITHM)
        if sums_inside and self._is_float(node.input[0]) and not self.snaps:
            if self._rounds_once(self.types[node.input[0]].elem_type):
                return
            source, moved = node.input[0], self._name()
            node.input[0] = moved
            yield from self._move(source, source, moved, self.types[source].elem_type, NOISE_ULPS)

    def _shake(self, node: NodeProto, source: str, target: str) -> Iterator[NodeProto]:
        """Add nodes that move one result of a node as rounding may."""
        element, ulps, size = self.types[target].elem_type, NOISE_ULPS, source
        if self._rounds_once(element):
            yield from (self._snap if self.snaps else self._move)(source, source, target, element, 1.0)
            return
        operator = operator_of(node)
        if operator.is_sum:
            ulps += growth(terms_of(node, self.types))
        ulps += self._quantised_operands(node) / EPSILON[element]
        if operator.is_sum or operator.rounding is Rounding.UNIT:
            size = yield from self._size(node, source, target)
        move = self._snap if self.snaps else self._move
        yield from move(source, size, target, element, ulps)

    def _rounds_once(self, element: int) -> bool:
        return self.is_wide and element in SHORT

    def _quantised_operands(self, node: NodeProto) -> float:
        """Return the relative error of a product with an operand that comes out of integers.

        Float weights may become int8, too.
        """
        if node.op_type == "MatMul" and node.input[1] in self._dequantised:
            return INT8_STEP
        return INT8_STEP if self._may_become_integers(node) else 0.0

    def _size(self, node: NodeProto, source: str, target: str) -> Generator[NodeProto, None, str]:
        """Compute what a sum's noise is relative to: the sum of magnitudes, or the greatest result."""
        rounding = operator_of(node).rounding
        if rounding is Rounding.TERMS:
            return (yield from self._sum_of_magnitudes(node))
        size = self._name()
        yield helper.make_node("Abs", [source], [size])
        if rounding in (Rounding.LOGARITHM, Rounding.UNIT):
            one, more = self._name(), self._name()
            yield scalar(one, 1.0, self.types[target].elem_type)
            yield helper.make_node("Add", [size, one], [more])
            return more
        dims = static_dims(self.types[target])
        if not dims or 0 in dims:
            return size
        greatest = self._name()
        yield helper.make_node("ReduceMax", [size], [greatest])
        return greatest

    def _sum_of_magnitudes(self, node: NodeProto) -> Generator[NodeProto, None, str]:
        """The same node on the magnitudes of its inputs."""
        twin, total = NodeProto(), self._name()
        twin.CopyFrom(node)
        twin.ClearField("name")
        for attribute in twin.attribute:
            if attribute.HasField("f"):
                attribute.f = abs(attribute.f)
        for index, name in enumerate(node.input):
            if self._is_float(name):
                twin.input[index] = self._name()
                yield helper.make_node("Abs", [name], [twin.input[index]])
        del twin.output[:]
        twin.output.append(total)
        yield twin
        return total

    def _move(self, source: str, size: str, target: str, element: int, ulps: float) -> Iterator[NodeProto]:
        """`source + size * noise`, minus that under an even seed; the noise is half of its bound or more."""
        bound = min(ulps * EPSILON[element], MOST_NOISE)
        drawn, side, half, least, noise, shift = (self._name() for _ in range(6))
        yield from self._uniform(source, drawn, bound / 2, (self.seed + 1) // 2, element)
        yield helper.make_node("Sign", [drawn], [side])
        yield scalar(half, bound / 2, element)
        yield helper.make_node("Mul", [side, half], [least])
        yield helper.make_node("Add", [drawn, least], [noise])
        operator = "Add" if self.seed % 2 else "Sub"
        if source not in self.large and target not in self.large:
            yield helper.make_node("Mul", [size, noise], [shift])
            yield helper.make_node(operator, [source, shift], [target])
            return
        held, held_size, moved = (self._name() for _ in range(3))
        yield from self._hold(source, held, element, bound)
        yield from self._hold(size, held_size, element, bound)
        yield helper.make_node("Mul", [held_size, noise], [shift])
        yield helper.make_node(operator, [held, shift], [moved])
        yield from self._hold(moved, target, element, bound)

    def _hold(self, source: str, target: str, element: int, bound: float) -> Iterator[NodeProto]:
        """Keep a value so far within the range of its type that noise leaves it there."""
        low, high, below = (self._name() for _ in range(3))
        most = GREATEST[element] * (1 - 2 * bound)
        yield scalar(low, -most, element)
        yield scalar(high, most, element)
        yield helper.make_node("Min", [source, high], [below])
        yield helper.make_node("Max", [below, low], [target])

    def _snap(self, source: str, size: str, target: str, element: int, ulps: float) -> Iterator[NodeProto]:
        """`source` on a grid of powers of two, to which adding and taking away a large number rounds.

        Only what lies within the noise of the grid moves there.
        """
        factor, bound, magnitude, large, sum_, snapped = (self._name() for _ in range(6))
        shift, distance, most, is_near = (self._name() for _ in range(4))
        yield scalar(factor, grid_factor(ulps, element, self.snaps), element)
        yield scalar(bound, min(ulps * EPSILON[element], MOST_NOISE), element)
        yield helper.make_node("Abs", [size], [magnitude])
        yield helper.make_node("Mul", [magnitude, factor], [large])
        yield helper.make_node("Add", [source, large], [sum_])
        yield helper.make_node("Sub", [sum_, large], [snapped])
        yield helper.make_node("Sub", [snapped, source], [shift])
        yield helper.make_node("Abs", [shift], [distance])
        yield helper.make_node("Mul", [magnitude, bound], [most])
        yield helper.make_node("LessOrEqual", [distance, most], [is_near])
        yield helper.make_node("Where", [is_near, snapped, source], [target])

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

    def _make_finite(self, source: str, target: str, element: int) -> Iterator[NodeProto]:
        """Infinities become huge, NaNs one finite value; both differ from seed to seed."""
        low, high, nan, above, bounded, size, mask = (self._name() for _ in range(7))
        huge, standing = stand_ins(self.seed, element)
        yield scalar(low, -huge, element)
        yield scalar(high, huge, element)
        yield scalar(nan, standing, element)
        yield helper.make_node("Min", [source, high], [above])
        yield helper.make_node("Max", [above, low], [bounded])
        yield helper.make_node("Abs", [bounded], [size])
        limit = self._name()
        yield scalar(limit, huge * 1.01, element)
        yield helper.make_node("Less", [size, limit], [mask])
        yield helper.make_node("Where", [mask, bounded, nan], [target])

    def _is_float(self, name: str) -> bool:
        return name in self.types and self.types[name].elem_type in EPSILON

    def _name(self) -> str:
        self._count += 1
        return f"{_PREFIX}{self._count}"
