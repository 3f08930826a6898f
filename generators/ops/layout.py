"""Operators that move or repeat elements and compute nothing."""

from __future__ import annotations

import math

from generators.entries import layout as back
from generators.entries.layout import refactored
from generators.language.operator import Operator
from generators.language.program import MAX_RANK, Attribute, Call, Kind, Operand
from generators.language.scope import Scope
from generators.language.types import (
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
        wanted = [0 if dims[:1] == (dim,) else dim for dim, dims in _aligned(wanted, focus.shape)]
    if wanted and draws.chance(0.3):
        wanted[draws.below(len(wanted))] = -1
    return Call((focus, scope.fix_ints(wanted)))


def _aligned(wanted: list[int], shape: Shape) -> list[tuple[int, Shape]]:
    return [(dim, shape[at : at + 1]) for at, dim in enumerate(wanted)]


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


_ALONG = range(1, MAX_RANK + 1)
_IMAGE = range(4, 5)
_BLOCKS = (F32, F64, F16)
_SPREAD = tuple(dtype for dtype in MOVED if dtype is not BF16)

OPERATORS = (
    Operator("Identity", Kind.LAYOUT, MOVED, later={14: SEQUENCES, 16: OPTIONALS, 19: FLOAT8}),
    Operator("Dropout", Kind.LAYOUT, (F32, F64), _sample_dropout, _infer_dropout, _bound_dropout),
    Operator(
        "Transpose",
        Kind.LAYOUT,
        MOVED,
        _sample_transpose,
        _infer_transpose,
        ranks=_ALONG,
        later={21: (*FLOAT8, *INT4)},
        inverse=back.TRANSPOSE,
    ),
    Operator(
        "Reshape",
        Kind.LAYOUT,
        MOVED,
        _sample_reshape,
        _infer_reshape,
        later={21: FLOAT8},
        inverse=back.RESHAPE,
    ),
    Operator("Flatten", Kind.LAYOUT, MOVED, _sample_flatten, _infer_flatten, inverse=back.FLATTEN),
    Operator(
        "Squeeze", Kind.LAYOUT, MOVED, _sample_squeeze, _infer_squeeze, ranks=_ALONG, inverse=back.SQUEEZE
    ),
    Operator("Unsqueeze", Kind.LAYOUT, MOVED, _sample_unsqueeze, _infer_unsqueeze, inverse=back.UNSQUEEZE),
    Operator("Expand", Kind.LAYOUT, _SPREAD, _sample_expand, _infer_expand, inverse=back.EXPAND),
    Operator("Tile", Kind.LAYOUT, _SPREAD, _sample_tile, _infer_tile, ranks=_ALONG, inverse=back.TILE),
    Operator(
        "DepthToSpace", Kind.LAYOUT, _BLOCKS, _sample_depth, _infer_depth, ranks=_IMAGE, inverse=back.DEPTH
    ),
    Operator(
        "SpaceToDepth", Kind.LAYOUT, _BLOCKS, _sample_space, _infer_space, ranks=_IMAGE, inverse=back.SPACE
    ),
)
