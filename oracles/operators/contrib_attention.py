"""Attention of `com.microsoft`: with masks, caches of keys and values, lengths, or a running state."""

import math
from collections.abc import Iterable

import numpy as np

from oracles.operators.quantise import fix_scale, fix_zero_point
from oracles.relation.arithmetic import SUMS_INSIDE, rounded, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import CUBE, Attribute, Call, Kind, Operand, Scope, fits
from oracles.relation.rules import when
from oracles.relation.types import F32, I8, I32, I64, U8, DType, Range, Shape, TensorType, extent, is_filled

_MOST_SCORE = 1e3


def _mask(scope: Scope, batch: int, length: int, total: int) -> Operand:
    """Lengths, ends with starts, or a number for each key; of every query alike or of each by itself."""
    draws = scope.draws
    form = draws.below(4)
    if form == 0:
        return scope.supply(I32, (batch,), Range(1, total))
    if form == 1:
        ends = [draws.between(1, total) for _ in range(batch)]
        return scope.fix(np.array([*ends, *(draws.below(end) for end in ends)], np.int32), I32)
    shape = (batch, total) if form == 2 else (batch, length, total)
    return scope.supply(I32, shape if fits(shape) else (batch,), Range(1 - int(fits(shape)), 1))


def _heads(scope: Scope, hidden: int) -> int:
    return scope.draws.pick([count for count in (1, 2, 3, 4) if not hidden % count])


def _scale(scope: Scope) -> dict[str, Attribute]:
    return {"scale": scope.draws.pick((0.5, 1.0, 0.125))} if scope.draws.chance(0.3) else {}


def _hidden(scope: Scope) -> int:
    return scope.draws.pick((1, 2, 4, 6, 8, 12))


