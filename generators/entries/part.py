"""The ways back through what takes parts out of tensors, joins them, or asks for their shape."""

from __future__ import annotations

import numpy as np

from generators.entries.shared import another_dim, recogniser, room_beside, split_off, volume, with_supplied
from generators.language.operator import Inverse, Operator
from generators.language.program import MAX_RANK, Call
from generators.language.scope import MAX_ELEMENTS, Scope
from generators.language.types import BOOL, F32, I32, I64, NUMPY, Range, Shape, TensorType


def _longer(scope: Scope, shape: Shape, axis: int, least: int) -> int:
    """Return a dim for the axis that is a little longer, within the budget."""
    return scope.draws.between(least, min(least + 3, room_beside(shape, axis, least)))


def _solve_slice(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis = scope.draws.below(len(wanted.shape))
    dim = wanted.shape[axis]
    whole = _longer(scope, wanted.shape, axis, dim)
    start = scope.draws.between(0, whole - dim)
    columns = ([start], [start + dim], [scope.draws.pick((axis, axis - len(wanted.shape)))])
    source = split_off(wanted.shape, axis, whole)
    return with_supplied(scope, wanted, source, *(scope.fix_ints(column) for column in columns))


def _solve_split(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis = scope.draws.below(len(wanted.shape))
    dim = wanted.shape[axis]
    whole = _longer(scope, wanted.shape, axis, dim)
    source = split_off(wanted.shape, axis, whole)
    call = with_supplied(scope, wanted, source, scope.fix_ints((dim, whole - dim)))
    return call._replace(attributes={"axis": axis}, results=2)


def _solve_concat(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    draws = scope.draws
    axis = draws.below(len(wanted.shape))
    dim = wanted.shape[axis]
    cuts = sorted(draws.between(0, dim) for _ in range(draws.pick((0, 1, 1, 2))))
    sizes = [high - low for low, high in zip([0, *cuts], [*cuts, dim], strict=True)]
    parts = tuple(scope.supply(wanted.dtype, split_off(wanted.shape, axis, size)) for size in sizes)
    return Call(parts, {"axis": axis - len(wanted.shape) if draws.chance(0.4) else axis})


def _solve_gather(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """The indices' shape stands in the wanted one, in place of the axis that they went along."""
    draws, shape = scope.draws, wanted.shape
    rank = max(draws.pick((0, 1, 1, 2)), len(shape) + 1 - MAX_RANK)
    rank = min(rank, len(shape))
    axis = draws.between(0, len(shape) - rank)
    rest = shape[:axis] + shape[axis + rank :]
    dim = another_dim(scope, rest)
    data = scope.supply(wanted.dtype, (*rest[:axis], dim, *rest[axis:]))
    indices = scope.supply(draws.pick((I64, I32)), shape[axis : axis + rank], Range(-dim, dim - 1))
    return Call((data, indices), {"axis": axis})


def _solve_gather_elements(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    axis = scope.draws.below(len(shape))
    dim = another_dim(scope, split_off(shape, axis, 1))
    data = scope.supply(wanted.dtype, split_off(shape, axis, dim))
    return Call((data, scope.supply(I64, shape, Range(-dim, dim - 1))), {"axis": axis})


def _solve_gather_nd(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """The indices' outer dims come first in the result; the dims after them are the data's own."""
    draws, shape = scope.draws, wanted.shape
    zeros = [axis + 1 for axis, dim in enumerate(shape) if dim == 0]
    least = max(0, len(shape) + 1 - MAX_RANK, *zeros)
    outer = draws.between(least, max(least, min(2, len(shape))))
    depth = draws.between(1, min(2, MAX_RANK - (len(shape) - outer)))
    if volume(shape[:outer]) * depth > MAX_ELEMENTS:
        depth = 1
    dims = shape[outer:]
    for _ in range(depth):
        dims = (another_dim(scope, dims), *dims)
    within = Range(0, min(dims[:depth]) - 1)
    return Call((scope.supply(wanted.dtype, dims), scope.supply(I64, (*shape[:outer], depth), within)))


def _can_be_gathered(shape: Shape) -> bool:
    return 0 not in shape[2:]


def _solve_one_hot(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    axis = scope.draws.pick([axis for axis, dim in enumerate(shape) if dim > 1])
    values = scope.fix(np.array([0, 1], dtype=NUMPY[wanted.dtype]), wanted.dtype)
    indices = scope.supply(I64, shape[:axis] + shape[axis + 1 :])
    return Call((indices, scope.fix_scalar(shape[axis], I64), values), {"axis": axis})


def _can_be_hot(shape: Shape) -> bool:
    return 2 <= len(shape) <= MAX_RANK and max(shape) > 1


def _solve_shape(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    dtype = scope.draws.pick(operator.types_in(scope))
    return Call((scope.supply(dtype, scope.shape(wanted.shape[0])),))


def _solve_size(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    dtype = scope.draws.pick(operator.types_in(scope))
    return Call((scope.supply(dtype, scope.shape(scope.draws.between(0, 4))),))


def _recognise_eye(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return wanted.dtype in operator.dtypes_at(opset) and len(wanted.shape) == 2


def _solve_eye(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    dtype = scope.draws.pick(operator.types_in(scope))
    return Call((scope.supply(dtype, wanted.shape),), {"dtype": int(wanted.dtype)})


def _solve_compress(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis = scope.draws.below(len(wanted.shape))
    dim = wanted.shape[axis]
    whole = _longer(scope, wanted.shape, axis, dim)
    chosen = np.zeros(whole, dtype=np.bool_)
    chosen[scope.draws.sample(range(whole), dim)] = True
    source = split_off(wanted.shape, axis, whole)
    return with_supplied(scope, wanted, source, scope.fix(chosen, BOOL))._replace(attributes={"axis": axis})


_along = recogniser(lambda shape: len(shape) >= 1)

SLICE = Inverse(_along, _solve_slice)
SPLIT = Inverse(_along, _solve_split)
CONCAT = Inverse(_along, _solve_concat)
GATHER = Inverse(recogniser(lambda shape: True), _solve_gather)
GATHER_ELEMENTS = Inverse(_along, _solve_gather_elements)
GATHER_ND = Inverse(recogniser(_can_be_gathered), _solve_gather_nd)
ONE_HOT = Inverse(recogniser(_can_be_hot, F32, I64), _solve_one_hot)
SHAPE = Inverse(recogniser(lambda shape: len(shape) == 1 and shape[0] <= MAX_RANK, I64), _solve_shape)
SIZE = Inverse(recogniser(lambda shape: not shape, I64), _solve_size)
EYE = Inverse(_recognise_eye, _solve_eye)
COMPRESS = Inverse(_along, _solve_compress)
