"""Operators that read or write by indices: Gather, Scatter and their kin, OneHot."""

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto

from oracles.relation.arithmetic import (
    MOVES,
    UNKNOWN,
    WHOLE,
    Arithmetic,
    Rounding,
    add,
    hull,
    mul,
    of_updates,
    text_attribute,
    within_type,
)
from oracles.relation.open_checks import TWICE
from oracles.relation.operator import (
    SAME,
    Inverse,
    Operator,
    RangeRule,
    Sampler,
    TypeRule,
    same_range,
    same_type,
)
from oracles.relation.program import (
    ALONG,
    MAX_ELEMENTS,
    MAX_RANK,
    Attribute,
    Call,
    Kind,
    Operand,
    Scope,
    volume,
)
from oracles.relation.rules import another_dim, gives_dtype, inside, inverted, second_shape, shaped
from oracles.relation.types import (
    F32,
    F64,
    I32,
    I64,
    MOVED,
    NUMPY,
    DType,
    Range,
    Shape,
    TensorType,
    is_filled,
    replaced,
)


def _indices(scope: Scope, dim: int, shape: Shape) -> Operand | None:
    """Indices into an axis of this size, from either end; None where the axis is empty and they are not."""
    if not dim:
        return scope.create(I64, shape) if 0 in shape else None
    dtype = scope.draws.pick((I64, I64, I32))
    return scope.supply(dtype, shape, Range(-dim if scope.draws.chance(0.4) else 0, dim - 1))


