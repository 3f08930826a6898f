"""Operators of `com.microsoft` on tokens: tables that they are looked up in, hashes, n-grams, pieces."""

import math
import re

import numpy as np

from oracles.operators.quantise import fix_scale, fix_zero_point
from oracles.relation.arithmetic import SUMS_INSIDE, WHOLE, Arithmetic, Rounding, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import MATRIX, VECTOR, Attribute, Call, Kind, Operand, Scope, fits
from oracles.relation.rules import inside
from oracles.relation.types import (
    F32,
    I8,
    I32,
    I64,
    NUMPY,
    TEXT,
    U8,
    U32,
    U64,
    DType,
    Range,
    Shape,
    TensorType,
    extent,
    is_filled,
)


def _sample_hash(scope: Scope, focus: Operand) -> Call:
    positive = scope.draws.below(2)
    seed: dict[str, Attribute] = {"seed": scope.draws.pick((0, 1, 42))} if scope.draws.chance(0.5) else {}
    return Call((focus,), {**seed, "positive": positive})


def _infer_hash(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(U32 if call.integer("positive", 1) else I32, call.operand(0).shape),)


_GRAMS = Range(0, 1000)
"""Tokens whose products with the multipliers stay inside their type."""


def _perhaps(scope: Scope, of: TensorType, within: Range) -> Operand | None:
    return scope.supply(*of, within) if scope.draws.chance(0.4) else None


