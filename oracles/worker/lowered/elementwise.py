"""Lowerings of operators that work element by element."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from oracles.worker.lowered.lowering import Function, Lowering, Op, folded, plain
from oracles.worker.torch.data import Unsupported


def divide(op: Op) -> Function:
    """The function of ONNX's Div with these attributes."""
    return torch.div if op.values[0].is_floating_point() else truncating


def truncating(left: Any, right: Any) -> Any:
    """Divide integers and round towards zero, as ONNX does."""
    return torch.div(left, right, rounding_mode="trunc")


def power(left: Any, right: Any) -> Any:
    """x to the y, in the dtype of x."""
    return torch.pow(left, right).to(left.dtype)


def clip(op: Op) -> Function:
    """The function of ONNX's Clip with these attributes."""
    if op.opset < 11:
        low, high = op.get("min"), op.get("max")
        return lambda x: torch.clamp(x, low, high)
    low, high = (op.values[index].item() if op.has(index) else None for index in (1, 2))
    if low is None and high is None:
        return lambda x, *rest: x
    return lambda x, *rest: torch.clamp(x, low, high)


def is_inf(op: Op) -> Function:
    """The function of ONNX's IsInf with these attributes."""
    negative, positive = op.get("detect_negative", 1), op.get("detect_positive", 1)
    if negative and positive:
        return torch.isinf
    if not (negative or positive):
        return lambda x: torch.zeros_like(x, dtype=torch.bool)
    return torch.isposinf if positive else torch.isneginf


def gelu(op: Op) -> Function:
    """The function of ONNX's Gelu with these attributes."""
    approximate = op.get("approximate", b"none").decode()
    return lambda x: F.gelu(x, approximate=approximate)


def hard_sigmoid(op: Op) -> Function:
    """The function of ONNX's HardSigmoid with these attributes."""
    alpha, beta = op.get("alpha", 0.2), op.get("beta", 0.5)
    return lambda x: torch.clamp(alpha * x + beta, 0, 1)


def bit_shift(op: Op) -> Function:
    """The function of ONNX's BitShift with these attributes."""
    return torch.bitwise_left_shift if op.get("direction") == b"LEFT" else torch.bitwise_right_shift


def prelu(x: Any, slope: Any) -> Any:
    """x, and slope * x below zero."""
    return torch.where(x < 0, x * slope, x)


DTYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    16: torch.bfloat16,
}


def cast(op: Op) -> Function:
    """The function of ONNX's Cast with these attributes."""
    op.must(op.get("to") in DTYPES, f"dtype {op.get('to')}")
    dtype = DTYPES[op.get("to")]
    return lambda x: x.to(dtype)


def shrink(op: Op) -> Function:
    """The function of ONNX's Shrink with these attributes."""
    bias, limit = op.get("bias", 0.0), op.get("lambd", 0.5)
    op.must(op.values[0].is_floating_point(), "integers")

    def run(x: Any) -> Any:
        return torch.where(x < -limit, x + bias, torch.where(x > limit, x - bias, torch.zeros_like(x)))

    return run


def selu(op: Op) -> Function:
    """The function of ONNX's Selu with these attributes."""
    alpha, gamma = op.get("alpha", 1.67326319217681884765625), op.get("gamma", 1.05070102214813232421875)
    return lambda x: gamma * F.elu(x, alpha)


_SAME_NAME = """
    Abs Neg Exp Log Sqrt Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Sigmoid Floor Ceil
    Round Sign Relu Reciprocal IsNaN MatMul
"""


ELEMENTWISE: dict[str, Lowering] = {
    **{name: plain(getattr(torch, name.lower())) for name in _SAME_NAME.split()},
    "Identity": plain(torch.clone),
    "Not": plain(torch.logical_not),
    "Softplus": plain(lambda x: torch.log1p(torch.exp(-torch.abs(x))) + torch.relu(x)),
    "Softsign": plain(F.softsign),
    "HardSwish": plain(F.hardswish),
    "Mish": plain(F.mish),
    "LeakyRelu": lambda op: lambda x: F.leaky_relu(x, op.get("alpha", 0.01)),
    "Elu": lambda op: lambda x: F.elu(x, op.get("alpha", 1.0)),
    "Celu": lambda op: lambda x: F.celu(x, op.get("alpha", 1.0)),
    "ThresholdedRelu": lambda op: lambda x: torch.where(x > op.get("alpha", 1.0), x, torch.zeros_like(x)),
    "HardSigmoid": hard_sigmoid,
    "Gelu": gelu,
    "Clip": clip,
    "IsInf": is_inf,
    "Cast": cast,
    "CastLike": plain(lambda x, like: x.to(like.dtype)),
    "Add": plain(torch.add),
    "Sub": plain(torch.sub),
    "Mul": plain(torch.mul),
    "Div": divide,
    "Mod": lambda op: torch.fmod if op.get("fmod", 0) else torch.remainder,
    "Pow": plain(power),
    "PRelu": plain(prelu),
    "BitShift": bit_shift,
    "BitwiseAnd": plain(torch.bitwise_and),
    "BitwiseOr": plain(torch.bitwise_or),
    "BitwiseXor": plain(torch.bitwise_xor),
    "BitwiseNot": plain(torch.bitwise_not),
    "And": plain(torch.logical_and),
    "Or": plain(torch.logical_or),
    "Xor": plain(torch.logical_xor),
    "Equal": plain(torch.eq),
    "Less": plain(torch.lt),
    "Greater": plain(torch.gt),
    "LessOrEqual": plain(torch.le),
    "GreaterOrEqual": plain(torch.ge),
    "Where": plain(torch.where),
    "Max": folded(torch.maximum),
    "Min": folded(torch.minimum),
    "Sum": folded(torch.add),
    "Mean": plain(lambda *terms: sum(terms[1:], terms[0]) / len(terms)),
    "Shrink": shrink,
    "Selu": selu,
}


