"""Operators that move or repeat elements and compute nothing."""

import math
from dataclasses import replace

from oracles.relation.arithmetic import MOVES, WHOLE
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import ALONG, IMAGE, MATRIX, MAX_RANK, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import from_either_end, gives_dtype, inverted, part_of, with_supplied
from oracles.relation.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOAT8,
    INT4,
    MOVED,
    OPTIONALS,
    SEQUENCES,
    TRUTH,
    Range,
    Shape,
    TensorType,
    broadcast,
    is_filled,
)


def _sample_transpose(scope: Scope, focus: Operand) -> Call:
    if scope.draws.chance(0.15):
        return Call((focus,))
    return Call((focus,), {"perm": tuple(scope.draws.sample(range(focus.rank), focus.rank))})


def _infer_transpose(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    perm = call.tuple_of("perm", tuple(reversed(range(focus.rank))))
    return (TensorType(focus.dtype, tuple(focus.shape[axis] for axis in perm)),)


def _sample_reshape(scope: Scope, focus: Operand) -> Call | None:
    """The wanted shape, at times the focus's own, is written out, or with a 0 (copied) or a -1 (inferred)."""
    draws = scope.draws
    wanted = list(focus.shape if draws.chance(0.15) else refactored(scope, focus.shape))
    if 0 in focus.shape:
        # Before opset 14 a 0 always means a copied dim.
        return Call((focus, scope.fix_ints(wanted)), {"allowzero": 1}) if scope.opset >= 14 else None
    if draws.chance(0.3):
        wanted = [0 if focus.shape[at : at + 1] == (dim,) else dim for at, dim in enumerate(wanted)]
    if wanted and draws.chance(0.3):
        wanted[draws.below(len(wanted))] = -1
    return Call((focus, scope.fix_ints(wanted)))


def _infer_reshape(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    wanted = list(call.ints(1) or ())
    if not call.attributes.get("allowzero"):
        wanted = [focus.shape[at] if dim == 0 else dim for at, dim in enumerate(wanted)]
    if -1 in wanted:
        rest = math.prod(dim for dim in wanted if dim != -1)
        wanted[wanted.index(-1)] = math.prod(focus.shape) // rest
    return (TensorType(focus.dtype, tuple(wanted)),)


def _sample_flatten(scope: Scope, focus: Operand) -> Call:
    axis = scope.draws.between(-focus.rank, focus.rank)
    return Call((focus,), {"axis": axis} if scope.draws.chance(0.7) or not focus.rank else {})


def _infer_flatten(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), call.integer("axis", 1)
    axis = axis + focus.rank if axis < 0 else axis
    return (TensorType(focus.dtype, (math.prod(focus.shape[:axis]), math.prod(focus.shape[axis:]))),)


def _sample_squeeze(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    ones = [axis for axis, dim in enumerate(focus.shape) if dim == 1]
    if not ones:
        return None
    if draws.chance(0.2):
        return Call((focus,))
    chosen = draws.sample(ones, draws.between(1, len(ones)))
    return Call((focus, scope.fix_ints(axis - focus.rank if draws.chance(0.3) else axis for axis in chosen)))


def _infer_squeeze(call: Call) -> tuple[TensorType, ...]:
    focus, given = call.operand(0), call.ints(1)
    axes = {axis % focus.rank for axis in given} if given is not None else None
    gone = (lambda axis: axis in axes) if axes is not None else (lambda axis: focus.shape[axis] == 1)
    return (TensorType(focus.dtype, tuple(dim for axis, dim in enumerate(focus.shape) if not gone(axis))),)


def _sample_unsqueeze(scope: Scope, focus: Operand) -> Call | None:
    if focus.rank >= MAX_RANK:
        return None
    added = scope.draws.between(1, min(2, MAX_RANK - focus.rank))
    return Call((focus, scope.fix_ints(scope.axes(focus.rank + added, added, added))))


def _infer_unsqueeze(call: Call) -> tuple[TensorType, ...]:
    focus, axes = call.operand(0), call.ints(1) or ()
    rank = focus.rank + len(axes)
    ones = {axis % rank for axis in axes}
    dims = iter(focus.shape)
    return (TensorType(focus.dtype, tuple(1 if axis in ones else next(dims) for axis in range(rank))),)


def _sample_expand(scope: Scope, focus: Operand) -> Call:
    """The wanted shape may be smaller than the focus's: the two broadcast."""
    draws = scope.draws
    wanted = [draws.pick((dim, scope.dim() if dim == 1 else 1, dim)) for dim in focus.shape]
    if draws.chance(0.3) and len(wanted) < MAX_RANK:
        wanted.insert(0, scope.dim())
    elif wanted and draws.chance(0.2):
        del wanted[0]
    return Call((focus, scope.fix_ints(wanted)))


def _infer_expand(call: Call) -> tuple[TensorType, ...]:
    shape = broadcast(call.operand(0).shape, call.ints(1) or ())
    if shape is None:
        raise ValueError("the wanted shape does not broadcast")
    return (TensorType(call.operand(0).dtype, shape),)


def _sample_tile(scope: Scope, focus: Operand) -> Call:
    return Call((focus, scope.fix_ints(scope.amount((1, 1, 2, 3), 16) for _ in focus.shape)))


def _infer_tile(call: Call) -> tuple[TensorType, ...]:
    focus, repeats = call.operand(0), call.ints(1) or ()
    return (TensorType(focus.dtype, tuple(a * b for a, b in zip(focus.shape, repeats, strict=True))),)


def _sample_depth(scope: Scope, focus: Operand) -> Call | None:
    if focus.shape[1] % 4 or 0 in focus.shape:
        return None
    return Call((focus,), {"blocksize": 2, **scope.draws.pick(({}, {"mode": "CRD"}, {"mode": "DCR"}))})


def _infer_depth(call: Call) -> tuple[TensorType, ...]:
    batch, channels, height, width = call.operand(0).shape
    size = call.integer("blocksize", 1)
    shape = (batch, channels // (size * size), height * size, width * size)
    return (TensorType(call.operand(0).dtype, shape),)


def _sample_space(scope: Scope, focus: Operand) -> Call | None:
    _, _, height, width = focus.shape
    return None if height % 2 or width % 2 or 0 in focus.shape else Call((focus,), {"blocksize": 2})


def _infer_space(call: Call) -> tuple[TensorType, ...]:
    batch, channels, height, width = call.operand(0).shape
    size = call.integer("blocksize", 1)
    shape = (batch, channels * size * size, height // size, width // size)
    return (TensorType(call.operand(0).dtype, shape),)


def _sample_dropout(scope: Scope, focus: Operand) -> Call:
    """Sample Dropout: in inference it is the identity, and its mask is all true."""
    draws = scope.draws
    operands: tuple[Operand | None, ...] = (focus,)
    if draws.chance(0.5):
        operands = (focus, scope.fix_scalar(0.5, F32))
    attributes: dict[str, Attribute] = {"seed": 1} if draws.chance(0.2) else {}
    return Call(operands, attributes, 2 if draws.chance(0.3) else 1)


def _infer_dropout(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return (focus.type, TensorType(BOOL, focus.shape))[: call.results]


def _bound_dropout(call: Call) -> tuple[Range, ...]:
    return (call.operand(0).range, TRUTH)[: call.results]


def refactored(scope: Scope, shape: Shape) -> Shape:
    """Another shape of as many elements: neighbours joined, a dim split, ones put in or taken out."""
    draws = scope.draws
    dims = list(shape)
    for _ in range(draws.between(1, 3)):
        form = draws.below(4)
        if form == 0 and len(dims) > 1:
            at = draws.below(len(dims) - 1)
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        elif form == 1 and dims and len(dims) < MAX_RANK:
            at = draws.below(len(dims))
            factors = [n for n in range(2, dims[at]) if dims[at] % n == 0] or [1]
            factor = draws.pick(factors)
            dims[at : at + 1] = [factor, dims[at] // factor]
        elif form == 2 and len(dims) < MAX_RANK:
            dims.insert(draws.between(0, len(dims)), 1)
        elif form == 3 and 1 in dims:
            dims.remove(1)
    return tuple(dims)


def _solve_transpose(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    perm = scope.draws.sample(range(len(shape)), len(shape))
    source = dict(zip(perm, shape, strict=True))
    call = with_supplied(scope, wanted, tuple(source[axis] for axis in range(len(shape))))
    return call._replace(attributes={"perm": tuple(perm)})


def _recognise_reshape(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return wanted.dtype in operator.dtypes_at(opset) and (opset >= 14 or is_filled(wanted.shape))


def _solve_reshape(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    call = with_supplied(scope, wanted, refactored(scope, shape), scope.fix_ints(shape))
    return call._replace(attributes={} if is_filled(shape) else {"allowzero": 1})


def _solve_flatten(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    before, after = ((dim,) if scope.draws.chance(0.5) else (1, dim) for dim in wanted.shape)
    axis = len(before) if scope.draws.chance(0.6) else -len(after)
    return with_supplied(scope, wanted, (*before, *after))._replace(attributes={"axis": axis})


def _solve_squeeze(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    added = scope.draws.between(1, min(2, MAX_RANK - len(wanted.shape)))
    rank = len(wanted.shape) + added
    axes = tuple(sorted(scope.draws.sample(range(rank), added)))
    dims = list(wanted.shape)
    for axis in axes:
        dims.insert(axis, 1)
    return with_supplied(scope, wanted, tuple(dims), scope.fix_ints(from_either_end(scope, axes, rank)))


def _solve_unsqueeze(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    ones = [axis for axis, dim in enumerate(shape) if dim == 1]
    axes = tuple(scope.draws.sample(ones, scope.draws.between(1, min(2, len(ones)))))
    rest = tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
    return with_supplied(scope, wanted, rest, scope.fix_ints(from_either_end(scope, axes, len(shape))))


def _solve_expand(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return with_supplied(scope, wanted, part_of(scope, wanted.shape), scope.fix_ints(wanted.shape))


def _solve_tile(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    most = 3 if not scope.profile.binned else 16
    repeats = [scope.draws.pick([n for n in range(1, most + 1) if dim % n == 0]) for dim in wanted.shape]
    source = tuple(dim // times for dim, times in zip(wanted.shape, repeats, strict=True))
    return with_supplied(scope, wanted, source, scope.fix_ints(repeats))


def _is_of_blocks(shape: Shape) -> bool:
    return len(shape) == 4 and is_filled(shape) and not (shape[2] % 2 or shape[3] % 2)


def _is_deep(shape: Shape) -> bool:
    return len(shape) == 4 and is_filled(shape) and not shape[1] % 4


def _solve_depth(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, channels, height, width = wanted.shape
    call = with_supplied(scope, wanted, (batch, channels * 4, height // 2, width // 2))
    return call._replace(attributes={"blocksize": 2, **scope.draws.pick(({}, {"mode": "CRD"}))})


def _solve_space(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, channels, height, width = wanted.shape
    call = with_supplied(scope, wanted, (batch, channels // 4, height * 2, width * 2))
    return call._replace(attributes={"blocksize": 2})


_BLOCKS = (F32, F64, F16)
_SPREAD = tuple(dtype for dtype in MOVED if dtype is not BF16)
_SHAPES, _AXES = replace(MOVES, dims_at=(1,)), replace(MOVES, reads_axes=True)


_TRANSPOSE, _FLATTEN = inverted(ALONG, _solve_transpose), inverted(MATRIX, _solve_flatten)
_RESHAPE, _EXPAND = Inverse(_recognise_reshape, _solve_reshape), Inverse(gives_dtype, _solve_expand)
_SQUEEZE = inverted(range(MAX_RANK), _solve_squeeze)
_UNSQUEEZE = inverted(lambda shape: 1 in shape, _solve_unsqueeze)
_TILE = inverted(ALONG, _solve_tile)
_DEPTH, _SPACE = inverted(_is_of_blocks, _solve_depth), inverted(_is_deep, _solve_space)

OPERATORS = (
    Operator("Identity", Kind.LAYOUT, MOVES, MOVED, later={14: SEQUENCES, 16: OPTIONALS, 19: FLOAT8}),
    Operator("Dropout", Kind.LAYOUT, WHOLE, (F32, F64), _sample_dropout, _infer_dropout, _bound_dropout),
    Operator("Transpose", Kind.LAYOUT, MOVES, MOVED, ranks=ALONG, later={21: (*FLOAT8, *INT4)}).by(
        _sample_transpose, _infer_transpose, inverse=_TRANSPOSE
    ),
    Operator("Reshape", Kind.LAYOUT, _SHAPES, MOVED, later={21: FLOAT8}).by(
        _sample_reshape, _infer_reshape, inverse=_RESHAPE
    ),
    Operator("Flatten", Kind.LAYOUT, MOVES, MOVED, _sample_flatten, _infer_flatten, inverse=_FLATTEN),
    Operator(
        "Squeeze", Kind.LAYOUT, _AXES, MOVED, _sample_squeeze, _infer_squeeze, ranks=ALONG, inverse=_SQUEEZE
    ),
    Operator("Unsqueeze", Kind.LAYOUT, _AXES, MOVED, _sample_unsqueeze, _infer_unsqueeze, inverse=_UNSQUEEZE),
    Operator("Expand", Kind.LAYOUT, _SHAPES, _SPREAD, _sample_expand, _infer_expand, inverse=_EXPAND),
    Operator("Tile", Kind.LAYOUT, _AXES, _SPREAD, _sample_tile, _infer_tile, ranks=ALONG, inverse=_TILE),
    Operator(
        "DepthToSpace", Kind.LAYOUT, MOVES, _BLOCKS, _sample_depth, _infer_depth, ranks=IMAGE, inverse=_DEPTH
    ),
    Operator(
        "SpaceToDepth", Kind.LAYOUT, MOVES, _BLOCKS, _sample_space, _infer_space, ranks=IMAGE, inverse=_SPACE
    ),
)
