"""A model with rounding-sized noise in its floats: what results may do when nothing is wrong.

After every node that rounds, each float output `y` becomes `y + size * noise`: `size` is its magnitude, or
after a sum that of its terms. Before every quantisation its input moves by up to half a step, so that a value
may fall to the neighbouring one (`oracles.numerics.quantised_noise`). Integer paths do not round and stay.
Values that are not finite are replaced by several finite ones in
turn: what then changes did depend on them.

Seeds come in pairs of opposite noise, of at least half the full size at every element: whatever lies within
half the noise of a jump (Floor, Mod, a comparison …) jumps under one of the two. Noise never hits a single
point, though, that changes a result (the sign of 0, a remainder of 0, an equality). For that two more
variants *snap*: each result that rounds and lies within its noise of a round number becomes that number.

Kernels add the same terms in different orders, in blocks or with fused multiply-adds. The error of each order
is relative to the sum of the *magnitudes* of the terms, which cancellation leaves far above the result, and
grows with their number K: at worst as K, as a rule as its square root (Higham, Accuracy and Stability of
Numerical Algorithms, 4.2).
"""

import math
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, helper

from corpus.onnx.graph import subgraphs
from corpus.values import Tensor, Value, widen
from oracles.numerics.compare import epsilon
from oracles.numerics.input_noise import (
    EPSILON,
    GREATEST,
    MOST_NOISE,
    NOISE_ULPS,
    SHORT,
    Types,
    element_of,
    grid_factor,
    stand_ins,
    static_dims,
)
from oracles.numerics.quantised_noise import QuantisedNoise, scalar
from oracles.operators import arithmetic_of
from oracles.relation.arithmetic import UNKNOWN_TERMS, Dims, Rounding, of_largest


def growth(terms: int) -> float:
    """The error of a sum of `terms` terms, in units of the last place of the sum of their magnitudes."""
    return min(float(terms), 8.0 * math.sqrt(terms))


def terms_of(node: NodeProto, types: Types) -> int:
    """Count the terms in one element of the result; `UNKNOWN_TERMS` if dims or inputs are missing."""
    dims = [_dims(types, name) for name in node.input]
    count = arithmetic_of(node).terms or of_largest
    try:
        return max(1, count(node, dims))
    except (IndexError, TypeError):
        return UNKNOWN_TERMS


def has_rounded_default(node: NodeProto, opset: int) -> bool:
    """Whether an attribute is left out whose default float32 does not hold, such as 0.01.

    ONNX writes a decimal number and keeps a float32: a program in float64 may take either.
    """
    if node.domain or not onnx.defs.has(node.op_type, opset):
        return False
    given = {attribute.name for attribute in node.attribute}
    attributes = onnx.defs.get_schema(node.op_type, opset).attributes
    defaults = [each.default_value for name, each in attributes.items() if name not in given]
    return any(float(str(np.float32(each.f))) != each.f for each in defaults if each.HasField("f"))


def _dims(types: Types, name: str) -> Dims | None:
    return static_dims(types[name]) if name in types else None


