"""Operators that take parts out of tensors, join them, or ask for their shape."""

import math
from dataclasses import replace

import numpy as np

from corpus.values import Tensor
from oracles.relation.arithmetic import MOVES, WHOLE, Arithmetic, Nonfinite, Rounding
from oracles.relation.open_checks import selects_beyond
from oracles.relation.operator import Inverse, Operator, RangeRule, Sampler, Solver, TypeRule, same_range
from oracles.relation.program import ALONG, FLAT, MATRIX, MAX_RANK, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import (
    hull_range,
    inside,
    inverted,
    recogniser,
    same_shape,
    shaped,
    stretched,
    with_supplied,
    with_zero,
)
from oracles.relation.types import (
    ALL,
    BOOL,
    F32,
    F64,
    I32,
    I64,
    MOVED,
    NUMPY,
    TEXT,
    DType,
    Range,
    Shape,
    TensorType,
    replaced,
)


def _sample_slice(scope: Scope, focus: Operand) -> Call | None:
    """Starts and ends counted from either end or beyond it, steps of either sign, axes left out or not."""
    draws = scope.draws
    with_axes = draws.chance(0.85)
    count = draws.between(1, min(focus.rank, 2)) if with_axes else focus.rank
    axes = scope.axes(focus.rank, count, count) if with_axes else tuple(range(focus.rank))
    starts, ends, steps = zip(*(_bounds(scope, focus.shape[axis]) for axis in axes), strict=True)
    dtype = I64 if draws.chance(0.8) else I32
    columns = [starts, ends] + ([axes, steps] if with_axes else [])
    if with_axes and all(step == 1 for step in steps) and draws.chance(0.5):
        columns.pop()
    return Call((focus, *(scope.fix(np.array(column, NUMPY[dtype]), dtype) for column in columns)))


def _bounds(scope: Scope, dim: int) -> tuple[int, int, int]:
    """Start, end and step of one axis."""
    draws = scope.draws
    low = draws.between(0, max(dim - 1, 0))
    high = draws.between(low + 1, max(dim, low + 1))
    if draws.chance(0.2):
        low, high = max(high - 1, 0), low - 1 if low else -(2**31) + 1
        return (low, high, -1) if high < 0 or draws.chance(0.5) else (low - dim, high, -1)
    step = scope.amount((1, 1, 1, 2, 3), 16)
    if high == dim:
        high = draws.pick((dim, dim + 5, 2**31 - 1))
    elif draws.chance(0.3):
        high -= dim
    return (low - dim if draws.chance(0.3) and low < dim else low), high, step


