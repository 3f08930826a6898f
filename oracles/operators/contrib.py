"""Operators of `com.microsoft` on floats: what onnxruntime's fusions put in place of several nodes."""

import math

from oracles.operators.conv import IMAGES, convolved, sample_conv, with_bias
from oracles.operators.matmul import gemm_shape, multiplied, sample_gemm, sample_matmul
from oracles.relation.arithmetic import ROUNDS_ABOUT_ONE, SUMS, SUMS_INSIDE, WHOLE, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import (
    ALONG,
    CUBE,
    FLAT,
    MATRIX,
    MAX_RANK,
    Attribute,
    Call,
    Kind,
    Operand,
    Scope,
)
from oracles.relation.rules import another_dim, shaped, when
from oracles.relation.types import F16, F32, F64, I32, I64, Range, TensorType, is_filled


def _wide(call: Call) -> tuple[Range, ...]:
    """Bound a function that lies between the identity and zero, with some slack."""
    return (symmetric(call.operand(0).range.magnitude + 1),)


def _sample_bias(scope: Scope, focus: Operand) -> Call:
    return Call((focus, scope.supply(focus.dtype, focus.shape[-1:])))


def _sample_fast(scope: Scope, focus: Operand) -> Call | None:
    """The bias may be left out."""
    is_alone = scope.draws.chance(0.5)
    if not is_filled(focus.shape):
        return None
    return Call((focus,)) if is_alone else _sample_bias(scope, focus)


def _bound_bias(call: Call) -> tuple[Range, ...]:
    return (symmetric(sum(value.range.magnitude for value in call.present) + 1),)


def _sample_quick(scope: Scope, focus: Operand) -> Call:
    alpha = scope.draws.pick((1.702, 1.0, 0.5))
    return Call((focus,), {"alpha": alpha} if scope.draws.chance(0.7) else {})


def _sample_skip(scope: Scope, focus: Operand) -> Call:
    """The sum of two tensors, normalised along the last axis; with a shift and a bias or without."""
    return _skip(scope, focus, 4)


def _sample_simplified(scope: Scope, focus: Operand) -> Call:
    return _skip(scope, focus, 3)


def _skip(scope: Scope, focus: Operand, vectors: int) -> Call:
    last = focus.shape[-1:]
    count = scope.draws.between(1, vectors - 1)
    scales = tuple(scope.supply(focus.dtype, last) for _ in range(count))
    attributes: dict[str, Attribute] = {"epsilon": scope.draws.pick((1e-3, 0.1))}
    return Call((focus, scope.supply(*focus.type), *scales), attributes)


def _bound_skip(call: Call) -> tuple[Range, ...]:
    """At most the root of the count, before scale and shift."""
    root = math.sqrt(call.operand(0).shape[-1])
    return (symmetric(root * call.operand(2).range.magnitude + _rest(call, 3) + 1),)


def _rest(call: Call, first: int) -> float:
    return sum(value.range.magnitude for value in call.present[first:])


def _sample_fused(scope: Scope, focus: Operand) -> Call | None:
    call = sample_matmul(scope, focus)
    if call is None or min(call.operand(0).rank, call.operand(1).rank) < 2:
        return None
    return call._replace(attributes=_alpha(scope))


def _alpha(scope: Scope) -> dict[str, Attribute]:
    return {"alpha": scope.draws.pick((0.5, 2.0, 0.125, -1.0))} if scope.draws.chance(0.7) else {}


def _bound_fused(call: Call) -> tuple[Range, ...]:
    left, right = call.operand(0), call.operand(1)
    return (symmetric(2 * left.range.magnitude * right.range.magnitude * left.shape[-1]),)


_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "LeakyRelu")


def _activation(scope: Scope) -> dict[str, Attribute]:
    name = scope.draws.pick(_ACTIVATIONS)
    return {"activation": name, **({"activation_params": (0.1,)} if name == "LeakyRelu" else {})}


def _sample_fused_conv(scope: Scope, focus: Operand) -> Call | None:
    call = sample_conv(scope, focus)
    if call is None:
        return None
    return with_bias(scope, call)._replace(attributes={**call.attributes, **_activation(scope)})


def _bound_fused_conv(call: Call) -> tuple[Range, ...]:
    image, weight = call.operand(0), call.operand(1)
    total = math.prod(weight.shape[1:]) * image.range.magnitude * weight.range.magnitude
    return (symmetric(total + _rest(call, 2) + 1),)


def _sample_fused_gemm(scope: Scope, focus: Operand) -> Call | None:
    call = sample_gemm(scope, focus)
    if not all(is_filled(value.shape) for value in call.present):
        return None
    return call._replace(attributes={**call.attributes, "activation": scope.draws.pick(_ACTIVATIONS[:3])})


def _sample_expand(scope: Scope, focus: Operand) -> Call | None:
    if focus.rank >= MAX_RANK:
        return None
    axis = scope.draws.between(-focus.rank - 1, focus.rank)
    return Call((focus, scope.fix_scalar(axis, I32)))