def _sample_grams(scope: Scope, focus: Operand) -> Call | None:
    """Up to six hashes of each token with those before it.

    These may be of an earlier call, or of another segment. Sequences are rows, or stand one behind the
    other and start where an operand says.
    """
    if not fits((*focus.shape, 6)):
        return None
    draws, dtype = scope.draws, focus.dtype
    most, heads = draws.pick(((2, 1), (2, 3), (3, 1), (3, 3)))
    rows, starts = focus.shape[0], []
    if focus.rank == 1:
        cuts = sorted(draws.sample(range(1, rows), min(rows - 1, draws.below(4))))
        starts = [scope.fix(np.array([0, *cuts, rows], np.int32), I32)]
        rows = len(cuts) + 1
    sizes = (((most - 1) * heads,), (rows, most - 1))
    operands: list[Operand | None] = [focus, scope.supply(dtype, (most,), Range(1, 99))]
    operands += [scope.supply(dtype, sizes[0], Range(1, 97)), *starts]
    operands.append(_perhaps(scope, TensorType(dtype, sizes[1]), _GRAMS))
    operands.append(_perhaps(scope, TensorType(dtype, sizes[0]), Range(0, 99)))
    operands.append(_perhaps(scope, TensorType(dtype, ()), _GRAMS))
    operands.append(_perhaps(scope, TensorType(I32, focus.shape), Range(0, 2)))
    attributes = {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": draws.below(3)}
    return Call(tuple(operands), {**attributes, "reset_on_eos": draws.below(2)}, draws.between(1, 2))


def _infer_grams(call: Call) -> tuple[TensorType, ...]:
    tokens, count = call.operand(0), call.operand(2).shape[0]
    batch = call.operand(3).shape[0] - 1 if tokens.rank == 1 else tokens.shape[0]
    present = TensorType(tokens.dtype, (batch, call.integer("max_ngram_size", 2) - 1))
    return (TensorType(tokens.dtype, (*tokens.shape, count)), present)[: call.results]


def _sample_repeats(scope: Scope, focus: Operand) -> Call:
    """Tokens of a row are all different, so that no score becomes infinite."""
    draws, (batch, count) = scope.draws, focus.shape
    length = draws.between(1, min(count, 8))
    rows = [draws.sample(range(count), length) for _ in range(batch)]
    return Call((scope.fix(np.array(rows, np.int64)), focus), {"ngram_size": draws.between(2, 4)})


def _sample_bifurcation(scope: Scope, focus: Operand) -> Call:
    """Predicted tokens are taken over up to the first that differs from the source."""
    draws, taken = scope.draws, scope.draws.between(1, 4)
    source = [draws.below(5) for _ in range(taken + draws.below(3))]
    skipped = draws.below(len(source) - taken + 1)
    operands = [scope.fix(np.array(source, np.int64)), focus, scope.fix_scalar(skipped, I64)]
    rest = source[skipped:]
    guess = [*rest[: taken - 1], *(7 for _ in rest[taken - 1 :]), 7]
    operands.append(scope.constant(np.array(guess, np.int64), I64))
    least = draws.between(1, 2)
    return Call(tuple(operands), {"min_ngram_size": least, "max_ngram_size": least + draws.below(2)}, 2)


def _infer_bifurcation(call: Call) -> tuple[TensorType, ...]:
    source, current, guess = call.ints(0) or (), call.operand(1), call.ints(3) or ()
    pairs = zip(source[(call.ints(2) or (0,))[0] :], guess, strict=False)
    taken = 1 + next((at for at, (true, said) in enumerate(pairs) if true != said), len(guess) - 1)
    return TensorType(I64, (current.shape[0] + taken,)), TensorType(I64, ())


def _bound_bifurcation(call: Call) -> tuple[Range, ...]:
    low = min(value.range.low for value in call.present)
    high = max(value.range.high for value in call.present)
    return Range(low, high), Range(-1, call.operand(0).shape[0])


_CUTS: tuple[dict[str, Attribute], ...] = (
    {"separators": (" ",)},
    {"separators": (",", " ")},
    {"separators": ("-",)},
    {"tokenexp": "[a-z]+"},
    {"tokenexp": "[0-9]+"},
)


_MOST_PIECES = 6


def _sample_tokens(scope: Scope, focus: Operand) -> Call | None:
    known = focus.content
    if known is None or not focus.is_constant or not known.size or not all(known.reshape(-1).tolist()):
        return None
    call = Call((focus,), _cut(scope, scope.draws.pick(_CUTS)))
    return call if _infer_tokens(call)[0].shape[-1] <= _MOST_PIECES else None


def _cut(scope: Scope, by: dict[str, Attribute]) -> dict[str, Attribute]:
    return {**by, "mark": scope.draws.below(2), "mincharnum": 1, "pad_value": scope.draws.pick(("#", ""))}


def _pieces(call: Call, word: str) -> int:
    """How many pieces a word has; separators are characters, or an expression says what a piece is."""
    separators = call.attributes.get("separators")
    if isinstance(separators, tuple):
        return len([piece for piece in re.split("|".join(map(str, separators)), word) if piece])
    return len(re.findall(str(call.attributes["tokenexp"]), word))


def _infer_tokens(call: Call) -> tuple[TensorType, ...]:
    known, focus = call.operand(0).content, call.operand(0)
    assert known is not None
    most = max(_pieces(call, str(word)) for word in known.reshape(-1).tolist())
    return (TensorType(TEXT, (*focus.shape, most + 2 * call.integer("mark", 0) if most else 0)),)


def _hashes(name: str, rank: int) -> Operator:
    return Operator(
        f"com.microsoft.{name}",
        Kind.PART,
        WHOLE,
        (I32, I64),
        ranks=range(rank, rank + 1),
        domain=_GRAMS,
        filled=True,
    ).by(
        _sample_grams,
        _infer_grams,
        lambda call: (Range(0, 200), _GRAMS)[: call.results],
        None,
    )


_ROWS = 8
"""Rows of a table."""
_IDS = Range(0, _ROWS - 1)


def _hidden(scope: Scope) -> int:
    return scope.draws.pick((1, 2, 3, 4, 8, 12))


def _is_text(shape: Shape) -> bool:
    return len(shape) == 2 and is_filled(shape) and fits((*shape, 12))


def _sample_embedding(scope: Scope, focus: Operand) -> Call | None:
    """Rows of a table of words and one of positions, perhaps of segments; normalised."""
    if not _is_text(focus.shape):
        return None
    draws, hidden, (batch, length) = scope.draws, _hidden(scope), focus.shape
    segments = scope.supply(I32, focus.shape, Range(0, 1)) if draws.chance(0.6) else None
    mask = scope.supply(I32, focus.shape, Range(0, 1)) if draws.chance(0.4) else None
    rows = (_ROWS, length + draws.below(3), 2 if segments else 0)
    tables = (_table(scope, F32, (count, hidden)) if count else None for count in rows)
    normal = (_table(scope, F32, (hidden,)) for _ in range(2))
    operands: list[Operand | None] = [focus, segments, *tables, *normal, mask]
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


def _sample_quantised(scope: Scope, focus: Operand) -> Call | None:
    """The same on quantised tables, each with a scale and a zero point."""
    if not _is_text(focus.shape):
        return None
    draws, hidden, kind = scope.draws, _hidden(scope), scope.draws.pick((U8, I8))
    has_segments = draws.chance(0.6)
    shapes = [(_ROWS, hidden), (focus.shape[1], hidden), (2, hidden), (hidden,), (hidden,)]
    kept = [has_segments or at != 2 for at in range(5)]
    tables = [_table(scope, kind, shape) if keep else None for shape, keep in zip(shapes, kept, strict=True)]
    segments = scope.supply(I32, focus.shape, Range(0, 1)) if has_segments else None
    mask = scope.supply(I32, focus.shape, Range(0, 1)) if draws.chance(0.4) else None
    scales = [fix_scale(scope, (), 1.0) if keep else None for keep in kept]
    points = [fix_zero_point(scope, kind, ()) if keep else None for keep in kept]
    return Call((focus, segments, *tables, mask, *scales, *points), {"epsilon": draws.pick((1e-3, 0.1))}, 2)


def _bound_quantised(call: Call) -> tuple[Range, ...]:
    scale, shift = (255 * call.operand(at).range.magnitude for at in (11, 12))
    return symmetric(math.sqrt(call.operand(5).shape[0]) * scale + shift + 1), Range(
        0, call.operand(0).shape[1]
    )


def _sample_characters(scope: Scope, focus: Operand) -> Call | None:
    """Each word is a row of characters, over which a window goes; the greatest response is kept."""
    if not is_filled(focus.shape) or not fits((*focus.shape[:-1], 9)):
        return None
    draws, made = scope.draws, scope.draws.between(1, 9)
    window, size = draws.between(1, min(3, focus.shape[-1])), draws.between(1, 4)
    weight = scope.supply(F32, (made, 1, window, size))
    table = scope.supply(F32, (_ROWS, size))
    sizes: dict[str, Attribute] = {
        "embedding_size": made,
        "conv_window_size": window,
        "char_embedding_size": size,
    }
    return Call((focus, weight, scope.supply(F32, (made,)), table), sizes if draws.chance(0.7) else {})


def _infer_characters(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(F32, (*call.operand(0).shape[:-1], call.operand(1).shape[0])),)


OPERATORS = (
    Operator(
        "com.microsoft.MurmurHash3",
        Kind.PART,
        Arithmetic(Rounding.NOTHING, reads_bits=True),
        (I32, U32, I64, U64, TEXT),
    ).by(
        _sample_hash,
        _infer_hash,
        lambda call: (extent(_infer_hash(call)[0].dtype),),
        None,
    ),
    _hashes("NGramHashMapping", 2),
    _hashes("VarlenNGramHashMapping", 1),
    Operator("com.microsoft.NGramRepeatBlock", Kind.PART, WHOLE, (F32,), ranks=MATRIX, filled=True).by(
        _sample_repeats, lambda call: (call.operand(1).type,), lambda call: (call.operand(1).range,)
    ),
    Operator("com.microsoft.BifurcationDetector", Kind.PART, WHOLE, (I64,), ranks=VECTOR, filled=True).by(
        _sample_bifurcation, _infer_bifurcation, _bound_bifurcation, None
    ),
    Operator("com.microsoft.Tokenizer", Kind.TEXT, WHOLE, (TEXT,), ranks=range(1, 3)).by(
        _sample_tokens, _infer_tokens, inside(-math.inf, math.inf), None
    ),
    Operator(
        "com.microsoft.EmbedLayerNormalization", Kind.NORM, SUMS_INSIDE, (I32,), ranks=MATRIX, domain=_IDS
    ).by(_sample_embedding, _infer_embedding, _bound_embedding, None),
    Operator(
        "com.microsoft.QEmbedLayerNormalization", Kind.NORM, SUMS_INSIDE, (I32,), ranks=MATRIX, domain=_IDS
    ).by(_sample_quantised, _infer_embedding, _bound_quantised, None),
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
        None,
    ),
)
