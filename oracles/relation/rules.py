"""Rules that many operators share: shapes, types, ranges, samplers and ways back."""

import math
from collections.abc import Callable, Mapping, Sequence

from oracles.relation.arithmetic import hull, symmetric, within_type
from oracles.relation.operator import (
    SAME,
    Inverse,
    Operator,
    RangeRule,
    Recogniser,
    Sampler,
    Solver,
    TypeRule,
)
from oracles.relation.program import MAX_ELEMENTS, MAX_RANK, Attribute, Call, Operand, Scope, volume
from oracles.relation.types import (
    ANYTHING,
    BOOL,
    DType,
    Range,
    Shape,
    TensorType,
    broadcast,
    extent,
    is_filled,
    is_float,
    replaced,
)

Attributes = Mapping[str, Attribute]
Draw = Callable[[Scope, Operand], Attributes | None]
"""What is drawn for a call on the focus alone; None declines."""
Choice = Callable[[Scope, Operand], Attributes]
"""What is drawn whatever the focus is."""

# Shapes and types


def same_shape(call: Call) -> Shape:
    """The shape of the first operand."""
    return call.operand(0).shape


def second_shape(call: Call) -> Shape:
    """The shape of the second operand."""
    return call.operand(1).shape


def joined(call: Call) -> Shape:
    """The shape to which the operands broadcast."""
    shape = broadcast(*(value.shape for value in call.present))
    if shape is None:
        raise ValueError("operands do not broadcast")
    return shape


def shaped(shapes: Callable[[Call], Shape], dtype: Callable[[Call], DType] | None = None) -> TypeRule:
    """One result of a shape, of the first operand's element type or another."""

    def infer(call: Call) -> tuple[TensorType, ...]:
        return (TensorType(dtype(call) if dtype else call.operand(0).dtype, shapes(call)),)

    return infer


def truth(call: Call) -> DType:
    """The type of results that are true or false."""
    return BOOL


TO_TRUTH = shaped(same_shape, truth)
"""The type rule of a truth for each element of the first operand."""


# Ranges


def hull_range(call: Call) -> tuple[Range, ...]:
    """The least range around those of all operands."""
    return (hull(value.range for value in call.present),)


def with_zero(call: Call) -> tuple[Range, ...]:
    """The first operand's range, 0 included."""
    return (hull((call.operand(0).range, Range(0, 0))),)


def whole_type(call: Call) -> tuple[Range, ...]:
    """The range of all that the first operand's type holds."""
    return (extent(call.operand(0).dtype),)


def inside(low: float, high: float) -> RangeRule:
    """A rule for results between two limits."""
    return lambda call: (Range(low, high),)


def magnitudes(call: Call) -> list[float]:
    """The greatest magnitude of each operand."""
    return [value.range.magnitude for value in call.present]


def by_type(types: TypeRule, magnitude: Callable[[Call], float]) -> RangeRule:
    """The same magnitude for each result, as far as its type holds it."""

    def bound(call: Call) -> tuple[Range, ...]:
        try:
            most = magnitude(call)
        except OverflowError:
            most = math.inf
        return tuple(within_type(found.dtype, symmetric(most)) for found in types(call))

    return bound


def divisor(dtype: DType) -> Range:
    """What one may divide by."""
    return Range(-math.inf, math.inf, 0.1 if is_float(dtype) else 1)


# Samplers


def sampled_with(draw: Draw) -> Sampler:
    """The focus alone, with attributes; `draw` may decline."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        attributes = draw(scope, focus)
        return None if attributes is None else Call((focus,), attributes)

    return sample


def choices(**values: Sequence[Attribute]) -> Choice:
    """Each attribute is one of its values."""
    return lambda scope, focus: {name: scope.draws.pick(found) for name, found in values.items()}


# Ways back

Within = Callable[[DType], Range]


def another_dim(scope: Scope, shape: Shape, least: int = 1) -> int:
    """A dim that may be added to a shape without leaving the budget; `least` where none of the usual fits."""
    room = MAX_ELEMENTS // volume(shape)
    dim = scope.dim()
    return dim if least <= dim <= room else least


def with_more_dims(scope: Scope, shape: Shape, count: int) -> Shape:
    """The shape with so many more dims behind its own, within the budget."""
    for _ in range(count):
        shape = (*shape, another_dim(scope, shape))
    return shape


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


def when(check: Callable[[Shape], bool]) -> Inverse:
    """Invert operators whose result has the type of the focus: their sampler takes all of these shapes."""
    return Inverse(recogniser(check), SAME.solve)


def retyped(*dtypes: DType) -> Inverse:
    """Invert operators that keep the focus's shape and give one of these element types, whatever it has."""

    def recognise(operator: Operator, wanted: TensorType, opset: int) -> bool:
        return wanted.dtype in dtypes and len(wanted.shape) in operator.ranks

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
        dtype = scope.draws.pick(operator.types_in(scope))
        return operator.sample(scope, scope.supply(dtype, wanted.shape, operator.domain))

    return Inverse(recognise, solve)


def _anything(dtype: DType) -> Range:
    return ANYTHING


def _none(scope: Scope, dtype: DType) -> Attributes:
    return {}


def broadcasting(
    *,
    truth: bool = False,
    second: Within = _anything,
    attributes: Callable[[Scope, DType], Attributes] = _none,
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


def room_beside(shape: Shape, axis: int, least: int) -> int:
    """The largest dim that the axis may have within the budget; at least `least`."""
    return max(least, MAX_ELEMENTS // volume(replaced(shape, axis, 1)))


def is_filled_image(shape: Shape) -> bool:
    """Whether it is a batch of images that hold elements, and channels."""
    return len(shape) == 4 and is_filled(shape)


def recogniser(check: Callable[[Shape], bool] | range, *dtypes: DType) -> Recogniser:
    """Recognise by the shape, or by ranks, and by these element types, or else those of the focus."""

    def recognise(operator: Operator, wanted: TensorType, opset: int) -> bool:
        if wanted.dtype not in (dtypes or operator.dtypes_at(opset)):
            return False
        return len(wanted.shape) in check if isinstance(check, range) else check(wanted.shape)

    return recognise


def inverted(check: Callable[[Shape], bool] | range, solve: Solver, *dtypes: DType) -> Inverse:
    """Invert by `solve` what passes a check of the shape or has these ranks; of these element types."""
    return Inverse(recogniser(check, *dtypes), solve)


def stretched(scope: Scope, wanted: TensorType) -> tuple[int, int, Shape]:
    """An axis, a dim for it that is the same or a little longer, and the shape with that dim."""
    axis = scope.draws.below(len(wanted.shape))
    least = wanted.shape[axis]
    dim = scope.draws.between(least, min(least + 3, room_beside(wanted.shape, axis, least)))
    return axis, dim, replaced(wanted.shape, axis, dim)


def with_supplied(scope: Scope, wanted: TensorType, shape: Shape, *others: Operand | None) -> Call:
    """A call on an operand of the wanted element type and another shape."""
    return Call((scope.supply(wanted.dtype, shape), *others))