@dataclass
class Perturbation(QuantisedNoise):
    """One noisy variant of a model.

    `seed` chooses the noise; an even seed moves everything the other way than the odd one before it.
    `replaced` names the values to make finite. `steps` says whether quantised values move at all. With
    `snaps` results are not moved by noise, but to a grid of numbers that is coarser by this factor.
    `exact` names results that no rounding enters (`oracles.numerics.perturbation`).
    With `draws` the noise is drawn here and goes into the program as constants. `large` names finite values
    that come near the greatest number: noise does not take them out of the range. `is_wide` says that floats
    of 16 bits are computed as float32, so that an operator rounds once, whatever it sums.
    """

    replaced: Collection[str] = field(default=(), kw_only=True)
    exact: Collection[str] = field(default=(), kw_only=True)
    large: Collection[str] = field(default=(), kw_only=True)
    is_wide: bool = field(default=False, kw_only=True)

    def apply(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A noisy copy; the model itself stays as it is."""
        noisy = deepcopy(model)
        self._count = 0
        self._opset = next((each.version for each in model.opset_import if not each.domain), 0)
        self._perturb_graph(noisy.graph)
        return noisy

    def _perturb_graph(self, graph: GraphProto) -> None:
        self._weights |= {tensor.name for tensor in graph.initializer}
        for node in graph.node:
            self._note_weights(node)
        nodes = [new for node in graph.node for new in self._around(node)]
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)

    def _around(self, node: NodeProto) -> Iterator[NodeProto]:
        changed = deepcopy(node)
        for body in subgraphs(changed):
            self._perturb_graph(body)
        yield from self._before_quantised(changed)
        yield from self._shake_operand(changed)
        after = [new for i in range(len(changed.output)) for new in self._after(changed, i)]
        yield changed
        yield from after

    def _after(self, node: NodeProto, index: int) -> Iterator[NodeProto]:
        name = node.output[index]
        if not name or not self._is_float(name):
            return
        rounds = self._rounds(node, name)
        if name in self.replaced:
            raw = node.output[index] = self._name()
            finite = self._name() if rounds else name
            self._raw |= {raw: name, finite: name}
            yield from self._finite(raw, finite, self.types[name].elem_type)
            if rounds:
                yield from self._shake(node, finite, name)
        elif rounds:
            raw = node.output[index] = self._name()
            self._raw[raw] = name
            yield from self._shake(node, raw, name)

    def _rounds(self, node: NodeProto, name: str) -> bool:
        rounding = arithmetic_of(node).rounding
        if name in self.exact:
            return False
        if rounding is not Rounding.NARROWING:
            return rounding is not Rounding.NOTHING
        source = self.types.get(node.input[0])
        if source is None or source.elem_type not in EPSILON:
            return False
        return EPSILON[source.elem_type] < EPSILON[self.types[name].elem_type]

    def _shake_operand(self, node: NodeProto) -> Iterator[NodeProto]:
        """Noise in what a normalisation gets: it may subtract nearly equal values."""
        sums_inside = arithmetic_of(node).rounding in (Rounding.INSIDE, Rounding.LOGARITHM)
        if sums_inside and self._is_float(node.input[0]) and not self.snaps:
            if self._rounds_once(self.types[node.input[0]].elem_type):
                return
            source, moved = node.input[0], self._name()
            node.input[0] = moved
            yield from self._displace(source, source, moved, self.types[source].elem_type, NOISE_ULPS)

    def _shake(self, node: NodeProto, source: str, target: str) -> Iterator[NodeProto]:
        """Add nodes that move one result of a node as rounding may."""
        element, ulps, size = self.types[target].elem_type, NOISE_ULPS, source
        if self._rounds_once(element):
            yield from self._displace(source, source, target, element, 1.0)
            return
        operator = arithmetic_of(node)
        if operator.is_sum:
            ulps += growth(terms_of(node, self.types))
        ulps += self._of_integer_weights(node, element)
        if element == TensorProto.DOUBLE and has_rounded_default(node, self._opset):
            ulps += EPSILON[TensorProto.FLOAT] / EPSILON[element]
        if operator.is_sum or operator.rounding is Rounding.UNIT:
            size = yield from self._size(node, source, target)
        yield from self._displace(source, size, target, element, ulps)

    def _displace(
        self, source: str, size: str, target: str, element: int, ulps: float
    ) -> Iterator[NodeProto]:
        """Move or snap a value; one of bfloat16 as float32, for which alone backends have arithmetic."""
        move = self._snap if self.snaps else self._move
        if element != TensorProto.BFLOAT16:
            yield from move(source, size, target, element, ulps)
            return
        wide, wide_size = (yield from self._widened(source)), (yield from self._widened(size))
        moved = self._name()
        yield from move(
            wide, wide_size, moved, TensorProto.FLOAT, ulps * EPSILON[element] / EPSILON[TensorProto.FLOAT]
        )
        yield helper.make_node("Cast", [moved], [target], to=element)

    def _widened(self, source: str) -> Generator[NodeProto, None, str]:
        """The value as float32."""
        wide = self._name()
        self._raw[wide] = self._raw.get(source, source)
        yield helper.make_node("Cast", [source], [wide], to=TensorProto.FLOAT)
        return wide

    def _rounds_once(self, element: int) -> bool:
        return self.is_wide and element in SHORT

    def _size(self, node: NodeProto, source: str, target: str) -> Generator[NodeProto, None, str]:
        """Compute what a sum's noise is relative to: the sum of magnitudes, or the greatest result."""
        rounding = arithmetic_of(node).rounding
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
                magnitudes = self._name()
                yield helper.make_node("Abs", [name], [magnitudes])
                if index == 1:
                    magnitudes = yield from self._with_zero_point(node, magnitudes)
                twin.input[index] = magnitudes
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

    def _finite(self, source: str, target: str, element: int) -> Iterator[NodeProto]:
        if element != TensorProto.BFLOAT16:
            yield from self._make_finite(source, target, element)
            return
        wide, moved = (yield from self._widened(source)), self._name()
        yield from self._make_finite(wide, moved, TensorProto.FLOAT)
        yield helper.make_node("Cast", [moved], [target], to=element)

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


Wide = NDArray[np.float64]

HEAD = 64
"""Elements of an operand that are looked at before all are."""


def exact_results(nodes: Iterable[NodeProto], types: Types, values: Mapping[str, Value]) -> frozenset[str]:
    """The names of such results, by the values that were recorded."""
    return frozenset(node.output[0] for node in nodes if node.output and _is_exact(node, types, values))


def _is_exact(node: NodeProto, types: Types, values: Mapping[str, Value]) -> bool:
    row = arithmetic_of(node)
    if not (row.keeps_whole or row.scales):
        return False
    names = [node.output[0], *filter(None, node.input)]
    arrays = [value for value in map(values.get, names) if isinstance(value, np.ndarray)]
    floats = [value for value in arrays if element_of(value.dtype) is not None]
    if len(floats) < len(names):
        return False
    result, *operands = floats
    if not _may_be_exact(operands):
        return False
    wide = [_wide(operand) for operand in operands]
    if row.scales and _is_scaled(node.op_type, wide, _wide(result)):
        return True
    return row.keeps_whole and _is_whole(node, wide, terms_of(node, types), 2 / epsilon(result.dtype))


def _may_be_exact(operands: Iterable[Tensor]) -> bool:
    """Whether the first elements are whole, or all those of an operand powers of two."""
    heads = [_wide(operand.reshape(-1)[:HEAD]) for operand in operands]
    return all(map(_are_whole, heads)) or any(map(_are_scales, heads))


def _is_whole(node: NodeProto, operands: Iterable[Wide], terms: int, limit: float) -> bool:
    """Whether all numbers are whole, and no sum of so many products of them passes the limit."""
    factors = [each.f for each in node.attribute if each.HasField("f")]
    if not all(factor.is_integer() for factor in factors) or not all(map(_are_whole, operands)):
        return False
    greatest = [float(np.abs(operand).max(initial=0.0)) for operand in operands]
    count = terms if arithmetic_of(node).is_sum else 2
    return count * math.prod(max(1.0, abs(each)) for each in (*greatest, *factors)) <= limit


def _is_scaled(operator: str, operands: Sequence[Wide], result: Wide) -> bool:
    """Whether a factor or the divisor is all powers of two or 0, and nothing is lost at the type's ends."""
    left, right = operands
    with np.errstate(all="ignore"):
        true = left / right if operator == "Div" else left * right
    scales = _are_scales(right) or (operator == "Mul" and _are_scales(left))
    return scales and np.array_equal(true, result)


def _are_scales(operand: Wide) -> bool:
    return bool(np.isin(np.abs(np.frexp(operand)[0]), (0.0, 0.5)).all())


def _are_whole(operand: Wide) -> bool:
    return bool((operand == np.rint(operand)).all() and np.isfinite(operand).all())


def _wide(value: Tensor) -> Wide:
    return widen(value).astype(np.float64)
