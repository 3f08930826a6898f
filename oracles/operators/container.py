"""Sequences of tensors: into one, out again, apart and together.

All elements of a sequence that is grown have one shape: its type is (count, *shape of each).
"""

from dataclasses import replace

import numpy as np

from corpus.values import Tensor
from oracles.relation.arithmetic import WHOLE, hull
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import (
    ALONG,
    FIRST_OPSET,
    MAX_RANK,
    Attribute,
    Call,
    DoesNotFit,
    DTypeFamily,
    Kind,
    Operand,
    Scope,
    fits,
)
from oracles.relation.rules import hull_range, inside
from oracles.relation.types import (
    F32,
    F64,
    I32,
    I64,
    SEQUENCES,
    TENSORS,
    DType,
    Range,
    Shape,
    TensorType,
    element,
    replaced,
    sequence_of,
)

_LISTED = tuple(dtype for dtype in TENSORS if sequence_of(dtype))
_MOST = 4
"""The elements of a sequence that an operator makes."""


def _sequence(dtype: DType, shape: Shape) -> TensorType:
    made = sequence_of(dtype)
    if made is None:
        raise DoesNotFit(dtype.name)
    return TensorType(made, shape)


def _position(scope: Scope, count: int, *, past: bool = False) -> Operand:
    """Counted from either end; an insertion may go past the last one."""
    return scope.fix_scalar(scope.draws.between(-count, count if past else count - 1), I64)


def _sample_construct(scope: Scope, focus: Operand) -> Call:
    others = [scope.supply(*focus.type) for _ in range(scope.draws.below(3))]
    others.insert(scope.draws.between(0, len(others)), focus)
    return Call(tuple(others))


def _infer_construct(call: Call) -> tuple[TensorType, ...]:
    first = call.operand(0)
    return (_sequence(first.dtype, (len(call.operands), *first.shape)),)


def _sample_empty(scope: Scope, focus: Operand) -> Call:
    """Make an empty sequence of the focus's element type."""
    return Call((), _empty(scope, element(focus.dtype)))


def _empty(scope: Scope, dtype: DType) -> dict[str, Attribute]:
    """Left out, the type is float32."""
    return {} if dtype is F32 and scope.draws.chance(0.5) else {"dtype": int(dtype)}


def _infer_empty(call: Call) -> tuple[TensorType, ...]:
    return (_sequence(DType(call.integer("dtype", F32)), (0,)),)


def _sample_insert(scope: Scope, focus: Operand) -> Call | None:
    count, *shape = focus.shape
    if count >= _MOST:
        return None
    part = tuple(shape) if count else scope.shape(scope.draws.below(4))
    return _insert(scope, focus, scope.supply(element(focus.dtype), part))


def _insert(scope: Scope, focus: Operand, added: Operand) -> Call:
    if scope.draws.chance(0.3):
        return Call((focus, added))
    return Call((focus, added, _position(scope, focus.shape[0], past=True)))


def _infer_insert(call: Call) -> tuple[TensorType, ...]:
    focus, added = call.operand(0), call.operand(1)
    return (TensorType(focus.dtype, (focus.shape[0] + 1, *added.shape)),)


