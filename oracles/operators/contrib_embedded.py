"""Operators of `com.microsoft` that look tokens up in tables: words, positions, segments, characters."""

import math

import numpy as np

from oracles.operators.quantise import fix_scale, fix_zero_point
from oracles.relation.arithmetic import SUMS_INSIDE, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import MATRIX, Attribute, Call, Kind, Operand, Scope, fits
from oracles.relation.rules import another_dim, inside, inverted
from oracles.relation.types import F32, I8, I32, NUMPY, U8, DType, Range, Shape, TensorType, extent, is_filled

_ROWS = 8
"""Rows of a table."""
_IDS = Range(0, _ROWS - 1)


def _hidden(scope: Scope) -> int:
    return scope.draws.pick((1, 2, 3, 4, 8, 12))


def _is_text(shape: Shape) -> bool:
    return len(shape) == 2 and is_filled(shape) and fits((*shape, 12))


def _sample_embedding(scope: Scope, focus: Operand) -> Call | None:
    return _embedding(scope, focus, _hidden(scope)) if _is_text(focus.shape) else None


def _embedding(scope: Scope, words: Operand, hidden: int) -> Call:
    """Rows of a table of words and one of positions, perhaps of segments; normalised."""
    draws, (batch, length) = scope.draws, words.shape
    segments = scope.supply(I32, words.shape, Range(0, 1)) if draws.chance(0.6) else None
    mask = scope.supply(I32, words.shape, Range(0, 1)) if draws.chance(0.4) else None
    rows = (_ROWS, length + draws.below(3), 2 if segments else 0)
    tables = (_table(scope, F32, (count, hidden)) if count else None for count in rows)
    normal = (_table(scope, F32, (hidden,)) for _ in range(2))
    operands: list[Operand | None] = [words, segments, *tables, *normal, mask]
    if draws.chance(0.4):
        operands.append(scope.supply(I32, (draws.pick((1, batch)), length), Range(0, length - 1)))
    attributes: dict[str, Attribute] = {"epsilon": draws.pick((1e-3, 0.1))}
    if mask is None and draws.chance(0.5):
        return Call(tuple(operands), {**attributes, "mask_index_type": 0})
    return Call(tuple(operands), attributes, draws.between(2, 3))


def _table(scope: Scope, dtype: DType, shape: Shape) -> Operand:
    """Weights, of dims that are never symbolic."""
    words = (scope.draws.words(math.prod(shape)).reshape(shape) % 250).astype(np.int64)
    steps = words / 64 - 2 if dtype is F32 else words + int(extent(dtype).low)
    return scope.fix(steps.astype(NUMPY[dtype]), dtype)


def _infer_embedding(call: Call) -> tuple[TensorType, ...]:
    words, table = call.operand(0), call.operand(2)
    embedded = TensorType(F32, (*words.shape, table.shape[1]))
    return (embedded, TensorType(I32, words.shape[:1]), embedded)[: call.results]


def _bound_embedding(call: Call) -> tuple[Range, ...]:
    words, places, segments, scale, shift = (call.optional(at) for at in range(2, 7))
    tables = sum(table.range.magnitude for table in (words, places, segments) if table)
    assert scale is not None
    assert shift is not None
    normal = math.sqrt(scale.shape[0]) * scale.range.magnitude + shift.range.magnitude + 1
    return (symmetric(normal), Range(0, call.operand(0).shape[1]), symmetric(tables))[: call.results]


