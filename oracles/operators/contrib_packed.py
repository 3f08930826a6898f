"""Operators of `com.microsoft` whose weights are packed or come by the expert: of few bits, in blocks."""

import math

import numpy as np

from oracles.operators.contrib_exported import infer_nbits
from oracles.operators.quantise import fix_zero_point
from oracles.relation.arithmetic import ROUNDS, SUMS_INSIDE, WHOLE, Arithmetic, Rounding, rounded, symmetric
from oracles.relation.open_checks import has_sequences
from oracles.relation.operator import Operator
from oracles.relation.program import CUBE, FLAT, MAX_RANK, Attribute, Call, Kind, Operand, Scope, fits
from oracles.relation.rules import inside, when
from oracles.relation.types import (
    F16,
    F32,
    FLOAT8,
    I4,
    I8,
    I16,
    I32,
    I64,
    NUMPY,
    U4,
    U8,
    DType,
    Range,
    Shape,
    TensorType,
    is_filled,
)

_QUANTISED = Arithmetic(Rounding.INSIDE, quantises=True)
_LAYER = Arithmetic(
    Rounding.INSIDE, quantises=True, opens={"sequences that may share a range": has_sequences}
)
_ROWS = 8
_STEP = 0.125
_UNIT = Range(-1, 1)


def _bits(scope: Scope, shape: Shape, dtype: DType = U8) -> Operand:
    """Any bits: a constant of packed numbers."""
    words = scope.draws.words(math.prod(shape)).reshape(shape)
    if dtype in (U4, I4):
        return scope.constant((words % 8).astype(NUMPY[dtype]), dtype)
    if dtype in FLOAT8:
        return scope.constant((words % 32 / 16 - 1).astype(np.float32).astype(NUMPY[dtype]), dtype)
    return scope.constant(words.astype(NUMPY[dtype]), dtype)


def _steps(scope: Scope, shape: Shape, dtype: DType = F32) -> Operand:
    """Scales of packed numbers: sixteenths up to an eighth."""
    words = scope.draws.words(math.prod(shape)).reshape(shape)
    return scope.constant(((1 + words % 8) * (_STEP / 8)).astype(NUMPY[dtype]), dtype)


