"""Operators of `com.microsoft` that exporters and quantisers write, or that fusions of QDQ groups make."""

import numpy as np

from oracles.operators.part import sample_trilu
from oracles.operators.quantise import (
    DEQUANTISED,
    DEQUANTISES,
    QUANTISED,
    QUANTISES,
    bound_dequantise,
    fix_scale,
    fix_zero_point,
    infer_quantise,
    sample_dequantise,
)
from oracles.operators.recurrent import bound_rotary
from oracles.operators.valued import RANGE, bound_range, infer_range, sample_range
from oracles.relation.arithmetic import (
    MOVES,
    ROUNDS,
    SUMS_INSIDE,
    WHOLE,
    Arithmetic,
    Rounding,
    rounded,
    symmetric,
)
from oracles.relation.operator import Operator
from oracles.relation.program import (
    CUBE,
    FLAT,
    IMAGE,
    MATRIX,
    MAX_RANK,
    Attribute,
    Call,
    Kind,
    Operand,
    Scope,
    fits,
)
from oracles.relation.rules import retyped, when, whole_type, with_zero
from oracles.relation.types import (
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    NUMPY,
    U8,
    U16,
    Range,
    Shape,
    TensorType,
    extent,
    is_filled,
    replaced,
)

_WIDE = (U8, I8, U16, I16)


def _sample_unfold(scope: Scope, focus: Operand) -> Call | None:
    """Windows along an axis, each in a last axis of its own."""
    axis = scope.axis(focus.rank)
    if not is_filled(focus.shape) or focus.rank >= MAX_RANK:
        return None
    size = scope.draws.between(1, min(focus.shape[axis], 4))
    return Call((focus,), {"dim": axis, "size": size, "step": scope.draws.between(1, 2)})


def _infer_unfold(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), call.integer("dim", -1) % call.operand(0).rank
    size, step = call.integer("size", 1), call.integer("step", 1)
    count = (focus.shape[axis] - size) // step + 1
    return (TensorType(focus.dtype, (*replaced(focus.shape, axis, count), size)),)


def _sample_quantise(scope: Scope, focus: Operand) -> Call:
    dtype = scope.draws.pick(_WIDE)
    scale = fix_scale(scope, (), focus.range.magnitude)
    if dtype is U8 and scope.draws.chance(0.3):
        return Call((focus, scale))
    return Call((focus, scale, fix_zero_point(scope, dtype, ())))


def _bound_quantise(call: Call) -> tuple[Range, ...]:
    return (extent(infer_quantise(call)[0].dtype),)