def _is_empty(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return wanted.dtype in SEQUENCES and wanted.shape == (0,)


def _solve_empty(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((), _empty(scope, element(wanted.dtype)))


def _bound_insert(call: Call) -> tuple[Range, ...]:
    return (hull(operand.range for operand in call.present[:2]),)


def _has_members(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return wanted.dtype in SEQUENCES and len(wanted.shape) > 0 and 1 <= wanted.shape[0] <= _MOST


def _solve_insert(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    count, *shape = wanted.shape
    focus = scope.supply(wanted.dtype, (count - 1, *shape) if count > 1 else (0,))
    return _insert(scope, focus, scope.supply(element(wanted.dtype), tuple(shape)))


def _sample_erase(scope: Scope, focus: Operand) -> Call | None:
    if not 0 < focus.shape[0] <= _MOST:
        return None
    return Call((focus,) if scope.draws.chance(0.3) else (focus, _position(scope, focus.shape[0])))


def _infer_erase(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return (TensorType(focus.dtype, (focus.shape[0] - 1, *focus.shape[1:])),)


def _sample_at(scope: Scope, focus: Operand) -> Call | None:
    if not focus.shape[0]:
        return None
    return Call((focus, _position(scope, focus.shape[0])))


def _infer_at(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return (TensorType(element(focus.dtype), focus.shape[1:]),)


def _recognise_at(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return wanted.dtype in _LISTED and len(wanted.shape) < MAX_RANK


def _solve_at(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
    count = scope.draws.between(1, 3) if fits((3, *wanted.shape)) else 1
    dtype, shape = _sequence(wanted.dtype, (count, *wanted.shape))
    return _sample_at(scope, scope.supply(dtype, shape))


def _content_length(call: Call) -> Tensor:
    return np.array(call.operand(0).shape[0], dtype=np.int64)


def _bound_length(call: Call) -> tuple[Range, ...]:
    count = call.operand(0).shape[0]
    return (Range(count, count),)


def _sample_split(scope: Scope, focus: Operand) -> Call | None:
    """Into parts of one size, or of one each; then the axis may go."""
    axis = scope.axis(focus.rank)
    dim = focus.shape[axis]
    sizes = [dim // count for count in range(1, _MOST + 1) if dim and dim % count == 0]
    if not sizes:
        return None
    if dim <= _MOST and scope.draws.chance(0.4):
        return Call((focus,), {"axis": axis, "keepdims": scope.draws.below(2)})
    return Call((focus, scope.fix_scalar(scope.draws.pick(sizes), I64)), {"axis": axis})


def _infer_split(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), call.integer("axis", 0) % call.operand(0).rank
    (size,) = call.ints(1) or (1,)
    part = replaced(focus.shape, axis, size)
    if call.optional(1) is None and not call.integer("keepdims", 1):
        part = replaced(focus.shape, axis)
    return (_sequence(focus.dtype, (focus.shape[axis] // size, *part)),)


def _sample_join(scope: Scope, focus: Operand) -> Call | None:
    """Along an axis of the elements, or along a new one."""
    if not focus.shape[0]:
        return None
    rank, draws = focus.rank - 1, scope.draws
    if not rank or (rank < MAX_RANK and draws.chance(0.4)):
        return Call((focus,), {"axis": draws.between(-rank - 1, rank), "new_axis": 1})
    return Call((focus,), {"axis": scope.axis(rank)})


def _infer_join(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), call.integer("axis", 0)
    count, *part = focus.shape
    if call.integer("new_axis", 0):
        axis %= len(part) + 1
        shape = (*part[:axis], count, *part[axis:])
    else:
        axis %= len(part)
        shape = replaced(tuple(part), axis, part[axis] * count)
    return (TensorType(element(focus.dtype), shape),)


def container_entry(
    name: str, dtypes: tuple[DType, ...], ranks: range = ALONG, since: int = FIRST_OPSET
) -> Operator:
    """The entry of an operator on sequences or optionals."""
    realm = DTypeFamily.CONTAINER
    return Operator(name, Kind.CONTAINER, WHOLE, dtypes, ranks=ranks, since=since, realm=realm)


_INSIDE = range(MAX_RANK)

OPERATORS = (
    container_entry("SequenceConstruct", _LISTED, _INSIDE).by(
        _sample_construct, _infer_construct, hull_range, None
    ),
    replace(container_entry("SequenceEmpty", _LISTED, _INSIDE), is_source=True).by(
        _sample_empty, _infer_empty, inside(0, 0), Inverse(_is_empty, _solve_empty)
    ),
    container_entry("SequenceInsert", SEQUENCES).by(
        _sample_insert, _infer_insert, _bound_insert, Inverse(_has_members, _solve_insert)
    ),
    container_entry("SequenceErase", SEQUENCES).by(_sample_erase, _infer_erase, inverse=None),
    container_entry("SequenceAt", SEQUENCES).by(
        _sample_at, _infer_at, inverse=Inverse(_recognise_at, _solve_at)
    ),
    container_entry("SequenceLength", SEQUENCES).by(
        infer=lambda call: (TensorType(I64, ()),),
        bound=_bound_length,
        inverse=None,
        content=_content_length,
    ),
    container_entry("SplitToSequence", (F32, F64, I32, I64)).by(_sample_split, _infer_split, inverse=None),
    container_entry("ConcatFromSequence", SEQUENCES).by(_sample_join, _infer_join, inverse=None),
)