def _sample_rows(scope: Scope, focus: Operand) -> Call | None:
    """Rows of a table in blocks. Zeros come where an index is beyond it."""
    draws, width = scope.draws, scope.draws.pick((4, 16, 20, 32, 48))
    if focus.rank >= MAX_RANK or not fits((*focus.shape, width)):
        return None
    narrow = [dtype for dtype in (U4, I4, FLOAT8[0], FLOAT8[2]) if scope.opset >= 21 and scope.allows(dtype)]
    kind = draws.pick((U8, U8, *narrow))
    bits, block = draws.pick((2, 4, 8)) if kind is U8 else 4, draws.pick((16, 32))
    blocks = -(-width // block)
    packed = width * bits // 8 if kind is U8 else width
    operands = [_bits(scope, (_ROWS, packed), kind), focus, _steps(scope, (_ROWS, blocks))]
    if kind not in FLOAT8 and draws.chance(0.5):
        operands.append(_bits(scope, (_ROWS, -(-blocks * bits // 8) if kind is U8 else blocks), kind))
    attributes: dict[str, Attribute] = {
        "block_size": block,
        "bits": bits,
        "quantize_axis": draws.pick((1, -1)),
    }
    return Call(tuple(operands), attributes)


def _infer_rows(call: Call) -> tuple[TensorType, ...]:
    data, indices, scales = (call.operand(at) for at in range(3))
    width = data.shape[1] * 8 // call.integer("bits", 4) if data.dtype is U8 else data.shape[1]
    return (TensorType(scales.dtype, (*indices.shape, width)),)


def _sample_bnb4(scope: Scope, focus: Operand) -> Call | None:
    """The focus by a matrix of numbers from a table of sixteen, in blocks that go on over its rows."""
    draws, columns, inner = scope.draws, max(1, scope.dim()), focus.shape[-1]
    if not is_filled(focus.shape) or not fits((columns, inner)):
        return None
    block, count = draws.pick((16, 32, 64)), columns * inner
    weight = _bits(scope, (-(-count // 2),))
    sizes = {"K": inner, "N": columns, "block_size": block, "quant_type": draws.below(2)}
    return Call((focus, weight, _steps(scope, (-(-count // block),))), sizes)


def _bound_bnb4(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    return (symmetric(rounded(_STEP * focus.range.magnitude * focus.shape[-1] * 1.01)),)


_ACTIVATIONS = ("relu", "gelu", "silu", "identity", "swiglu")


def _is_routed(shape: Shape) -> bool:
    return 2 <= len(shape) <= 3 and is_filled(shape) and fits((3, 8, shape[-1]), (*shape[:-1], 3))


def _sample_experts(scope: Scope, focus: Operand) -> Call | None:
    """Each token goes to the experts of its greatest numbers: two layers, and a third where it gates."""
    if not _is_routed(focus.shape):
        return None
    draws, size, experts = scope.draws, focus.shape[-1], scope.draws.between(1, 3)
    attributes, inner, made = _expert_form(scope, experts)
    bias = draws.chance(0.5)
    operands: list[Operand | None] = [focus, scope.supply(F32, (math.prod(focus.shape[:-1]), experts), _UNIT)]
    for shape in ((made, size), (size, inner)):
        operands.append(scope.supply(F32, (experts, *shape), _UNIT))
        operands.append(scope.supply(F32, (experts, shape[0]), _UNIT) if bias else None)
    return Call(tuple(operands), attributes)


def _expert_form(scope: Scope, experts: int) -> tuple[dict[str, Attribute], int, int]:
    """The attributes, the width between the layers, and what the first layer makes: twice that for a gate."""
    draws, kind = scope.draws, scope.draws.pick(_ACTIVATIONS)
    attributes: dict[str, Attribute] = {"k": draws.between(1, experts), "activation_type": kind}
    attributes |= {"normalize_routing_weights": draws.below(2)}
    inner = draws.pick((2, 4))
    if kind != "swiglu":
        return attributes, inner, inner
    return {**attributes, "swiglu_fusion": 1, "swiglu_limit": 4.0}, inner, 2 * inner


def _bound_experts(call: Call) -> tuple[Range, ...]:
    """Weights and biases are at most 1, gates at most squares; each of the experts may count in full."""
    size = call.operand(0).shape[-1]
    first = call.operand(0).range.magnitude * size + 2
    return (symmetric(rounded(8 * max(first, 20.0) * 3 + 3)),)


def _sample_packed_experts(scope: Scope, focus: Operand) -> Call | None:
    """A scale for each row of the weights, or one for each block of it; zero points come now and then."""
    if not _is_packed_routed(focus.shape):
        return None
    draws, size, experts = scope.draws, focus.shape[-1], scope.draws.between(1, 3)
    attributes, inner, made = _expert_form(scope, experts)
    bits, bias, block = draws.pick((4, 8)), draws.chance(0.5), 0
    if not size % 16 and fits((experts, 32, size)) and draws.chance(0.6):
        made, inner, block = 16 * made // inner, 16, 16
    operands: list[Operand | None] = [
        focus,
        scope.supply(focus.dtype, (math.prod(focus.shape[:-1]), experts), _UNIT),
    ]
    points: list[Operand] = []
    for rows, columns in ((made, size), (size, inner)):
        scales = (experts, rows, columns // block) if block else (experts, rows)
        operands += [_bits(scope, (experts, rows, columns * bits // 8)), _steps(scope, scales, focus.dtype)]
        operands.append(scope.supply(focus.dtype, (experts, rows), _UNIT) if bias else None)
        points.append(_bits(scope, (*scales[:-1], -(-scales[-1] * bits // 8))))
    if draws.chance(0.4):
        operands += [None, None, None, *points]
    attributes |= {"block_size": block} if block else {}
    return Call(tuple(operands), {**attributes, "expert_weight_bits": bits})


def _bound_packed_experts(call: Call) -> tuple[Range, ...]:
    """A weight is at most 255 steps from its zero point."""
    far = 256 * _STEP
    first = call.operand(0).range.magnitude * call.operand(0).shape[-1] * far + 2
    return (symmetric(rounded(8 * max(first, 20.0) * far * 3 + 3)),)


def _is_packed_routed(shape: Shape) -> bool:
    return _is_routed(shape) and not shape[-1] % 2


def _sample_layer(scope: Scope, focus: Operand) -> Call:
    """An LSTM whose weights are quantised, with one scale a direction or one a column."""
    draws, (length, batch, size) = scope.draws, focus.shape
    hidden, ways = draws.between(1, 5), draws.pick((1, 1, 2))
    kind, direction = (
        draws.pick((U8, I8)),
        "bidirectional" if ways == 2 else draws.pick(("forward", "reverse")),
    )
    weights = tuple(_bits(scope, (ways, rows, 4 * hidden), kind) for rows in (size, hidden))
    starts: list[Operand | None] = [None] * 5
    if draws.chance(0.5):
        state = (ways, batch, hidden)
        lengths = scope.supply(I32, (batch,), Range(1, length)) if draws.chance(0.5) else None
        starts = [scope.supply(F32, (ways, 8 * hidden)), lengths]
        starts += [*(scope.supply(F32, state, _UNIT) for _ in range(2)), None]
    scales = (ways, 4 * hidden) if draws.chance(0.3) else (ways,)
    points = [part for _ in range(2) for part in (_steps(scope, scales), _middle(scope, kind, scales))]
    sizes: dict[str, Attribute] = {"hidden_size": hidden, "direction": direction}
    return Call((focus, *weights, *starts, *points), sizes, draws.between(1, 3))


def _middle(scope: Scope, dtype: DType, size: Shape) -> Operand:
    """A zero point, which is 0 if each column has its own."""
    if len(size) < 2:
        return fix_zero_point(scope, dtype, size)
    return scope.fix(np.zeros(size, NUMPY[dtype]), dtype)


def _infer_layer(call: Call) -> tuple[TensorType, ...]:
    (length, batch, _), (ways, hidden, _) = call.operand(0).shape, call.operand(2).shape
    last = TensorType(F32, (ways, batch, hidden))
    return (TensorType(F32, (length, ways, batch, hidden)), last, last)[: call.results]


def _bound_layer(call: Call) -> tuple[Range, ...]:
    return (_UNIT, _UNIT, symmetric(call.operand(0).shape[0] + 1.0))[: call.results]


_SHORT = Range(-800, 800)
"""The sum of 2048 products of these fits into 32 bits."""


def _sample_short(scope: Scope, focus: Operand) -> Call:
    return Call((focus, scope.supply(I16, (focus.shape[-1], max(1, scope.dim())), _SHORT)))


def _infer_short(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(I32, (*call.operand(0).shape[:-1], call.operand(1).shape[1])),)


def _bound_short(call: Call) -> tuple[Range, ...]:
    left, right = call.operand(0), call.operand(1)
    return (symmetric(left.range.magnitude * right.range.magnitude * left.shape[-1]),)


OPERATORS = (
    Operator(
        "com.microsoft.GatherBlockQuantized",
        Kind.PART,
        ROUNDS,
        (I32, I64),
        ranks=range(MAX_RANK),
        domain=Range(-_ROWS - 3, _ROWS + 3),
    ).by(_sample_rows, _infer_rows, inside(-512.0, 512.0), None),
    Operator("com.microsoft.MatMulBnb4", Kind.LINEAR, _QUANTISED, (F32,), ranks=FLAT).by(
        _sample_bnb4, infer_nbits, _bound_bnb4, None
    ),
    Operator("com.microsoft.MoE", Kind.LINEAR, SUMS_INSIDE, (F32,), ranks=range(2, 4)).by(
        _sample_experts, bound=_bound_experts, inverse=when(_is_routed)
    ),
    Operator("com.microsoft.QMoE", Kind.LINEAR, _QUANTISED, (F32, F16), ranks=range(2, 4)).by(
        _sample_packed_experts, bound=_bound_packed_experts, inverse=when(_is_packed_routed)
    ),
    Operator("com.microsoft.DynamicQuantizeLSTM", Kind.RECURRENT, _LAYER, (F32,), ranks=CUBE, filled=True).by(
        _sample_layer, _infer_layer, _bound_layer, None
    ),
    Operator(
        "com.microsoft.MatMulInteger16", Kind.QUANTISE, WHOLE, (I16,), ranks=FLAT, domain=_SHORT, filled=True
    ).by(_sample_short, _infer_short, _bound_short, None),
)
