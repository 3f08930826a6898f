"""A model with rounding-sized noise in its floats: what results may do when nothing is wrong.

After every node that rounds, each float output `y` becomes `y + y * noise`; before every quantisation its
input moves by up to half a step, so that a value may fall to the neighbouring one. Integer paths have no
rounding and stay as they are. Values that are not finite are replaced by several finite ones in turn: what
then changes did depend on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from corpus.onnx_graph import subgraphs
from corpus.values import Value
from oracles.compare import is_float, widen
from oracles.value_types import Types, static_dims

NOISE_ULPS = 8.0
EPSILON = {
    TensorProto.FLOAT: 2.0**-23,
    TensorProto.DOUBLE: 2.0**-52,
    TensorProto.FLOAT16: 2.0**-10,
    TensorProto.BFLOAT16: 2.0**-7,
}
HUGE = {
    TensorProto.FLOAT: 1e30,
    TensorProto.DOUBLE: 1e300,
    TensorProto.FLOAT16: 6e4,
    TensorProto.BFLOAT16: 1e30,
}
EXACT = frozenset(
    "Abs Ceil Clip Compress Concat ConcatFromSequence Constant ConstantOfShape DepthToSpace Dropout Expand Eye"
    " EyeLike Flatten Floor Gather GatherElements GatherND Identity If Loop Max MaxPool MaxRoiPool MaxUnpool Min"
    " Neg NonZero OneHot Optional OptionalGetElement Pad Range ReduceMax ReduceMin Relu Reshape ReverseSequence"
    " Round Scan ScatterElements ScatterND SequenceAt Sign Size Slice SpaceToDepth Split Squeeze Tile TopK"
    " GlobalMaxPool Transpose Trilu Unsqueeze Upsample Where Shape Cast CastLike".split()
)
"""Operators that give back values of their inputs, or whole numbers: nothing to round."""

RANDOM = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)


@dataclass
class Perturbation:
    """One noisy variant of a model; `seed` chooses the noise, `replaced` names the values to make finite."""

    types: Types
    seed: int
    replaced: Collection[str] = ()

    def apply(self, model: onnx.ModelProto) -> onnx.ModelProto:
        noisy = onnx.ModelProto()
        noisy.CopyFrom(model)
        self._count = 0
        self._scope = "crux_noise"
        self._perturb_graph(noisy.graph)
        return noisy

    def _perturb_graph(self, graph: GraphProto) -> None:
        nodes = [new for node in graph.node for new in self._around(node)]
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)

    def _around(self, node: NodeProto) -> Iterator[NodeProto]:
        changed = NodeProto()
        changed.CopyFrom(node)
        for body in subgraphs(changed):
            self._perturb_graph(body)
        yield from self._before(changed)
        after = [new for i in range(len(changed.output)) for new in self._after(changed, i)]
        yield changed
        yield from after

    def _before(self, node: NodeProto) -> Iterator[NodeProto]:
        if node.op_type == "QuantizeLinear" and self._is_float(node.input[0]):
            yield from self._shake_quantised(node, node.input[1])
        elif node.op_type == "DynamicQuantizeLinear":
            probe = [self._name() for _ in range(3)]
            yield helper.make_node("DynamicQuantizeLinear", [node.input[0]], probe)
            yield from self._shake_quantised(node, probe[1])

    def _shake_quantised(self, node: NodeProto, scale: str) -> Iterator[NodeProto]:
        """Move the input by up to half a step."""
        step = yield from self._broadcastable(node, scale)
        if step is None:
            return
        source, noise, shift, moved = node.input[0], self._name(), self._name(), self._name()
        yield from self._uniform(source, noise, 0.5)
        yield helper.make_node("Mul", [noise, step], [shift])
        yield helper.make_node("Add", [source, shift], [moved])
        node.input[0] = moved

    def _broadcastable(self, node: NodeProto, scale: str):
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
        rounds = node.op_type not in EXACT
        if name in self.replaced:
            raw = node.output[index] = self._name()
            finite = self._name() if rounds else name
            yield from self._make_finite(raw, finite, self.types[name].elem_type)
            if rounds:
                yield from self._multiply(finite, name, self.types[name].elem_type)
        elif rounds:
            raw = node.output[index] = self._name()
            yield from self._multiply(raw, name, self.types[name].elem_type)

    def _multiply(self, source: str, target: str, element: int) -> Iterator[NodeProto]:
        noise, shift = self._name(), self._name()
        yield from self._uniform(source, noise, NOISE_ULPS * EPSILON[element], element)
        yield helper.make_node("Mul", [source, noise], [shift])
        yield helper.make_node("Add", [source, shift], [target])

    def _uniform(
        self, like: str, target: str, high: float, element: int | None = None
    ) -> Iterator[NodeProto]:
        element = element or self.types[like].elem_type
        wide = element in (TensorProto.FLOAT, TensorProto.DOUBLE)
        drawn = target if wide else self._name()
        made_as = element if wide else TensorProto.FLOAT
        seed = float(self.seed * 10007 + self._count)
        yield helper.make_node(
            "RandomUniformLike", [like], [drawn], low=-high, high=high, seed=seed, dtype=made_as
        )
        if not wide:
            yield helper.make_node("Cast", [drawn], [target], to=element)

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
        return f"{self._scope}_{self._count}"


def stand_ins(seed: int, element: int) -> tuple[float, float]:
    """What stands for an infinity and for a NaN under a seed."""
    huge = HUGE[element] * (1.0 - 0.5 * (seed % 2))
    return huge, (0.0, huge, -huge, 1.0)[seed % 4]


def constant(name: str, value: np.ndarray) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(value))


def scalar(name: str, value: float, element: int) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, element, [], [value]))


def perturb_inputs(inputs: Mapping[str, Value], seed: int) -> dict[str, Value]:
    """The inputs with noise of the same size, and finite."""
    rng = np.random.default_rng(seed)
    return {name: _perturb_value(value, rng, seed) for name, value in inputs.items()}


def _perturb_value(value: Value, rng: np.random.Generator, seed: int) -> Value:
    if isinstance(value, list):
        return [_perturb_tensor(item, rng, seed) for item in value]
    return None if value is None else _perturb_tensor(value, rng, seed)


def _perturb_tensor(value, rng, seed):
    if value.dtype.kind == "c" or not is_float(value):
        return value
    element = _ELEMENTS.get(value.dtype)
    if element is None:
        return value
    wide = widen(value).astype(np.float64)
    huge, standing = stand_ins(seed, element)
    wide = np.where(np.isnan(wide), standing, np.clip(wide, -huge, huge))
    noise = rng.uniform(-1, 1, wide.shape) * NOISE_ULPS * EPSILON[element]
    return (wide * (1 + noise)).astype(value.dtype)


_ELEMENTS = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16,
}