def _sample_nbits(scope: Scope, focus: Operand) -> Call | None:
    """The focus by a matrix of four bits an element, in blocks of a column; zero points come now and then."""
    draws, columns, inner = scope.draws, max(1, scope.dim()), focus.shape[-1]
    if not is_filled(focus.shape) or not fits((columns, 32)):
        return None
    block = draws.pick((16, 32))
    blocks = -(-inner // block)
    packed = draws.words(columns * blocks * block // 2).astype(np.uint8)
    scales = (1 + draws.words(columns * blocks) % 8).astype(np.float64) / 64
    weight = scope.fix(packed.reshape(columns, blocks, block // 2), U8)
    operands = [focus, weight, scope.fix(scales.astype(NUMPY[focus.dtype]), focus.dtype)]
    if draws.chance(0.5):
        points = draws.words(columns * (-(-blocks // 2))).astype(np.uint8)
        operands.append(scope.fix(points, U8))
    sizes: dict[str, Attribute] = {"K": inner, "N": columns, "bits": 4, "block_size": block}
    return Call(tuple(operands), sizes)


def infer_nbits(call: Call) -> tuple[TensorType, ...]:
    """Rows by as many columns as the attribute `N` says."""
    focus = call.operand(0)
    return (TensorType(focus.dtype, (*focus.shape[:-1], call.integer("N", 1))),)


def _bound_nbits(call: Call) -> tuple[Range, ...]:
    """An element is at most 15 steps of an eighth away from its zero point."""
    focus = call.operand(0)
    return (symmetric(rounded(16 / 8 * focus.range.magnitude * focus.shape[-1])),)


def _sample_rotary(scope: Scope, focus: Operand) -> Call | None:
    """Batch, length, heads side by side, each of an even size."""
    draws, (batch, length, hidden) = scope.draws, focus.shape
    sizes = [size for size in (2, 4, 8) if hidden % size == 0]
    if not sizes or not is_filled(focus.shape):
        return None
    size = draws.pick(sizes)
    first = draws.chance(0.5)
    positions = scope.fix_ints([0]) if first else scope.supply(I64, (batch, length), Range(0, length - 1))
    cache = (length, size // 2)
    waves = tuple(scope.supply(focus.dtype, cache, Range(-1, 1)) for _ in range(2))
    attributes: dict[str, Attribute] = {"interleaved": draws.below(2)}
    if size != hidden:
        attributes |= {"num_heads": hidden // size, "rotary_embedding_dim": size}
    return Call((focus, positions, *waves), attributes)


def _is_rotary(shape: Shape) -> bool:
    return len(shape) == 3 and is_filled(shape) and shape[2] % 2 == 0


def _sample_qgemm(scope: Scope, focus: Operand) -> Call:
    """Float results where no scale of the result is given."""
    draws, one = scope.draws, ()
    columns, to_float = max(1, scope.dim()), draws.chance(0.5)
    second = I8 if focus.dtype is I8 or draws.chance(0.5) else U8
    transposed = draws.chance(0.3)
    shape = (focus.shape[1], columns)
    weight = scope.supply(second, shape[::-1] if transposed else shape)
    parts: list[Operand | None] = []
    for operand in (focus, weight):
        parts += [operand, fix_scale(scope, one, 1.0), fix_zero_point(scope, operand.dtype, one)]
    bias = scope.supply(I32, (columns,), Range(-1000, 1000)) if draws.chance(0.5) else None
    if bias is not None or not to_float:
        parts.append(bias)
    if not to_float:
        parts += [fix_scale(scope, one, float(focus.shape[1])), fix_zero_point(scope, focus.dtype, one)]
    return Call(tuple(parts), {"transB": 1} if transposed else {})


def _infer_qgemm(call: Call) -> tuple[TensorType, ...]:
    rows, weight = call.operand(0).shape[0], call.operand(3).shape
    columns = weight[0 if call.attributes.get("transB") else 1]
    result = call.optional(8)
    return (TensorType(result.dtype if result else F32, (rows, columns)),)


def _bound_qgemm(call: Call) -> tuple[Range, ...]:
    result = call.optional(8)
    if result is not None:
        return (extent(result.dtype),)
    steps = call.operand(1).range.magnitude * call.operand(4).range.magnitude
    return (symmetric(rounded(steps * (256 * 256 * call.operand(0).shape[1] + 1000))),)


def _sample_average(scope: Scope, focus: Operand) -> Call:
    """Windows inside the image."""
    kernel = tuple(scope.draws.between(1, min(3, dim)) for dim in focus.shape[2:])
    scales = tuple(
        part for _ in range(2) for part in (fix_scale(scope, (), 1.0), fix_zero_point(scope, focus.dtype, ()))
    )
    return Call((focus, *scales), {"kernel_shape": kernel})


def _infer_average(call: Call) -> tuple[TensorType, ...]:
    focus, kernel = call.operand(0), call.tuple_of("kernel_shape", ())
    spatial = tuple(dim - size + 1 for dim, size in zip(focus.shape[2:], kernel, strict=True))
    return (TensorType(focus.dtype, (*focus.shape[:2], *spatial)),)


def _sample_nhwc(scope: Scope, focus: Operand) -> Call:
    """Channels come last."""
    kernel = tuple(scope.draws.between(1, min(3, dim)) for dim in focus.shape[1:3])
    return Call((focus,), {"kernel_shape": kernel})


def _infer_nhwc(call: Call) -> tuple[TensorType, ...]:
    focus, (high, wide) = call.operand(0), call.tuple_of("kernel_shape", ())
    batch, height, width, channels = focus.shape
    return (TensorType(focus.dtype, (batch, height - high + 1, width - wide + 1, channels)),)


OPERATORS = (
    Operator("com.microsoft.Trilu", Kind.PART, MOVES, (F32, F64, I64), ranks=FLAT).by(
        sample_trilu, bound=with_zero
    ),
    Operator(
        "com.microsoft.Range", Kind.PART, WHOLE, (I64, I32, I16), ranks=range(1), domain=Range(0, 64)
    ).by(sample_range, infer_range, bound_range, RANGE),
    Operator(
        "com.microsoft.UnfoldTensor", Kind.PART, WHOLE, (F32, F64, I32, I64), ranks=range(1, MAX_RANK)
    ).by(_sample_unfold, _infer_unfold, inverse=None),
    Operator("com.microsoft.QuantizeLinear", Kind.QUANTISE, QUANTISES, (F32,)).by(
        _sample_quantise, infer_quantise, _bound_quantise, None
    ),
    Operator("com.microsoft.DequantizeLinear", Kind.QUANTISE, DEQUANTISES, (*_WIDE, I32)).by(
        sample_dequantise, DEQUANTISED, bound_dequantise, retyped(F32)
    ),
    Operator(
        "com.microsoft.MatMulNBits",
        Kind.LINEAR,
        Arithmetic(Rounding.INSIDE, quantises=True),
        (F32, F16),
        ranks=FLAT,
    ).by(_sample_nbits, infer_nbits, _bound_nbits, None),
    Operator("com.microsoft.RotaryEmbedding", Kind.LINEAR, SUMS_INSIDE, (F32, F16), ranks=CUBE).by(
        _sample_rotary, bound=bound_rotary, inverse=when(_is_rotary)
    ),
    Operator("com.microsoft.QGemm", Kind.QUANTISE, SUMS_INSIDE, QUANTISED, ranks=MATRIX, filled=True).by(
        _sample_qgemm, _infer_qgemm, _bound_qgemm, None
    ),
    Operator(
        "com.microsoft.QLinearAveragePool", Kind.QUANTISE, ROUNDS, QUANTISED, ranks=IMAGE, filled=True
    ).by(_sample_average, _infer_average, whole_type, None),
    Operator("com.microsoft.NhwcMaxPool", Kind.POOL, WHOLE, QUANTISED, ranks=IMAGE, filled=True).by(
        _sample_nhwc, _infer_nhwc, inverse=None
    ),
)