def _sample_gather(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    axis = scope.axis(focus.rank)
    indices = _indices(scope, focus.shape[axis], scope.shape(draws.pick((0, 1, 1, 2))))
    if indices is None:
        return None
    return Call((focus, indices), {"axis": axis} if draws.chance(0.8) or axis not in (0, -focus.rank) else {})


def _infer_gather(call: Call) -> tuple[TensorType, ...]:
    data, indices = call.operand(0), call.operand(1)
    axis = call.integer("axis", 0) % data.rank
    return (TensorType(data.dtype, data.shape[:axis] + indices.shape + data.shape[axis + 1 :]),)


def _sample_gather_elements(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    axis = scope.axis(focus.rank)
    shape = list(focus.shape)
    shape[axis] = scope.dim()
    if draws.chance(0.3):
        shape = [draws.between(min(1, dim), dim) for dim in shape]
    indices = _indices(scope, focus.shape[axis], tuple(shape))
    return None if indices is None else Call((focus, indices), {"axis": axis})


def _sample_gather_nd(scope: Scope, focus: Operand) -> Call | None:
    """Every index of a tuple fits the smallest of the axes that the tuple is for."""
    draws = scope.draws
    if not is_filled(focus.shape):
        return None
    batch = draws.below(focus.rank) if draws.chance(0.4) else 0
    depth = draws.between(1, focus.rank - batch)
    shape = (*focus.shape[:batch], *scope.shape(draws.below(3)), depth)
    least = min(focus.shape[batch : batch + depth])
    indices = scope.supply(I64, shape, Range(-least if draws.chance(0.3) else 0, least - 1))
    return Call((focus, indices), {"batch_dims": batch} if batch or draws.chance(0.1) else {})


def _infer_gather_nd(call: Call) -> tuple[TensorType, ...]:
    data, indices = call.operand(0), call.operand(1)
    taken = call.integer("batch_dims", 0) + indices.shape[-1]
    return (TensorType(data.dtype, indices.shape[:-1] + data.shape[taken:]),)


def _sample_scatter_elements(scope: Scope, focus: Operand) -> Call:
    """The indices along the axis are all different, so that the order of the writes does not matter."""
    draws = scope.draws
    axis = draws.below(focus.rank)
    shape = [draws.between(1, dim) for dim in focus.shape]
    chosen = draws.sample(range(focus.shape[axis]), shape[axis])
    column = np.array(chosen).reshape([-1 if at == axis else 1 for at in range(focus.rank)])
    indices = scope.fix(np.broadcast_to(column, shape).astype(np.int64))
    attributes: dict[str, Attribute] = {"axis": axis - focus.rank if draws.chance(0.4) else axis}
    attributes |= _combining(scope, focus.dtype)
    return Call((focus, indices, scope.supply(focus.dtype, tuple(shape))), attributes)


def _combining(scope: Scope, dtype: DType) -> dict[str, Attribute]:
    """Draw how a scatter combines values: by sum or product, from later opsets on by minimum or maximum."""
    if scope.opset < 16 or dtype not in _COMBINED or not scope.draws.chance(0.35):
        return {}
    forms = ("add", "mul", "max", "min") if scope.opset >= 18 else ("add", "mul")
    return {"reduction": scope.draws.pick(forms)}


def _sample_scatter_nd(scope: Scope, focus: Operand) -> Call:
    """Whole slices are replaced, each at most once."""
    draws = scope.draws
    chosen = draws.sample(range(focus.shape[0]), draws.between(1, min(focus.shape[0], 4)))
    indices = scope.fix(np.array(chosen, dtype=np.int64).reshape(-1, 1))
    updates = scope.supply(focus.dtype, (len(chosen), *focus.shape[1:]))
    return Call((focus, indices, updates), _combining(scope, focus.dtype))


def _bound_scatter(call: Call) -> tuple[Range, ...]:
    """Every place is written at most once."""
    data, updates = call.operand(0), call.operand(2)
    form, found = call.attributes.get("reduction"), [data.range, updates.range]
    if form == "add":
        found.append(add(data.range, updates.range))
    elif form == "mul":
        found.append(mul(data.range, updates.range))
    return (within_type(data.dtype, hull(found)),)


def _sample_one_hot(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    depth = max(2, scope.dim())
    dtype = draws.pick((F32, I64))
    values = scope.fix(np.array([0, 1], dtype=NUMPY[dtype]), dtype)
    axis = draws.between(-focus.rank - 1, focus.rank)
    return Call((focus, scope.fix_scalar(depth, I64), values), {"axis": axis} if draws.chance(0.7) else {})


def _infer_one_hot(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), call.integer("axis", -1) % (call.operand(0).rank + 1)
    (depth,) = call.ints(1) or (0,)
    return (TensorType(call.operand(2).dtype, (*focus.shape[:axis], depth, *focus.shape[axis:])),)


_COMBINED = (F32, F64, I32, I64)


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
    dim = another_dim(scope, replaced(shape, axis, 1))
    data = scope.supply(wanted.dtype, replaced(shape, axis, dim))
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


def _solve_one_hot(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    axis = scope.draws.pick([axis for axis, dim in enumerate(shape) if dim > 1])
    values = scope.fix(np.array([0, 1], dtype=NUMPY[wanted.dtype]), wanted.dtype)
    indices = scope.supply(I64, shape[:axis] + shape[axis + 1 :])
    return Call((indices, scope.fix_scalar(shape[axis], I64), values), {"axis": axis})


def _can_be_hot(shape: Shape) -> bool:
    return 2 <= len(shape) <= MAX_RANK and max(shape) > 1


_GATHER, _GATHER_ELEMENTS = Inverse(gives_dtype, _solve_gather), inverted(ALONG, _solve_gather_elements)
_GATHER_ND = inverted(lambda shape: is_filled(shape[2:]), _solve_gather_nd)
_ONE_HOT = inverted(_can_be_hot, _solve_one_hot, F32, I64)

_REDUCTIONS: Mapping[str, Arithmetic] = {
    "none": Arithmetic(Rounding.NOTHING, opens=TWICE),
    "add": Arithmetic(Rounding.TERMS, terms=of_updates),
    "mul": Arithmetic(Rounding.INSIDE, terms=of_updates),
    "max": Arithmetic(Rounding.NOTHING),
    "min": Arithmetic(Rounding.NOTHING),
}
"""What a scatter does with updates to one place."""


def _scattering(node: NodeProto) -> Arithmetic:
    """The row of a scatter: it sums or multiplies if its `reduction` says so."""
    return _REDUCTIONS.get(text_attribute(node, "reduction", "none"), UNKNOWN)


_SCATTERS = Arithmetic(Rounding.NOTHING, varies=_scattering)


def _part(
    name: str,
    arithmetic: Arithmetic,
    sample: Sampler,
    infer: TypeRule,
    bound: RangeRule,
    inverse: Inverse,
    *,
    filled: bool = False,
) -> Operator:
    return Operator(name, Kind.PART, arithmetic, MOVED, sample, infer, bound, ALONG, inverse, filled=filled)


OPERATORS = (
    _part("Gather", MOVES, _sample_gather, _infer_gather, same_range, _GATHER),
    _part(
        "GatherElements", MOVES, _sample_gather_elements, shaped(second_shape), same_range, _GATHER_ELEMENTS
    ),
    _part("GatherND", MOVES, _sample_gather_nd, _infer_gather_nd, same_range, _GATHER_ND),
    _part(
        "ScatterElements", _SCATTERS, _sample_scatter_elements, same_type, _bound_scatter, SAME, filled=True
    ),
    _part("ScatterND", _SCATTERS, _sample_scatter_nd, same_type, _bound_scatter, SAME, filled=True),
    Operator("OneHot", Kind.PART, WHOLE, (I64,), ranks=range(1, MAX_RANK)).by(
        _sample_one_hot, _infer_one_hot, inside(0, 1), _ONE_HOT
    ),
)