def _solve_embedding(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return _embedding(scope, scope.supply(I32, wanted.shape[:2], _IDS), wanted.shape[2])


def _is_embedded(shape: Shape) -> bool:
    return len(shape) == 3 and is_filled(shape) and fits((shape[1] + 2, shape[2]), (_ROWS, shape[2]))


def _sample_quantised(scope: Scope, focus: Operand) -> Call | None:
    return _quantised(scope, focus, _hidden(scope)) if _is_text(focus.shape) else None


def _quantised(scope: Scope, words: Operand, hidden: int) -> Call:
    """The same on quantised tables, each with a scale and a zero point."""
    draws, kind = scope.draws, scope.draws.pick((U8, I8))
    has_segments = draws.chance(0.6)
    shapes = [(_ROWS, hidden), (words.shape[1], hidden), (2, hidden), (hidden,), (hidden,)]
    kept = [has_segments or at != 2 for at in range(5)]
    tables = [_table(scope, kind, shape) if keep else None for shape, keep in zip(shapes, kept, strict=True)]
    segments = scope.supply(I32, words.shape, Range(0, 1)) if has_segments else None
    mask = scope.supply(I32, words.shape, Range(0, 1)) if draws.chance(0.4) else None
    scales = [fix_scale(scope, (), 1.0) if keep else None for keep in kept]
    points = [fix_zero_point(scope, kind, ()) if keep else None for keep in kept]
    return Call((words, segments, *tables, mask, *scales, *points), {"epsilon": draws.pick((1e-3, 0.1))}, 2)


def _bound_quantised(call: Call) -> tuple[Range, ...]:
    scale, shift = (255 * call.operand(at).range.magnitude for at in (11, 12))
    return symmetric(math.sqrt(call.operand(5).shape[0]) * scale + shift + 1), Range(
        0, call.operand(0).shape[1]
    )


def _solve_quantised(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return _quantised(scope, scope.supply(I32, wanted.shape[:2], _IDS), wanted.shape[2])


def _sample_characters(scope: Scope, focus: Operand) -> Call | None:
    """Each word is a row of characters, over which a window goes; the greatest response is kept."""
    if not is_filled(focus.shape) or not fits((*focus.shape[:-1], 9)):
        return None
    return _characters(scope, focus, scope.draws.between(1, 9))


def _characters(scope: Scope, words: Operand, made: int) -> Call:
    draws = scope.draws
    window, size = draws.between(1, min(3, words.shape[-1])), draws.between(1, 4)
    weight = scope.supply(F32, (made, 1, window, size))
    table = scope.supply(F32, (_ROWS, size))
    sizes: dict[str, Attribute] = {
        "embedding_size": made,
        "conv_window_size": window,
        "char_embedding_size": size,
    }
    return Call((words, weight, scope.supply(F32, (made,)), table), sizes if draws.chance(0.7) else {})


def _infer_characters(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(F32, (*call.operand(0).shape[:-1], call.operand(1).shape[0])),)


def _solve_characters(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    *rows, made = wanted.shape
    length = another_dim(scope, tuple(rows))
    return _characters(scope, scope.supply(I32, (*rows, length), Range(1, _ROWS - 1)), made)


def _is_of_words(shape: Shape) -> bool:
    return len(shape) == 2 and is_filled(shape) and fits((shape[1], 12))


OPERATORS = (
    Operator(
        "com.microsoft.EmbedLayerNormalization", Kind.NORM, SUMS_INSIDE, (I32,), ranks=MATRIX, domain=_IDS
    ).by(
        _sample_embedding, _infer_embedding, _bound_embedding, inverted(_is_embedded, _solve_embedding, F32)
    ),
    Operator(
        "com.microsoft.QEmbedLayerNormalization", Kind.NORM, SUMS_INSIDE, (I32,), ranks=MATRIX, domain=_IDS
    ).by(
        _sample_quantised, _infer_embedding, _bound_quantised, inverted(_is_embedded, _solve_quantised, F32)
    ),
    Operator(
        "com.microsoft.WordConvEmbedding",
        Kind.LINEAR,
        SUMS_INSIDE,
        (I32,),
        ranks=MATRIX,
        domain=Range(1, _ROWS - 1),
    ).by(
        _sample_characters,
        _infer_characters,
        inside(-1.01, 1.01),
        inverted(_is_of_words, _solve_characters, F32),
    ),
)
