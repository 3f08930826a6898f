"""Lowerings of linear algebra, pools, normalisations and the like."""

import math
from typing import Any

import torch
import torch.nn.functional as F

from oracles.worker.onnx import Function, Lowering, Op, Unsupported, folded, plain, window


def softmax(function: Function) -> Lowering:
    """Lower a softmax; before opset 13 it flattens from its axis on."""

    def lower(op: Op) -> Function:
        if op.opset >= 13:
            axis = op.get("axis", -1)
            return lambda x: function(x, dim=axis)
        start = op.get("axis", 1) % max(op.values[0].dim(), 1)
        return lambda x: function(x.reshape(math.prod(x.shape[:start]), -1), dim=1).reshape(x.shape)

    return lower


def _gemm(op: Op) -> Function:
    alpha, beta = op.get("alpha", 1.0), op.get("beta", 1.0)

    def run(a: Any, b: Any, c: Any = None) -> Any:
        a, b = a.t() if op.get("transA", 0) else a, b.t() if op.get("transB", 0) else b
        y = torch.matmul(a, b)
        y = y if alpha == 1 else alpha * y
        return y if c is None else y + (c if beta == 1 else beta * c)

    return run


def einsum(op: Op) -> Function:
    """torch sums integers in 64 bits, ONNX in the type of the operands."""
    equation = op.get("equation").decode()
    return lambda *terms: torch.einsum(equation, *terms).to(terms[0].dtype)


def placed(op: Op, kernel: Any) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations, and pads in F.pad's order."""
    strides, dilations, pads = window(op, kernel)
    rank = len(kernel)
    order = [size for i in reversed(range(rank)) for size in (pads[i], pads[i + rank])]
    return strides, dilations, order


def by_rank(op: Op, functions: tuple[Function, ...]) -> Function:
    """The function that suits the operand's rank: one, two or three dims in space."""
    rank = op.values[0].dim() - 2
    op.must(1 <= rank <= len(functions), f"{rank} spatial dims")
    return functions[rank - 1]


def _convolution(op: Op) -> Function:
    function = by_rank(op, (F.conv1d, F.conv2d, F.conv3d))
    strides, dilations, order = placed(op, op.values[1].shape[2:])
    groups = op.get("group", 1)
    return lambda x, w, b=None: function(F.pad(x, order), w, b, strides, 0, dilations, groups)


def _max_pool(op: Op) -> Function:
    function = by_rank(op, (F.max_pool1d, F.max_pool2d, F.max_pool3d))
    op.must(not op.get("ceil_mode", 0) and op.outputs == 1, "ceil_mode or indices")
    op.must(op.values[0].is_floating_point(), f"dtype {op.values[0].dtype}")
    kernel = list(op.get("kernel_shape"))
    strides, dilations, order = placed(op, kernel)
    return lambda x: function(F.pad(x, order, "constant", -math.inf), kernel, strides, 0, dilations)


def _average_pool(op: Op) -> Function:
    function = by_rank(op, (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d))
    kernel = list(op.get("kernel_shape"))
    strides, dilations, order = placed(op, kernel)
    op.must(not op.get("ceil_mode", 0) and set(dilations) <= {1}, "ceil_mode or dilations")
    if op.get("count_include_pad", 0) or not any(order):
        return lambda x: function(F.pad(x, order), kernel, strides)
    return lambda x: (
        function(F.pad(x, order), kernel, strides)
        / function(F.pad(torch.ones_like(x), order), kernel, strides)
    )


def spatial(x: Any) -> tuple[int, ...]:
    """Give the axes after batch and channel."""
    return tuple(range(2, x.dim()))


def _batch_norm(op: Op) -> Function:
    op.must(not op.get("training_mode", 0) and op.outputs == 1, "training")
    eps = op.get("epsilon", 1e-5)
    return lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, False, 0.0, eps)