def lp_norm(op: Op) -> Function:
    """The function of ONNX's LpNormalization with these attributes."""
    axis, p = op.get("axis", -1), op.get("p", 2)

    def run(x: Any) -> Any:
        size = torch.linalg.vector_norm(x, ord=p, dim=axis, keepdim=True)
        return torch.where(size == 0, torch.zeros_like(x), x / size)

    return run


def reduction(function: Function) -> Lowering:
    """`function(x, axes, keepdims)` over the axes that the node names, or all."""

    def lower(op: Op) -> Function:
        x = op.values[0]
        axes = op.numbers(1, "axes")
        keep = bool(op.get("keepdims", 1))
        if not axes and op.get("noop_with_empty_axes", 0):
            raise Unsupported(f"{op.name}: no lowering for noop_with_empty_axes")
        chosen = tuple(sorted(axis % x.dim() for axis in axes)) if axes else tuple(range(x.dim()))
        return lambda x, *rest: function(x, chosen, keep)

    return lower


def total(x: Any, axes: Any, keep: bool) -> Any:
    """Sum in the dtype of x."""
    return torch.sum(x, dim=axes, keepdim=keep, dtype=x.dtype)


def mean(x: Any, axes: Any, keep: bool) -> Any:
    """The mean; of integers, rounded towards zero."""
    if x.is_floating_point():
        return torch.mean(x, dim=axes, keepdim=keep)
    return truncating(total(x, axes, keep), math.prod([x.shape[axis] for axis in axes]))


def product(x: Any, axes: Any, keep: bool) -> Any:
    """Multiply over several axes, one after another."""
    for axis in reversed(axes):
        x = torch.prod(x, dim=axis, keepdim=keep, dtype=x.dtype)
    return x


def norm2(x: Any, axes: Any, keep: bool) -> Any:
    """The root of the sum of squares, the root in float64."""
    return torch.sqrt(total(x * x, axes, keep).to(torch.float64)).to(x.dtype)


def log_sum(x: Any, axes: Any, keep: bool) -> Any:
    """The logarithm of the sum, taken in float64."""
    return torch.log(total(x, axes, keep).to(torch.float64)).to(x.dtype)


def largest(function: Function) -> Lowering:
    """Lower ArgMax or ArgMin; `select_last_index` counts from the other end."""

    def lower(op: Op) -> Function:
        axis, keep = op.get("axis", 0), bool(op.get("keepdims", 1))
        if not op.get("select_last_index", 0):
            return lambda x: function(x, dim=axis, keepdim=keep)
        return lambda x: x.shape[axis] - 1 - function(torch.flip(x, (axis,)), dim=axis, keepdim=keep)

    return lower


def cumulative(op: Op) -> Function:
    """The function of ONNX's CumSum and CumProd with these attributes."""
    (axis,) = op.numbers(1) or [0]
    reverse, exclusive = op.get("reverse", 0), op.get("exclusive", 0)

    def run(x: Any, *rest: Any) -> Any:
        source = torch.flip(x, (axis,)) if reverse else x
        sums = torch.cumsum(source, axis, dtype=x.dtype)
        sums = sums - source if exclusive else sums
        return torch.flip(sums, (axis,)) if reverse else sums

    return run


REDUCTIONS: dict[str, Lowering] = {
    "ReduceSum": reduction(total),
    "ReduceMean": reduction(mean),
    "ReduceProd": reduction(product),
    "ReduceMax": reduction(lambda x, axes, keep: torch.amax(x, axes, keep)),
    "ReduceMin": reduction(lambda x, axes, keep: torch.amin(x, axes, keep)),
    "ReduceL1": reduction(lambda x, axes, keep: total(torch.abs(x), axes, keep)),
    "ReduceL2": reduction(norm2),
    "ReduceSumSquare": reduction(lambda x, axes, keep: total(x * x, axes, keep)),
    "ReduceLogSum": reduction(log_sum),
    "ReduceLogSumExp": reduction(lambda x, axes, keep: torch.logsumexp(x, axes, keep)),
    "ArgMax": largest(torch.argmax),
    "ArgMin": largest(torch.argmin),
    "CumSum": cumulative,
    "LpNormalization": lp_norm,
}
