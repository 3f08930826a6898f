"""Checks for results that the specifications of ONNX and torch leave open, one function a reason.

Each gets a node and the values of its inputs, and says whether two implementations may differ on them and
both be right.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from corpus.onnx.types import DTYPES
from corpus.values import Tensor, Value, is_float, widen
from oracles.relation.arithmetic import Dims, OpenCheck
from oracles.relation.operator import Inverse, Operator, Recogniser, Sampler
from oracles.relation.program import MAX_ELEMENTS, MAX_RANK, Attribute, Call, Operand, Scope
from oracles.relation.types import ANYTHING, BOOL, DType, Range, Shape, TensorType

EXACT_INTEGERS = 1 << 53
"""Beyond this a float64 does not tell neighbouring integers apart."""


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """An attribute of a node, or the default."""
    found = (helper.get_attribute_value(each) for each in node.attribute if each.name == name)
    return next(found, default)


def operand(operands: Sequence[Value], index: int) -> Tensor | None:
    """A tensor among the operands; None for anything else."""
    value = operands[index] if index < len(operands) else None
    return value if isinstance(value, np.ndarray) else None


def is_out_of_range(node: NodeProto, operands: Sequence[Value]) -> bool:
    """A float that the integers of the target type do not hold."""
    source, like = operand(operands, 0), operand(operands, 1)
    named = attribute(node, "to", attribute(node, "dtype", TensorProto.FLOAT))
    target = like.dtype if like is not None else DTYPES.get(named)
    return source is not None and target is not None and is_beyond(source, target)


def is_beyond(source: Tensor, target: np.dtype[Any]) -> bool:
    """Whether some of these floats do not fit into the integers of a type."""
    if target.kind not in "iu" or not is_float(source) or source.dtype.kind == "c":
        return False
    limits = np.iinfo(target)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(widen(source).astype(np.float64))
        return not bool(((whole >= limits.min) & (whole < float(limits.max) + 1)).all())


def is_inexact(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Integers that go through a float on the way."""
    source = operand(operands, 0)
    if source is None or source.dtype.kind not in "iu" or source.dtype.itemsize < 8:
        return False
    return bool(((source >= EXACT_INTEGERS) | (source <= -EXACT_INTEGERS)).any())


