"""Operators that take parts out of tensors, join them, or ask for their shape."""

import math

import numpy as np

from corpus.values import Tensor
from oracles.relation.arithmetic import MOVES, WHOLE, Arithmetic, Nonfinite, Rounding, hull
from oracles.relation.open_checks import (
    filled,
    recogniser,
    room_beside,
    selects_beyond,
    split_off,
    with_supplied,
)
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import ALONG, MAX_RANK, Attribute, Call, Kind, Operand, Scope
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
    return tuple(
        TensorType(focus.dtype, (*focus.shape[:axis], size, *focus.shape[axis + 1 :])) for size in sizes
    )


def _bound_split(call: Call) -> tuple[Range, ...]:
    return (call.operand(0).range,) * call.results


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
    shape = (*focus.shape[:axis], scope.dim(), *focus.shape[axis + 1 :])
    return scope.create(focus.dtype, shape)


def _infer_concat(call: Call) -> tuple[TensorType, ...]:
    first, axis = call.operand(0), call.integer("axis", 0) % call.operand(0).rank
    total = sum(operand.shape[axis] for operand in call.present)
    return (TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])),)


def _bound_hull(call: Call) -> tuple[Range, ...]:
    return (hull(operand.range for operand in call.present),)


def sample_trilu(scope: Scope, focus: Operand) -> Call | None:
    """Perhaps with a diagonal beside the main one."""
    draws = scope.draws
    operands: tuple[Operand, ...] = (focus,)
    if draws.chance(0.6):
        operands += (scope.fix_scalar(scope.amount(range(-2, 3), 16), I64),)
    return Call(operands, {"upper": draws.below(2)} if draws.chance(0.7) else {})


def bound_with_zero(call: Call) -> tuple[Range, ...]:
    """The first operand's range, 0 included."""
    return (hull((call.operand(0).range, Range(0, 0))),)


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


def _infer_shape(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(I64, (len(_shown_dims(call)),)),)


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


def _infer_eye(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(DType(call.integer("dtype", 1)), call.operand(0).shape),)


def _sample_reverse(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    if 0 in focus.shape:
        return None
    batch = draws.below(2)
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
    return (TensorType(focus.dtype, (*focus.shape[:axis], kept, *focus.shape[axis + 1 :])),)


_MATRIX = range(2, MAX_RANK + 1)
_SPELT = (*ALL, TEXT)


def longer_along(scope: Scope, shape: Shape, axis: int, least: int) -> int:
    """A dim for the axis that is a little longer, within the budget."""
    return scope.draws.between(least, min(least + 3, room_beside(shape, axis, least)))


def _solve_slice(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis = scope.draws.below(len(wanted.shape))
    dim = wanted.shape[axis]
    whole = longer_along(scope, wanted.shape, axis, dim)
    start = scope.draws.between(0, whole - dim)
    columns = ([start], [start + dim], [scope.draws.pick((axis, axis - len(wanted.shape)))])
    source = split_off(wanted.shape, axis, whole)
    return with_supplied(scope, wanted, source, *(scope.fix_ints(column) for column in columns))


def _solve_split(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis = scope.draws.below(len(wanted.shape))
    dim = wanted.shape[axis]
    whole = longer_along(scope, wanted.shape, axis, dim)
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
    whole = longer_along(scope, wanted.shape, axis, dim)
    chosen = np.zeros(whole, dtype=np.bool_)
    chosen[scope.draws.sample(range(whole), dim)] = True
    source = split_off(wanted.shape, axis, whole)
    return with_supplied(scope, wanted, source, scope.fix(chosen, BOOL))._replace(attributes={"axis": axis})


along = recogniser(lambda shape: len(shape) >= 1)


SLICE = Inverse(along, _solve_slice)
SPLIT = Inverse(along, _solve_split)
CONCAT = Inverse(along, _solve_concat)
SHAPE = Inverse(recogniser(lambda shape: len(shape) == 1 and shape[0] <= MAX_RANK, I64), _solve_shape)
SIZE = Inverse(recogniser(lambda shape: not shape, I64), _solve_size)
EYE = Inverse(_recognise_eye, _solve_eye)
COMPRESS = Inverse(along, _solve_compress)


OPERATORS = (
    Operator(
        "Slice",
        Kind.PART,
        Arithmetic(Rounding.NOTHING, Nonfinite.MOVED, dims_at=(2,)),
        MOVED,
        _sample_slice,
        _infer_slice,
        ranks=ALONG,
        inverse=SLICE,
    ),
    Operator(
        "Split",
        Kind.PART,
        Arithmetic(Rounding.NOTHING, Nonfinite.MOVED, dims_at=(1,)),
        MOVED,
        _sample_split,
        _infer_split,
        _bound_split,
        ALONG,
        inverse=SPLIT,
    ),
    Operator(
        "Concat", Kind.PART, MOVES, MOVED, _sample_concat, _infer_concat, _bound_hull, ALONG, inverse=CONCAT
    ),
    Operator(
        "Trilu",
        Kind.PART,
        MOVES,
        (F32, F64, I32, I64, BOOL),
        sample_trilu,
        bound=bound_with_zero,
        ranks=_MATRIX,
        since=14,
    ),
    Operator(
        "Shape",
        Kind.PART,
        Arithmetic(Rounding.NOTHING, asks_dims=True),
        MOVED,
        _sample_shape,
        _infer_shape,
        _bound_shape,
        inverse=SHAPE,
        content=_content_shape,
    ),
    Operator(
        "Size",
        Kind.PART,
        Arithmetic(Rounding.NOTHING, asks_dims=True),
        _SPELT,
        infer=lambda call: (TensorType(I64, ()),),
        bound=_bound_size,
        inverse=SIZE,
        content=_content_size,
    ),
    Operator(
        "EyeLike",
        Kind.PART,
        Arithmetic(Rounding.NOTHING, typed_by="dtype"),
        (F32, F64, I32, I64),
        _sample_eye,
        _infer_eye,
        lambda call: (Range(0, 1),),
        range(2, 3),
        inverse=EYE,
    ),
    Operator("ReverseSequence", Kind.PART, WHOLE, _SPELT, _sample_reverse, ranks=_MATRIX, inverse=filled()),
    Operator(
        "Compress",
        Kind.PART,
        Arithmetic(
            Rounding.NOTHING,
            Nonfinite.MOVED,
            misfits={"a condition longer than what it selects from": selects_beyond},
        ),
        _SPELT,
        _sample_compress,
        _infer_compress,
        ranks=ALONG,
        inverse=COMPRESS,
    ),
)
