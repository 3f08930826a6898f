"""Operators of `com.microsoft` for gates, branches and states: element by element, or along one axis."""

import math

from oracles.operators.recurrent import bound_rotary
from oracles.relation.arithmetic import MOVES, ROUNDS_ABOUT_ONE, SUMS_INSIDE, rounded, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import (
    ALONG,
    CUBE,
    FLAT,
    IMAGE,
    Attribute,
    Call,
    Kind,
    Operand,
    Scope,
    fits,
)
from oracles.relation.rules import when
from oracles.relation.types import F16, F32, I64, DType, Range, Shape, TensorType, is_filled


def _product(call: Call) -> float:
    return math.prod(value.range.magnitude for value in call.present)


def _factor(scope: Scope, size: int) -> int:
    """A number that divides a size: groups, heads or branches."""
    return scope.draws.pick([part for part in range(1, min(size, 8) + 1) if size % part == 0])


def _epsilon(scope: Scope) -> dict[str, Attribute]:
    return {"epsilon": scope.draws.pick((1e-3, 0.1))}


def _sample_silu(scope: Scope, focus: Operand) -> Call:
    """The scale is an attribute, or an operand that overrides it."""
    if scope.draws.chance(0.5):
        return Call((focus, scope.fix_scalar(scope.draws.pick((0.5, 1.0, 2.0)), F32)), {"alpha": 3.0})
    return Call((focus,), {"alpha": scope.draws.pick((0.5, 1.0, -2.0))})


def _bound_silu(call: Call) -> tuple[Range, ...]:
    return (symmetric(2 * call.operand(0).range.magnitude + 1),)


def _sample_add(scope: Scope, focus: Operand) -> Call:
    other, gate = scope.supply(*focus.type), scope.supply(focus.dtype, (*focus.shape[:-1], 1))
    return Call((focus, other, gate))


def _bound_add(call: Call) -> tuple[Range, ...]:
    base, other, gate = (value.range.magnitude for value in call.present)
    return (symmetric(base + other * gate),)


def _sample_gated_norm(scope: Scope, focus: Operand) -> Call:
    """Each part of the last axis is normalised by itself, and then gated."""
    size = focus.shape[-1] // _factor(scope, focus.shape[-1])
    attributes = {**_epsilon(scope), "activation": scope.draws.pick(("silu", "swish", "sigmoid"))}
    return Call((focus, scope.supply(focus.dtype, (size,)), scope.supply(*focus.type)), attributes)


def _bound_gated_norm(call: Call) -> tuple[Range, ...]:
    _, scale, gate = call.present
    return (symmetric(math.sqrt(scale.shape[0]) * scale.range.magnitude * (gate.range.magnitude + 1) + 1),)


def _sample_branch_norm(scope: Scope, focus: Operand) -> Call:
    """Branches are an axis, or parts of the last one."""
    flat = focus.rank < 2 or scope.draws.chance(0.5)
    count = _factor(scope, focus.shape[-1]) if flat else focus.shape[-2]
    size = focus.shape[-1] // count if flat else focus.shape[-1]
    scale = scope.draws.pick(((count * size,), (count, size), (size,), None))
    attributes = {**_epsilon(scope), **({"num_branches": count} if flat else {})}
    return Call((focus,) if scale is None else (focus, scope.supply(F32, scale)), attributes)


def _bound_branch_norm(call: Call) -> tuple[Range, ...]:
    scale = call.optional(1)
    return (symmetric(math.sqrt(call.operand(0).shape[-1]) * (scale.range.magnitude if scale else 1) + 1),)


def _sample_pre_mix(scope: Scope, focus: Operand) -> Call:
    """The weighted sum of an axis before the last."""
    *rows, count, size = focus.shape
    mix = scope.draws.pick(((*rows, count), (*rows, count, 1), (*rows, count, size)))
    attributes: dict[str, Attribute] = {"reduction_scale": 0.5} if scope.draws.chance(0.4) else {}
    return Call((focus, scope.supply(F32, mix)), attributes)


