"""Signals in the domain of frequencies."""

from __future__ import annotations

from oracles.relation.arithmetic import ROUNDS, SUMS_INSIDE
from oracles.relation.intervals import symmetric
from oracles.relation.inverses import fits, is_filled
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import Attribute, Call, Kind, Operand
from oracles.relation.scope import Scope
from oracles.relation.types import F32, F64, I32, I64, DType, Range, TensorType

_RATE = 8000
_MELS = (F32, F64, I32, I64)


def _sample_frames(scope: Scope, focus: Operand) -> Call | None:
    """Frames of a real or complex signal, with a window or a length."""
    batch, length, parts = focus.shape
    if not batch or length < 2 or parts not in (1, 2):
        return None
    draws = scope.draws
    size = draws.between(2, min(length, 16))
    half = parts == 1 and draws.chance(0.6)
    return _frames(scope, focus, draws.between(1, 3), size, half)


def _frames(scope: Scope, focus: Operand, step: int, size: int, half: bool) -> Call:
    draws = scope.draws
    window = scope.supply(focus.dtype, (size,)) if draws.chance(0.5) else None
    length = None if window is not None and draws.chance(0.5) else scope.fix_scalar(size, I64)
    operands = (focus, scope.fix_scalar(step, I64), window, length)
    return Call(operands[:3] if length is None else operands, {"onesided": int(half)})


def _frame_size(call: Call) -> int:
    window = call.optional(2)
    return window.shape[0] if window is not None else (call.ints(3) or (1,))[0]


def _infer_frames(call: Call) -> tuple[TensorType, ...]:
    focus, (step,) = call.operand(0), call.ints(1) or (1,)
    size = _frame_size(call)
    bins = size // 2 + 1 if call.integer("onesided", 1) else size
    frames = (focus.shape[1] - size) // step + 1
    return (TensorType(focus.dtype, (focus.shape[0], frames, bins, 2)),)


def _bound_frames(call: Call) -> tuple[Range, ...]:
    window = call.optional(2)
    gain = window.range.magnitude if window is not None else 1.0
    return (symmetric(2 * _frame_size(call) * call.operand(0).range.magnitude * gain),)


def _recognise_frames(operator: Operator, wanted: TensorType, opset: int) -> bool:
    dtype, shape = wanted
    if dtype not in operator.dtypes or len(shape) != 4 or not is_filled(shape):
        return False
    batch, frames, bins, parts = shape
    return parts == 2 and bins >= 2 and fits((batch, frames - 1 + bins, 2))


def _solve_frames(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Every bin is kept, one step apart."""
    batch, frames, bins, _ = wanted.shape
    focus = scope.supply(wanted.dtype, (batch, frames - 1 + bins, scope.draws.between(1, 2)))
    return _frames(scope, focus, 1, bins, False)


def _sample_mel(scope: Scope, focus: Operand) -> Call | None:
    """Make a mel matrix with as many bands as the known focus says."""
    if focus.content is None or not 1 <= int(focus.content) <= 16:
        return None
    return _mel(scope, focus, scope.draws.pick((8, 15, 16, 32)), scope.draws.pick(_MELS))


def _mel(scope: Scope, bands: Operand, length: int, dtype: DType) -> Call:
    numbers = tuple(scope.fix_scalar(number, bands.dtype) for number in (length, _RATE))
    edges = tuple(scope.fix_scalar(edge, F32) for edge in (0.0, 0.45 * _RATE))
    attributes: dict[str, Attribute] = {} if dtype is F32 else {"output_datatype": int(dtype)}
    return Call((bands, *numbers, *edges), attributes)


def _infer_mel(call: Call) -> tuple[TensorType, ...]:
    (bands,), (length,) = call.ints(0) or (1,), call.ints(1) or (1,)
    return (TensorType(DType(call.integer("output_datatype", F32)), (length // 2 + 1, bands)),)


def _recognise_mel(operator: Operator, wanted: TensorType, opset: int) -> bool:
    dtype, shape = wanted
    return dtype in _MELS and len(shape) == 2 and 2 <= shape[0] <= 65 and 1 <= shape[1] <= 16


def _solve_mel(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    rows, bands = wanted.shape
    length = 2 * (rows - 1) + scope.draws.below(2)
    count = scope.fix_scalar(bands, scope.draws.pick((I64, I32)))
    return _mel(scope, count, length, wanted.dtype)


OPERATORS = (
    Operator(
        "STFT",
        Kind.LINEAR,
        SUMS_INSIDE,
        (F32, F64),
        _sample_frames,
        _infer_frames,
        _bound_frames,
        range(3, 4),
        since=17,
        inverse=Inverse(_recognise_frames, _solve_frames),
    ),
    Operator(
        "MelWeightMatrix",
        Kind.PART,
        ROUNDS,
        (I64, I32),
        _sample_mel,
        _infer_mel,
        lambda call: (Range(0, 1.1),),
        range(1),
        Range(1, 16),
        since=17,
        inverse=Inverse(_recognise_mel, _solve_mel),
    ),
)