def _infer_slice(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    starts, ends = call.ints(1) or (), call.ints(2) or ()
    axes, steps = call.ints(3) or tuple(range(focus.rank)), call.ints(4) or (1,) * len(starts)
    shape = list(focus.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        dim = focus.shape[axis]
        start = min(max(start + dim if start < 0 else start, 0), dim if step > 0 else dim - 1)
        end = min(max(end + dim if end < 0 else end, -1 if step < 0 else 0), dim)
        shape[axis] = max(0, -(-(end - start) // step))
    return (TensorType(focus.dtype, tuple(shape)),)


def _sample_split(scope: Scope, focus: Operand) -> Call | None:
    """Split into equal parts, or into given parts; from opset 18 on by their number too."""
    draws = scope.draws
    axis = scope.axis(focus.rank)
    dim = focus.shape[axis]
    parts = draws.between(1, max(1, min(dim, 3)))
    attributes: dict[str, Attribute] = {"axis": axis}
    if dim and dim % parts == 0 and draws.chance(0.4):
        if scope.opset >= 18:
            attributes["num_outputs"] = parts
        return Call((focus,), attributes, parts)
    cuts = sorted(draws.between(0, dim) for _ in range(parts - 1))
    sizes = [high - low for low, high in zip([0, *cuts], [*cuts, dim], strict=True)]
    return Call((focus, scope.fix_ints(sizes)), attributes, parts)


def _infer_split(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), call.integer("axis", 0) % call.operand(0).rank
    sizes = call.ints(1) or (focus.shape[axis] // call.results,) * call.results
    return tuple(TensorType(focus.dtype, replaced(focus.shape, axis, size)) for size in sizes)


def _sample_concat(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    axis = draws.below(focus.rank)
    operands = [focus]
    for _ in range(draws.pick((0, 1, 1, 1, 2))):
        operands.insert(draws.between(0, len(operands)), _companion(scope, focus, axis))
    return Call(tuple(operands), {"axis": axis - focus.rank if draws.chance(0.4) else axis})


def _companion(scope: Scope, focus: Operand, axis: int) -> Operand:
    """A tensor that differs from the focus along one axis at most."""

    def fits(shape: Shape) -> bool:
        return len(shape) == focus.rank and all(
            at == axis or dim == focus.shape[at] for at, dim in enumerate(shape)
        )

    if scope.draws.chance(scope.profile.reuse):
        found = scope.reuse(focus.dtype, fits)
        if found is not None:
            return found
    return scope.create(focus.dtype, replaced(focus.shape, axis, scope.dim()))


def _infer_concat(call: Call) -> tuple[TensorType, ...]:
    first, axis = call.operand(0), call.integer("axis", 0) % call.operand(0).rank
    total = sum(operand.shape[axis] for operand in call.present)
    return (TensorType(first.dtype, replaced(first.shape, axis, total)),)


def sample_trilu(scope: Scope, focus: Operand) -> Call | None:
    """Perhaps with a diagonal beside the main one."""
    draws = scope.draws
    operands: tuple[Operand, ...] = (focus,)
    if draws.chance(0.6):
        operands += (scope.fix_scalar(scope.amount(range(-2, 3), 16), I64),)
    return Call(operands, {"upper": draws.below(2)} if draws.chance(0.7) else {})


def _sample_shape(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    attributes: dict[str, Attribute] = {}
    if scope.opset >= 15 and focus.rank and draws.chance(0.3):
        attributes["start"] = draws.between(-focus.rank, focus.rank - 1)
    if scope.opset >= 15 and focus.rank and draws.chance(0.2):
        attributes["end"] = draws.between(-focus.rank - 1, focus.rank + 1)
    return Call((focus,), attributes)


def _shown_dims(call: Call) -> Shape:
    """Compute a slice's dims: both ends may count from the end, or lie beyond it."""
    shape = call.operand(0).shape
    return shape[call.integer("start", 0) : call.integer("end", len(shape))]


def _bound_shape(call: Call) -> tuple[Range, ...]:
    shape = call.operand(0).shape or (0,)
    return (Range(min(shape), max(shape)),)


def _content_shape(call: Call) -> Tensor:
    return np.array(_shown_dims(call), dtype=np.int64)


def _content_size(call: Call) -> Tensor:
    return np.array(math.prod(call.operand(0).shape), dtype=np.int64)


def _bound_size(call: Call) -> tuple[Range, ...]:
    count = math.prod(call.operand(0).shape)
    return (Range(count, count),)


def _sample_eye(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    attributes: dict[str, Attribute] = {"dtype": int(draws.pick((F32, F64, I32, I64)))}
    if draws.chance(0.5):
        attributes["k"] = scope.amount(range(-2, 3), 16)
    return Call((focus,), attributes)


def _sample_reverse(scope: Scope, focus: Operand) -> Call:
    batch = scope.draws.below(2)
    lengths = scope.supply(I64, (focus.shape[batch],), Range(1, focus.shape[1 - batch]))
    return Call((focus, lengths), {"batch_axis": batch, "time_axis": 1 - batch})


def _sample_compress(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    axis = scope.axis(focus.rank)
    chosen = np.array([draws.chance(0.6) for _ in range(focus.shape[axis])], dtype=np.bool_)
    return Call((focus, scope.fix(chosen, BOOL)), {"axis": axis})


def _infer_compress(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), call.integer("axis", 0) % call.operand(0).rank
    kept = sum(call.ints(1) or ())
    return (TensorType(focus.dtype, replaced(focus.shape, axis, kept)),)


_SPELT = (*ALL, TEXT)


def _solve_slice(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis, whole, source = stretched(scope, wanted)
    dim = wanted.shape[axis]
    start = scope.draws.between(0, whole - dim)
    columns = ([start], [start + dim], [scope.draws.pick((axis, axis - len(wanted.shape)))])
    return with_supplied(scope, wanted, source, *(scope.fix_ints(column) for column in columns))


def _solve_split(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis, whole, source = stretched(scope, wanted)
    sizes = scope.fix_ints((wanted.shape[axis], whole - wanted.shape[axis]))
    return with_supplied(scope, wanted, source, sizes)._replace(attributes={"axis": axis}, results=2)


def _solve_concat(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    draws = scope.draws
    axis = draws.below(len(wanted.shape))
    dim = wanted.shape[axis]
    cuts = sorted(draws.between(0, dim) for _ in range(draws.pick((0, 1, 1, 2))))
    sizes = [high - low for low, high in zip([0, *cuts], [*cuts, dim], strict=True)]
    parts = tuple(scope.supply(wanted.dtype, replaced(wanted.shape, axis, size)) for size in sizes)
    return Call(parts, {"axis": axis - len(wanted.shape) if draws.chance(0.4) else axis})


def _solve_shape(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    dtype = scope.draws.pick(operator.types_in(scope))
    return Call((scope.supply(dtype, scope.shape(wanted.shape[0])),))


def _solve_size(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    dtype = scope.draws.pick(operator.types_in(scope))
    return Call((scope.supply(dtype, scope.shape(scope.draws.between(0, 4))),))


def _solve_eye(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    dtype = scope.draws.pick(operator.types_in(scope))
    return Call((scope.supply(dtype, wanted.shape),), {"dtype": int(wanted.dtype)})


def _solve_compress(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis, whole, source = stretched(scope, wanted)
    chosen = np.zeros(whole, dtype=np.bool_)
    chosen[scope.draws.sample(range(whole), wanted.shape[axis])] = True
    return with_supplied(scope, wanted, source, scope.fix(chosen, BOOL))._replace(attributes={"axis": axis})


_SHAPE = Inverse(recogniser(lambda shape: len(shape) == 1 and shape[0] <= MAX_RANK, I64), _solve_shape)
_ASKS = Arithmetic(Rounding.NOTHING, asks_dims=True)
_LIKE = (F32, F64, I32, I64)
_COMPRESSES = Arithmetic(
    Rounding.NOTHING,
    Nonfinite.MOVED,
    misfits={"a condition longer than what it selects from": selects_beyond},
)


def _part(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    sample: Sampler,
    infer: TypeRule,
    solve: Solver,
    bound: RangeRule = same_range,
) -> Operator:
    """What goes along an axis there and back."""
    inverse = inverted(ALONG, solve)
    return Operator(name, Kind.PART, arithmetic, dtypes, sample, infer, bound, ALONG, inverse)


OPERATORS = (
    _part("Slice", replace(MOVES, dims_at=(2,)), MOVED, _sample_slice, _infer_slice, _solve_slice),
    _part(
        "Split",
        replace(MOVES, dims_at=(1,)),
        MOVED,
        _sample_split,
        _infer_split,
        _solve_split,
        lambda call: (call.operand(0).range,) * call.results,
    ),
    _part("Concat", MOVES, MOVED, _sample_concat, _infer_concat, _solve_concat, hull_range),
    Operator("Trilu", Kind.PART, MOVES, (F32, F64, I32, I64, BOOL), ranks=FLAT, since=14).by(
        sample_trilu, bound=with_zero
    ),
    Operator("Shape", Kind.PART, _ASKS, MOVED).by(
        _sample_shape,
        lambda call: (TensorType(I64, (len(_shown_dims(call)),)),),
        _bound_shape,
        _SHAPE,
        content=_content_shape,
    ),
    Operator("Size", Kind.PART, _ASKS, _SPELT).by(
        infer=lambda call: (TensorType(I64, ()),),
        bound=_bound_size,
        inverse=inverted(range(1), _solve_size, I64),
        content=_content_size,
    ),
    Operator("EyeLike", Kind.PART, Arithmetic(Rounding.NOTHING, typed_by="dtype"), _LIKE, ranks=MATRIX).by(
        _sample_eye,
        shaped(same_shape, lambda call: DType(call.integer("dtype", 1))),
        inside(0, 1),
        inverted(MATRIX, _solve_eye),
    ),
    Operator("ReverseSequence", Kind.PART, WHOLE, _SPELT, _sample_reverse, ranks=FLAT, filled=True),
    _part("Compress", _COMPRESSES, _SPELT, _sample_compress, _infer_compress, _solve_compress),
)