def shifts_too_far(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether a shift is by as many bits as there are, or more."""
    source, shift = operand(operands, 0), operand(operands, 1)
    return source is not None and shift is not None and bool((shift >= 8 * source.dtype.itemsize).any())


def has_negative_exponent(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether an integer is raised to a negative power."""
    base, exponent = operand(operands, 0), operand(operands, 1)
    if base is None or exponent is None or base.dtype.kind not in "iu":
        return False
    return bool((widen(exponent).astype(np.float64) < 0).any())


def writes_twice(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether two updates go to one place."""
    data, indices = operand(operands, 0), operand(operands, 1)
    if data is None or indices is None or attribute(node, "reduction", b"none") != b"none":
        return False
    places = _element_places if node.op_type in ("Scatter", "ScatterElements") else _slice_places
    found = places(node, data, indices)
    return len(np.unique(found, axis=0)) < len(found)


def _element_places(node: NodeProto, data: Tensor, indices: Tensor) -> Tensor:
    axis = attribute(node, "axis", 0) % data.ndim
    places = np.indices(indices.shape)
    places[axis] = indices % data.shape[axis]
    return places.reshape(data.ndim, -1).T


def _slice_places(node: NodeProto, data: Tensor, indices: Tensor) -> Tensor:
    rows = indices.reshape(-1, indices.shape[-1])
    return np.asarray(rows % np.array(data.shape[: rows.shape[1]], dtype=np.int64))


def is_unsorted(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether the order of the results is left open."""
    return not attribute(node, "sorted", 1)


def ranks_nan(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether NaN is among what an operator ranks: nobody says whether it is less or more than a number."""
    data = operand(operands, 0)
    return data is not None and bool(np.isnan(widen(data)).any())


def takes_maximum(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Check for a maximum of weighted corners or of interpolated samples: the text leaves it open."""
    return bool(attribute(node, "mode", b"avg") == b"max")


def has_no_range(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The formula gives a scale of zero, infinity or NaN here, so the quotient is not defined."""
    source = operand(operands, 0)
    if source is None:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        span = source.max(initial=0) - source.min(initial=0)
    return not 0 < span < math.inf


def overflows(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The least integer has no positive counterpart, and a product may have no place."""
    pair = [each for each in (operand(operands, 0), operand(operands, 1)) if each is not None and each.size]
    if len(pair) < 2 or any(each.dtype.kind not in "iu" for each in pair):
        return False
    largest = [max(abs(int(each.min())), abs(int(each.max()))) for each in pair]
    return (math.prod(largest) if node.op_type == "lcm" else max(largest)) > np.iinfo(pair[0].dtype).max


def divides_least(node: NodeProto, operands: Sequence[Value]) -> bool:
    """The least integer by -1: the quotient has no place in its type."""
    left, right = operand(operands, 0), operand(operands, 1)
    if left is None or right is None or left.dtype.kind != "i" or right.dtype.kind != "i":
        return False
    return bool((left == np.iinfo(left.dtype).min).any() and (right == -1).any())


def shifts_backwards(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether a shift is too far or by a negative number."""
    shift = operand(operands, 1)
    return shifts_too_far(node, operands) or (shift is not None and bool((shift < 0).any()))


def is_unordered(place: int) -> OpenCheck:
    """Whether what must be in order, the operand at this place, is not."""

    def check(node: NodeProto, operands: Sequence[Value]) -> bool:
        found = operand(operands, place)
        return found is not None and not bool((widen(found)[1:] >= widen(found)[:-1]).all())

    return check


def has_sequences(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether there are sequences side by side: nobody says which of them are quantised by one range."""
    data = operand(operands, 0)
    return data is not None and data.ndim > 1 and data.shape[1] > 1


def exceeds_input(node: NodeProto, operands: Sequence[Value]) -> bool:
    """Whether a window is larger than the padded input: the formula gives no result, onnx's inference one."""
    data, kernel = operand(operands, 0), attribute(node, "kernel_shape", ())
    if data is None or data.ndim != len(kernel) + 2 or attribute(node, "auto_pad", b"NOTSET") != b"NOTSET":
        return False
    rank = len(kernel)
    pads, dilations = attribute(node, "pads", [0] * 2 * rank), attribute(node, "dilations", [1] * rank)
    return any(
        dilations[axis] * (kernel[axis] - 1) + 1 > data.shape[axis + 2] + pads[axis] + pads[axis + rank]
        for axis in range(rank)
    )


def selects_beyond(node: NodeProto, dims: Sequence[Dims | None]) -> bool:
    """Whether a condition is longer than what it selects from."""
    data, condition = dims
    if data is None or condition is None:
        return False
    axis = attribute(node, "axis", None)
    return math.prod(condition) > (math.prod(data) if axis is None else data[axis])


def widens(node: NodeProto, dims: Sequence[Dims | None]) -> bool:
    """Whether the second input does not broadcast to the first."""
    return _is_wider(dims[1], dims[0])


def scales_more(node: NodeProto, dims: Sequence[Dims | None]) -> bool:
    """Whether a scale does not broadcast to the dims that are normalised."""
    data = dims[0]
    return data is not None and _is_wider(dims[1], data[attribute(node, "axis", -1) :])


def _is_wider(small: Dims | None, large: Dims | None) -> bool:
    if small is None or large is None:
        return False
    pairs = zip(small[::-1], large[::-1], strict=False)
    return len(small) > len(large) or any(dim not in (1, whole) for dim, whole in pairs)


WINDOW = {"a window larger than the padded input": exceeds_input}
TWICE = {"writes to one place twice": writes_twice}
INEXACT = {"integers that a float64 does not hold": is_inexact}
LEAST = {"the least integer by -1": divides_least}


Within = Callable[[DType], Range]
Attributes = Callable[[Scope, DType], Mapping[str, Attribute]]


def volume(shape: Shape) -> int:
    """Count the elements against the budget; an empty dim counts as one."""
    return math.prod(max(dim, 1) for dim in shape)


def another_dim(scope: Scope, shape: Shape, least: int = 1) -> int:
    """A dim that may be added to a shape without leaving the budget; `least` where none of the usual fits."""
    room = MAX_ELEMENTS // volume(shape)
    dim = scope.dim()
    return dim if least <= dim <= room else least


def part_of(scope: Scope, shape: Shape) -> Shape:
    """A shape that broadcasts to this one."""
    draws = scope.draws
    if draws.chance(0.35):
        return shape
    dims = tuple(dim if draws.chance(0.6) else 1 for dim in shape)
    return dims[draws.between(0, len(dims)) :] if draws.chance(0.4) else dims


def gives_dtype(operator: Operator, wanted: TensorType, opset: int) -> bool:
    """Whether results can have the wanted element type."""
    return wanted.dtype in operator.dtypes_at(opset)


def is_filled(shape: Shape) -> bool:
    """Whether there are elements."""
    return 0 not in shape


def filled(first: int = 0, within: Range | None = None) -> Inverse:
    """Invert operators that keep the focus's type but take no empty dim from axis `first` on."""

    def recognise(operator: Operator, wanted: TensorType, opset: int) -> bool:
        _, shape = wanted
        return operator.takes(wanted.dtype, len(shape), opset) and is_filled(shape[first:])

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
        return operator.sample(scope, scope.supply(*wanted, within or operator.domain))

    return Inverse(recognise, solve)


def when(check: Callable[[Shape], bool]) -> Inverse:
    """Invert operators whose result has the type of the focus: their sampler takes all of these shapes."""

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
        return operator.sample(scope, scope.supply(*wanted, operator.domain))

    return Inverse(recogniser(check), solve)


def retyped(dtypes: tuple[DType, ...], *, takes_empty: bool = True, sample: Sampler | None = None) -> Inverse:
    """Invert operators that keep the focus's shape and give one of these element types, whatever it has."""

    def recognise(operator: Operator, wanted: TensorType, opset: int) -> bool:
        shape = wanted.shape
        return wanted.dtype in dtypes and len(shape) in operator.ranks and (takes_empty or is_filled(shape))

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
        dtype = scope.draws.pick(operator.types_in(scope))
        return (sample or operator.sample)(scope, scope.supply(dtype, wanted.shape, operator.domain))

    return Inverse(recognise, solve)


def _anything(dtype: DType) -> Range:
    return ANYTHING


def _none(scope: Scope, dtype: DType) -> Mapping[str, Attribute]:
    return {}


def broadcasting(
    *, truth: bool = False, second: Within = _anything, attributes: Attributes = _none
) -> Inverse:
    """Invert elementwise operators of two operands: one has the wanted shape, the other broadcasts to it."""

    def recognise(operator: Operator, wanted: TensorType, opset: int) -> bool:
        return wanted.dtype is BOOL if truth else gives_dtype(operator, wanted, opset)

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
        draws = scope.draws
        dtype = draws.pick(operator.types_in(scope)) if truth else wanted.dtype
        shapes = [wanted.shape, part_of(scope, wanted.shape)]
        if draws.chance(0.4):
            shapes.reverse()
        left = scope.supply(dtype, shapes[0])
        return Call((left, scope.supply(dtype, shapes[1], second(dtype))), attributes(scope, dtype))

    return Inverse(recognise, solve)


def _solve_several(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shapes = [part_of(scope, wanted.shape) for _ in range(scope.draws.pick((0, 1, 1, 1, 2, 3)))]
    shapes.insert(scope.draws.between(0, len(shapes)), wanted.shape)
    return Call(tuple(scope.supply(wanted.dtype, shape) for shape in shapes))


SEVERAL = Inverse(gives_dtype, _solve_several)
"""Of elementwise operators with any number of operands."""


def axes_back(scope: Scope, shape: Shape, most: int = 2) -> tuple[Shape, tuple[int, ...], bool] | None:
    """A shape that a reduction brings to this one, the axes it goes over, and whether it keeps the dims."""
    draws = scope.draws
    ones = [axis for axis, dim in enumerate(shape) if dim == 1]
    if ones and (len(shape) >= MAX_RANK or draws.chance(0.5)):
        axes = draws.sample(ones, draws.between(1, min(most, len(ones))))
        dims = list(shape)
        for axis in axes:
            dims[axis] = another_dim(scope, tuple(dims))
        return tuple(dims), tuple(axes), True
    if len(shape) >= MAX_RANK:
        return None
    added = draws.between(1, min(most, MAX_RANK - len(shape)))
    axes = sorted(draws.sample(range(len(shape) + added), added))
    dims = list(shape)
    for axis in axes:
        dims.insert(axis, another_dim(scope, tuple(dims)))
    return tuple(dims), tuple(axes), False


def from_either_end(scope: Scope, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The axes, some counted from the end."""
    return tuple(axis - rank if scope.draws.chance(0.3) else axis for axis in axes)


def can_be_reduced(shape: Shape) -> bool:
    """Whether a result of that shape can come of a reduction."""
    return len(shape) < MAX_RANK or 1 in shape


def split_off(shape: Shape, axis: int, dim: int) -> Shape:
    """The shape with another dim at an axis."""
    return (*shape[:axis], dim, *shape[axis + 1 :])


def room_beside(shape: Shape, axis: int, least: int) -> int:
    """The largest dim that the axis may have within the budget; at least `least`."""
    return max(least, MAX_ELEMENTS // volume(split_off(shape, axis, 1)))


def fits(*shapes: Shape) -> bool:
    """Whether no shape has more elements than programs may hold."""
    return all(volume(shape) <= MAX_ELEMENTS for shape in shapes)


def recogniser(check: Callable[[Shape], bool], *dtypes: DType) -> Recogniser:
    """Make a recogniser from a check of the shape, and these element types or else those of the focus."""

    def recognise(operator: Operator, wanted: TensorType, opset: int) -> bool:
        known = dtypes or operator.dtypes_at(opset)
        return wanted.dtype in known and check(wanted.shape)

    return recognise


def with_supplied(scope: Scope, wanted: TensorType, shape: Shape, *others: Operand | None) -> Call:
    """A call on an operand of the wanted element type and another shape."""
    return Call((scope.supply(wanted.dtype, shape), *others))