def _infer_pre_mix(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return (TensorType(focus.dtype, (*focus.shape[:-2], focus.shape[-1])),)


def _bound_pre_mix(call: Call) -> tuple[Range, ...]:
    return (symmetric(rounded(call.operand(0).shape[-2] * _product(call) * 1.01)),)


def _sample_post_mix(scope: Scope, focus: Operand) -> Call:
    *rows, count, size = focus.shape
    gates = scope.draws.pick(((*rows, count), (*rows, count, 1), (*rows, count, size)))
    operands = [focus, scope.supply(focus.dtype, (*rows, size)), scope.supply(F32, gates)]
    if scope.draws.chance(0.6) and math.prod(rows) * count * count <= 512:
        operands.append(scope.supply(F32, (*rows, count, count)))
    return Call(tuple(operands))


def _bound_post_mix(call: Call) -> tuple[Range, ...]:
    streams, block, gates = (value.range.magnitude for value in call.present[:3])
    mixed = call.operand(0).shape[-2] * call.operand(3).range.magnitude if call.optional(3) else 1
    return (symmetric(rounded((streams * mixed + block * gates) * 1.01)),)


def _sample_engram(scope: Scope, focus: Operand) -> Call:
    """Keys and queries of several branches gate a value that these share."""
    batch, length, count, size = focus.shape
    scales = tuple(scope.supply(focus.dtype, (count, size)) for _ in range(scope.draws.pick((2, 3))))
    value = scope.supply(focus.dtype, (batch, length, size))
    operands = (focus, scope.supply(*focus.type), value, *scales)
    return Call(operands, _epsilon(scope), len(scales) - 1)


def _infer_twice(call: Call) -> tuple[TensorType, ...]:
    """As many results as are asked for have the type of the focus."""
    return (call.operand(0).type,) * call.results


def _bound_engram(call: Call) -> tuple[Range, ...]:
    value, norm = call.operand(2).range.magnitude, call.optional(5)
    root = math.sqrt(call.operand(0).shape[-1])
    normed = (symmetric(root * norm.range.magnitude + 1),) if norm else ()
    return (symmetric(value), *normed)


def _sample_decay(scope: Scope, focus: Operand) -> Call:
    heads = focus.shape[-1:]
    operands = (focus, scope.supply(F32, heads), scope.supply(F32, heads))
    if scope.draws.chance(0.5):
        return Call((*operands, scope.supply(*focus.type)), {}, 2)
    return Call(operands)


def _bound_decay(call: Call) -> tuple[Range, ...]:
    """The softplus of a sum, times a factor; and a sigmoid."""
    focus, bias, scale = (call.operand(at).range.magnitude for at in range(3))
    return (symmetric(rounded((focus + bias + 1) * scale * 1.01)), Range(0, 1))[: call.results]


def _sample_causal(scope: Scope, focus: Operand) -> Call | None:
    """A convolution of each channel over the past, with the last positions of the call before."""
    if not _has_state(focus.shape):
        return None
    draws, (batch, channels, _) = scope.draws, focus.shape
    taps, gap = draws.between(2, 4), draws.pick((1, 1, 2, 3))
    state = (batch, channels, (taps - 1) * gap)
    bias = scope.supply(focus.dtype, (channels,)) if draws.chance(0.5) else None
    operands = [focus, scope.supply(focus.dtype, (channels, 1, taps)), bias]
    if draws.chance(0.6):
        operands.append(scope.supply(focus.dtype, state))
    attributes: dict[str, Attribute] = {"dilation": gap} if gap > 1 else {}
    if draws.chance(0.5):
        attributes["activation"] = draws.pick(("silu", "swish", "none"))
    return Call(tuple(operands), attributes, 2)


def _has_state(shape: Shape) -> bool:
    """The state is of at most nine positions."""
    return len(shape) == 3 and fits((*shape[:2], 9))


def _infer_causal(call: Call) -> tuple[TensorType, ...]:
    focus, taps = call.operand(0), call.operand(1).shape[2]
    state = (*focus.shape[:2], (taps - 1) * call.integer("dilation", 1))
    return focus.type, TensorType(focus.dtype, state)


def _bound_causal(call: Call) -> tuple[Range, ...]:
    focus, weight, bias, state = (call.optional(at) for at in range(4))
    assert focus is not None
    assert weight is not None
    past = max(focus.range.magnitude, state.range.magnitude if state else 0.0)
    total = past * weight.range.magnitude * weight.shape[2] + (bias.range.magnitude if bias else 0)
    return symmetric(rounded(total * 1.01 + 1)), symmetric(past)


def _sample_rotary(scope: Scope, focus: Operand) -> Call | None:
    """Three positions a token, each of which turns its own part of a head."""
    if not _is_turned(focus.shape):
        return None
    draws, (batch, length, hidden) = scope.draws, focus.shape
    size = draws.pick([size for size in (2, 4, 8) if hidden % size == 0])
    rows = length + draws.below(3)
    cuts = sorted(draws.between(0, size // 2) for _ in range(2))
    attributes: dict[str, Attribute] = {
        "mrope_section": (cuts[0], cuts[1] - cuts[0], size // 2 - cuts[1]),
        "interleaved": draws.below(2),
        "num_heads": hidden // size,
        "rotary_embedding_dim": size,
    }
    positions = scope.supply(I64, (3, batch, length), Range(0, rows - 1))
    caches = tuple(scope.supply(focus.dtype, (rows, size // 2), Range(-1, 1)) for _ in range(2))
    return Call((focus, positions, *caches), attributes)


def _is_turned(shape: Shape) -> bool:
    return len(shape) == 3 and is_filled(shape) and not shape[2] % 2 and 3 * shape[0] * shape[1] <= 2048


def _entry(
    name: str, ranks: range = ALONG, kind: Kind = Kind.NORM, dtypes: tuple[DType, ...] = (F32, F16)
) -> Operator:
    """An operator on what holds elements."""
    return Operator(f"com.microsoft.{name}", kind, SUMS_INSIDE, dtypes, ranks=ranks, filled=True)


OPERATORS = (
    Operator("com.microsoft.ScaledSiLU", Kind.ACTIVATION, ROUNDS_ABOUT_ONE, (F32, F16)).by(
        _sample_silu, bound=_bound_silu
    ),
    _entry("GatedAdd", kind=Kind.ARITHMETIC).by(_sample_add, bound=_bound_add),
    _entry("GatedRMSNorm").by(_sample_gated_norm, bound=_bound_gated_norm),
    _entry("BranchwiseRMSNorm").by(_sample_branch_norm, bound=_bound_branch_norm),
    _entry("HyperConnectionPostMix", FLAT).by(_sample_post_mix, bound=_bound_post_mix),
    _entry("EngramGate", IMAGE).by(_sample_engram, _infer_twice, _bound_engram),
    _entry("LinearAttentionGate", CUBE).by(_sample_decay, _infer_twice, _bound_decay),
    _entry("CausalConvWithState", CUBE, Kind.LINEAR, (F32,)).by(
        _sample_causal, _infer_causal, _bound_causal, when(_has_state)
    ),
    _entry("HyperConnectionPreMix", FLAT, Kind.REDUCE).by(
        _sample_pre_mix, _infer_pre_mix, _bound_pre_mix, None
    ),
    Operator("com.microsoft.MRotaryEmbedding", Kind.LINEAR, SUMS_INSIDE, (F32, F16), ranks=CUBE).by(
        _sample_rotary, bound=bound_rotary, inverse=when(_is_turned)
    ),
    Operator("com.microsoft.SampleOp", Kind.LAYOUT, MOVES, (F32,)),
)