def _layer_norm(op: Op) -> Function:
    op.must(op.outputs == 1, "its further outputs")
    sizes, eps = op.values[0].shape[op.get("axis", -1) :], op.get("epsilon", 1e-5)
    op.must(all(value is None or value.shape == sizes for value in op.values[1:]), "broadcast weights")
    return lambda x, w, b=None: F.layer_norm(x, sizes, w, b, eps)


def instance_norm(op: Op) -> Function:
    """torch refuses to normalise one element a channel, which is 0 after its mean is taken away."""
    shape = op.values[0].shape
    eps, one = op.get("epsilon", 1e-5), [shape[1], *[1] * (len(shape) - 2)]
    if math.prod(shape[2:]) > 1:
        return lambda x, w, b: F.instance_norm(x, None, None, w, b, True, 0.0, eps)
    return lambda x, w, b: (x - x) * w.view(one) + b.view(one)


def _dropout(op: Op) -> Function:
    op.must(not (op.has(2) and op.values[2].item()), "training")
    if op.outputs == 1:
        return lambda x, *rest: x.clone()
    return lambda x, *rest: (x.clone(), torch.ones_like(x, dtype=torch.bool))


NETWORKS: dict[str, Lowering] = {
    "Softmax": softmax(torch.softmax),
    "LogSoftmax": softmax(torch.log_softmax),
    "Gemm": _gemm,
    "Einsum": einsum,
    "Conv": _convolution,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": plain(lambda x: torch.mean(x, spatial(x), True)),
    "GlobalMaxPool": plain(lambda x: torch.amax(x, spatial(x), True)),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": instance_norm,
    "Dropout": _dropout,
}


def truncating(left: Any, right: Any) -> Any:
    """Divide integers and round towards zero, as ONNX does."""
    return torch.div(left, right, rounding_mode="trunc")


def power(left: Any, right: Any) -> Any:
    """x to the y, in the dtype of x."""
    return torch.pow(left, right).to(left.dtype)


def _clip(op: Op) -> Function:
    if op.opset < 11:
        low, high = op.get("min"), op.get("max")
        return lambda x: torch.clamp(x, low, high)
    low, high = (op.values[index].item() if op.has(index) else None for index in (1, 2))
    if low is None and high is None:
        return lambda x, *rest: x
    return lambda x, *rest: torch.clamp(x, low, high)


def _is_inf(op: Op) -> Function:
    negative, positive = op.get("detect_negative", 1), op.get("detect_positive", 1)
    if negative and positive:
        return torch.isinf
    if not (negative or positive):
        return lambda x: torch.zeros_like(x, dtype=torch.bool)
    return torch.isposinf if positive else torch.isneginf


def _hard_sigmoid(op: Op) -> Function:
    alpha, beta = op.get("alpha", 0.2), op.get("beta", 0.5)
    return lambda x: torch.clamp(alpha * x + beta, 0, 1)


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


def _cast(op: Op) -> Function:
    op.must(op.get("to") in DTYPES, f"dtype {op.get('to')}")
    dtype = DTYPES[op.get("to")]
    return lambda x: x.to(dtype)


def _selu(op: Op) -> Function:
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
    "HardSigmoid": _hard_sigmoid,
    "Gelu": lambda op: lambda x: F.gelu(x, approximate=op.get("approximate", b"none").decode()),
    "Clip": _clip,
    "IsInf": _is_inf,
    "Cast": _cast,
    "CastLike": plain(lambda x, like: x.to(like.dtype)),
    "Add": plain(torch.add),
    "Sub": plain(torch.sub),
    "Mul": plain(torch.mul),
    "Div": lambda op: torch.div if op.values[0].is_floating_point() else truncating,
    "Mod": lambda op: torch.fmod if op.get("fmod", 0) else torch.remainder,
    "Pow": plain(power),
    "PRelu": plain(prelu),
    "BitShift": lambda op: (
        torch.bitwise_left_shift if op.get("direction") == b"LEFT" else torch.bitwise_right_shift
    ),
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
    "Selu": _selu,
}


def _lp_norm(op: Op) -> Function:
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
    "LpNormalization": _lp_norm,
}