def _infer_expand(call: Call) -> tuple[TensorType, ...]:
    focus, (axis,) = call.operand(0), call.ints(1) or (0,)
    axis %= focus.rank + 1
    return (TensorType(focus.dtype, (*focus.shape[:axis], 1, *focus.shape[axis:])),)


def _sample_distance(scope: Scope, focus: Operand) -> Call:
    other = scope.supply(focus.dtype, (max(1, scope.dim()), focus.shape[1]))
    return Call((focus, other), {"metric": "sqeuclidean"})


def _infer_distance(call: Call) -> tuple[TensorType, ...]:
    left, right = call.operand(0), call.operand(1)
    return (TensorType(left.dtype, (left.shape[0], right.shape[0])),)


def _bound_distance(call: Call) -> tuple[Range, ...]:
    apart = call.operand(0).range.magnitude + call.operand(1).range.magnitude
    return (Range(-1e-3, call.operand(0).shape[1] * apart * apart),)


def _sample_heads(scope: Scope, focus: Operand) -> Call:
    """The focus is the query: batch, length, heads side by side."""
    batch, _, hidden = focus.shape
    heads = scope.draws.pick([count for count in (1, 2, 4) if hidden % count == 0])
    shape = (batch, another_dim(scope, (batch, hidden)), hidden)
    keys, values = (scope.supply(F32, shape) for _ in range(2))
    return Call((focus, keys, values), {"num_heads": heads})


def _infer_heads(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(F32, (*call.operand(0).shape[:2], call.operand(2).shape[2])),)


def _bound_heads(call: Call) -> tuple[Range, ...]:
    query, keys, values = (call.operand(index) for index in range(3))
    score = query.range.magnitude * keys.range.magnitude * query.shape[2]
    return (symmetric(values.range.magnitude if score < 1e3 else math.inf),)


def _bound_gemm(call: Call) -> tuple[Range, ...]:
    left, right = call.operand(0), call.operand(1)
    product = left.range.magnitude * right.range.magnitude * max(left.shape)
    return (symmetric(2 * product + 2 * _rest(call, 2) + 1),)


def _elementwise(name: str) -> Operator:
    return Operator(f"com.microsoft.{name}", Kind.ACTIVATION, ROUNDS_ABOUT_ONE, (F32,), bound=_wide)


def _product(name: str) -> Operator:
    return Operator(
        f"com.microsoft.{name}",
        Kind.LINEAR,
        SUMS,
        (F32, F64) if name == "FusedMatMul" else (F32,),
        ranks=FLAT,
        filled=True,
    ).by(_sample_fused, shaped(multiplied), _bound_fused, None)


OPERATORS = (
    _elementwise("Gelu"),
    Operator(
        "com.microsoft.QuickGelu", Kind.ACTIVATION, ROUNDS_ABOUT_ONE, (F32,), _sample_quick, bound=_wide
    ),
    Operator("com.microsoft.FastGelu", Kind.ACTIVATION, ROUNDS_ABOUT_ONE, (F32,), ranks=ALONG).by(
        _sample_fast, bound=_bound_bias, inverse=when(lambda shape: bool(shape) and is_filled(shape))
    ),
    Operator(
        "com.microsoft.BiasGelu", Kind.ACTIVATION, ROUNDS_ABOUT_ONE, (F32,), ranks=ALONG, filled=True
    ).by(_sample_bias, bound=_bound_bias),
    Operator(
        "com.microsoft.SkipLayerNormalization", Kind.NORM, SUMS_INSIDE, (F32, F16), ranks=CUBE, filled=True
    ).by(_sample_skip, bound=_bound_skip),
    Operator(
        "com.microsoft.SkipSimplifiedLayerNormalization",
        Kind.NORM,
        SUMS_INSIDE,
        (F32, F16),
        ranks=CUBE,
        filled=True,
    ).by(_sample_simplified, bound=_bound_skip),
    _product("FusedMatMul"),
    _product("TransposeMatMul"),
    Operator("com.microsoft.FusedConv", Kind.LINEAR, SUMS_INSIDE, (F32,), ranks=IMAGES).by(
        _sample_fused_conv, shaped(convolved), _bound_fused_conv, None
    ),
    Operator("com.microsoft.FusedGemm", Kind.LINEAR, SUMS_INSIDE, (F32,), ranks=MATRIX, filled=True).by(
        _sample_fused_gemm, shaped(gemm_shape), _bound_gemm, None
    ),
    Operator("com.microsoft.ExpandDims", Kind.LAYOUT, WHOLE, (F32, F64, I64, I32)).by(
        _sample_expand, _infer_expand, inverse=None
    ),
    Operator("com.microsoft.CDist", Kind.LINEAR, SUMS_INSIDE, (F32, F64), ranks=MATRIX, filled=True).by(
        _sample_distance, _infer_distance, _bound_distance, None
    ),
    Operator(
        "com.microsoft.MultiHeadAttention", Kind.LINEAR, SUMS_INSIDE, (F32,), ranks=CUBE, filled=True
    ).by(_sample_heads, _infer_heads, _bound_heads, None),
)