def _sample_attention(scope: Scope, focus: Operand) -> Call | None:
    """One product makes queries, keys and values; earlier keys and values come before them, or a bias."""
    if not _is_attended(focus.shape):
        return None
    draws, hidden, (batch, length, width) = scope.draws, _hidden(scope), focus.shape
    heads, past = _heads(scope, hidden), draws.pick((0, 0, 1, 3))
    operands: list[Operand | None] = [
        focus,
        scope.supply(F32, (width, 3 * hidden)),
        scope.supply(F32, (3 * hidden,)),
    ]
    operands.append(_mask(scope, batch, length, past + length) if draws.chance(0.5) else None)
    if past:
        operands.append(scope.supply(F32, (2, batch, heads, past, hidden // heads)))
    elif draws.chance(0.3) and fits((batch, heads, length, length)):
        operands += [None, scope.supply(F32, (draws.pick((1, batch)), heads, length, length))]
    attributes = {"num_heads": heads, **_scale(scope), **({"unidirectional": 1} if draws.chance(0.3) else {})}
    return Call(tuple(operands), attributes, 2 if past or draws.chance(0.3) else 1)


def _is_attended(shape: Shape) -> bool:
    return (
        len(shape) == 3 and is_filled(shape) and fits((shape[2], 36), (2, *shape[:2], 20), (shape[2] * 3, 12))
    )


def _infer_attention(call: Call) -> tuple[TensorType, ...]:
    focus, weights, past = call.operand(0), call.operand(1), call.optional(4)
    heads, hidden = call.integer("num_heads", 1), weights.shape[1] // 3
    total = focus.shape[1] + (past.shape[3] if past else 0)
    present = TensorType(F32, (2, focus.shape[0], heads, total, hidden // heads))
    return (TensorType(F32, (*focus.shape[:2], hidden)), present)[: call.results]


def _bound_attention(call: Call) -> tuple[Range, ...]:
    """A result lies among the values: rows of the input by the weights, and a bias; or earlier ones."""
    focus, weights, bias, past = call.operand(0), call.operand(1), call.operand(2), call.optional(4)
    product = focus.range.magnitude * weights.range.magnitude * focus.shape[2] + bias.range.magnitude
    return _among(call, max(product, past.range.magnitude if past else 0.0), product)


def _among(call: Call, values: float, keys: float) -> tuple[Range, ...]:
    """Bound a weighted mean, unless the scores could be so large that rounding decides between the values."""
    is_tame = keys * keys * call.operand(0).shape[-1] < _MOST_SCORE
    return (symmetric(rounded(1.01 * values) if is_tame else math.inf),) * call.results


def _sample_quantised(scope: Scope, focus: Operand) -> Call | None:
    if not _is_attended(focus.shape):
        return None
    draws, hidden, (batch, length, width) = scope.draws, _hidden(scope), focus.shape
    heads, past, kind = _heads(scope, hidden), draws.pick((0, 0, 1, 3)), draws.pick((U8, I8))
    columns = draws.pick(((), (3 * hidden,)))
    operands: list[Operand | None] = [
        focus,
        scope.supply(kind, (width, 3 * hidden)),
        scope.supply(F32, (3 * hidden,), Range(-1, 1)),
        fix_scale(scope, (), 0.1),
        fix_scale(scope, columns, 0.1),
        scope.supply(I32, (batch,), Range(1, past + length)) if draws.chance(0.5) else None,
        fix_zero_point(scope, U8, ()),
        fix_zero_point(scope, kind, columns),
    ]
    if past:
        operands.append(scope.supply(F32, (2, batch, heads, past, hidden // heads), Range(-1, 1)))
    attributes = {"num_heads": heads, "unidirectional": draws.below(2)}
    return Call(tuple(operands), attributes, 2 if past else 1)


def _infer_quantised(call: Call) -> tuple[TensorType, ...]:
    past = call.optional(8)
    return _infer_attention(call._replace(operands=(*call.operands[:4], past)))


def _bound_quantised(call: Call) -> tuple[Range, ...]:
    scales = call.operand(3).range.magnitude * call.operand(4).range.magnitude
    return (symmetric(rounded(scales * 256 * 256 * call.operand(0).shape[2] + 2)),) * call.results


def _is_grouped(shape: Shape) -> bool:
    """Heads are of whole eights."""
    return (
        len(shape) == 3
        and is_filled(shape)
        and not shape[2] % 8
        and fits((*shape[:2], 16), (*shape[:2], shape[1]))
    )


def _groups(scope: Scope, hidden: int) -> tuple[int, int, int]:
    """The heads of the queries, those of keys and values, and their size."""
    size = scope.draws.pick([size for size in (8, 16) if not hidden % size])
    heads = hidden // size
    return heads, scope.draws.pick([count for count in range(1, heads + 1) if not heads % count]), size


def _turning(scope: Scope, rows: int, size: int) -> tuple[Operand, Operand]:
    cos, sin = (scope.supply(F32, (rows, size // 2), Range(-1, 1)) for _ in range(2))
    return cos, sin


def _sample_grouped(scope: Scope, focus: Operand) -> Call | None:
    """A first call without a cache, or one more step after what a cache holds."""
    if not _is_grouped(focus.shape):
        return None
    draws, (batch, length, hidden) = scope.draws, focus.shape
    heads, groups, size = _groups(scope, hidden)
    can_step = (length == 1 or batch == 1) and fits((batch, groups, 5 + length, size))
    used = draws.pick((0, 1, 2, 4)) if can_step else 0
    room = used + draws.pick((0, 0, length, length + 1)) if used else 0
    total, kind = used + length, draws.pick((F32, F32, F32, I8)) if used else F32
    cache = (batch, groups, room, size)
    within = None if kind is F32 else Range(-127, 127)
    pasts = [scope.supply(kind, cache, within) for _ in range(2)] if used else [None, None]
    ends = [total - 1] * batch
    if length == 1:
        ends[1:] = [draws.between(0, used) for _ in ends[1:]]
    turns = size == 16 and draws.chance(0.5)
    operands: list[Operand | None] = [
        focus,
        *(scope.supply(F32, (batch, length, groups * size)) for _ in range(2)),
    ]
    operands += [*pasts, scope.fix(np.array(ends, np.int32), I32), scope.fix_scalar(total, I32)]
    rows = total + draws.below(3)
    operands += _turning(scope, rows, size) if turns else (None, None)
    positions = turns and draws.chance(0.3)
    operands.append(scope.supply(I64, (batch, length), Range(0, rows - length)) if positions else None)
    bias = (draws.pick((1, batch)), draws.pick((1, heads)), length, total)
    operands.append(scope.supply(F32, bias) if draws.chance(0.3) and fits(bias) else None)
    operands.append(scope.supply(F32, (heads,)) if draws.chance(0.2) else None)
    attributes = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": int(turns), **_scale(scope)}
    if kind is not F32:
        operands += [scope.fix(np.array([0.0625], np.float32), F32) for _ in range(2)]
        attributes |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    return Call(_trimmed(operands), {**attributes, **_grouped_form(scope)}, 3 if used else draws.pick((1, 3)))


def _trimmed(operands: Iterable[Operand | None]) -> tuple[Operand | None, ...]:
    """The operands without those that are left out at the end."""
    kept = list(operands)
    while kept[-1] is None:
        kept.pop()
    return tuple(kept)


def _grouped_form(scope: Scope) -> dict[str, Attribute]:
    draws = scope.draws
    attributes: dict[str, Attribute] = {"softcap": 2.0} if draws.chance(0.2) else {}
    if draws.chance(0.3):
        return {**attributes, "local_window_size": draws.between(1, 4)}
    return {**attributes, **draws.pick(({"causal": 0}, {"smooth_softmax": 1}, {"rotary_interleaved": 1}, {}))}


def _infer_grouped(call: Call) -> tuple[TensorType, ...]:
    focus, past, (total,) = call.operand(0), call.optional(3), call.ints(6) or (1,)
    groups = call.integer("kv_num_heads", 1)
    rows = max(total, past.shape[2] if past else 0)
    size = focus.shape[2] // call.integer("num_heads", 1)
    present = TensorType(past.dtype if past else F32, (focus.shape[0], groups, rows, size))
    return (focus.type, present, present)[: call.results]


def _bound_grouped(call: Call) -> tuple[Range, ...]:
    past = call.optional(4)
    held = 8.0 if past and past.dtype is I8 else past.range.magnitude if past else 0.0
    keys = 2 * max(call.operand(1).range.magnitude, held, call.operand(0).range.magnitude)
    mean, *_ = _among(call, max(call.operand(2).range.magnitude, held, keys), keys)
    return tuple(extent(of.dtype) if of.dtype is I8 else mean for of in _infer_grouped(call))


def _sample_decoding(scope: Scope, focus: Operand) -> Call | None:
    """One query for each batch: over keys and values of another sequence, or after those of a buffer.

    Two beams say of each earlier key which of them it belongs to.
    """
    if not _is_decoded(focus.shape):
        return None
    draws, (batch, _, hidden) = scope.draws, focus.shape
    heads, room = _heads(scope, hidden), draws.between(1, 6)
    cache = (batch, heads, room, hidden // heads)
    held = tuple(scope.supply(F32, cache) for _ in range(2))
    attributes = {"num_heads": heads, **_scale(scope)}
    if draws.chance(0.4):
        mask = scope.supply(I32, (batch, room), Range(0, 1)) if draws.chance(0.4) else None
        return Call(_trimmed((focus, *held, mask)), attributes)
    used = draws.below(room)
    current = (scope.supply(F32, focus.shape) for _ in range(2))
    mask = scope.supply(I32, (batch, used + 1), Range(0, 1)) if draws.chance(0.4) else None
    bias = scope.supply(F32, (1, heads, 1, used + 1)) if draws.chance(0.3) else None
    operands = [focus, *current, mask, bias, *held, scope.fix(np.array([used], np.int32), I32)]
    if not batch % 2 and draws.chance(0.5):
        beams = scope.supply(I32, (batch // 2, 2, room), Range(0, 1))
        operands += [scope.fix(np.array([2], np.int32), I32), beams]
    return Call(tuple(operands), {**attributes, "past_present_share_buffer": 1}, 3)


def _is_decoded(shape: Shape) -> bool:
    return len(shape) == 3 and shape[1] == 1 and is_filled(shape) and fits((shape[0], 6, shape[2]))


def _infer_decoding(call: Call) -> tuple[TensorType, ...]:
    held = call.operand(5 if call.results > 1 else 1).type
    return (call.operand(0).type, held, held)[: call.results]


def _bound_decoding(call: Call) -> tuple[Range, ...]:
    keys = max(value.range.magnitude for value in call.present if value.dtype is F32)
    return _among(call, keys, keys)


def _sample_linear(scope: Scope, focus: Operand) -> Call | None:
    """A state that each token changes by its key and value, and its query reads."""
    if not _is_squared(focus.shape):
        return None
    draws, (batch, length, hidden) = scope.draws, focus.shape
    heads = _heads(scope, hidden)
    groups, size = draws.pick([count for count in range(1, heads + 1) if not heads % count]), hidden // heads
    rule = draws.pick(("linear", "gated", "delta", "gated_delta"))
    operands = [focus, *(scope.supply(F32, (batch, length, groups * size), Range(-1, 1)) for _ in range(2))]
    past = scope.supply(F32, (batch, groups, size, size), Range(-4, 4)) if draws.chance(0.5) else None
    decays = (batch, length, groups * draws.pick((1, size)))
    decay = scope.supply(F32, decays, Range(-4, 0)) if "gated" in rule else None
    rates = (batch, length, draws.pick((1, groups)))
    rate = scope.supply(F32, rates, Range(0, 1)) if "delta" in rule else None
    attributes: dict[str, Attribute] = {"q_num_heads": heads, "kv_num_heads": groups, "update_rule": rule}
    return Call(_trimmed((*operands, past, decay, rate)), {**attributes, **_scale(scope)}, 2)


def _is_squared(shape: Shape) -> bool:
    """The state of a head is of keys by values."""
    return len(shape) == 3 and is_filled(shape) and fits((shape[0], shape[2], shape[2]))


def _infer_linear(call: Call) -> tuple[TensorType, ...]:
    focus, groups = call.operand(0), call.integer("kv_num_heads", 1)
    size = focus.shape[2] // call.integer("q_num_heads", 1)
    return focus.type, TensorType(F32, (focus.shape[0], groups, size, size))


def _bound_linear(call: Call) -> tuple[Range, ...]:
    """A step adds a product to the state; one that corrects it may multiply it as well."""
    focus, keys, past = call.operand(0), call.operand(1).range.magnitude, call.optional(3)
    size = focus.shape[2] // call.integer("q_num_heads", 1)
    corrects = "delta" in str(call.attributes["update_rule"])
    state = past.range.magnitude if past else 0.0
    for _ in range(focus.shape[1]):
        state = min(
            state * (1 + size * keys * keys * corrects) + keys * call.operand(2).range.magnitude, 1e30
        )
    return symmetric(rounded(1.01 * size * focus.range.magnitude * state)), symmetric(rounded(1.01 * state))


def _entry(name: str, dtype: DType = F32) -> Operator:
    return Operator(f"com.microsoft.{name}", Kind.LINEAR, SUMS_INSIDE, (dtype,), ranks=CUBE)


OPERATORS = (
    _entry("Attention").by(_sample_attention, _infer_attention, _bound_attention, None),
    _entry("QAttention", U8).by(_sample_quantised, _infer_quantised, _bound_quantised, None),
    _entry("GroupQueryAttention").by(_sample_grouped, _infer_grouped, _bound_grouped, when(_is_grouped)),
    _entry("DecoderMaskedMultiHeadAttention").by(
        _sample_decoding, _infer_decoding, _bound_decoding, when(_is_decoded)
    ),
    _entry("LinearAttention").by(_sample_linear, _infer_linear, _bound_linear, when(_is_squared)),
)
