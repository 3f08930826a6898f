"""The ways back that many families share, and the budget that every way back keeps to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from oracles.relation.operator import Inverse, Operator, Recogniser, Sampler
from oracles.relation.program import MAX_RANK, Attribute, Call, Operand
from oracles.relation.scope import MAX_ELEMENTS, Scope
from oracles.relation.types import ANYTHING, BOOL, DType, Range, Shape, TensorType

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
