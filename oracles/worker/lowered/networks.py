"""Lowerings of linear algebra, pools, normalisations and the like."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from oracles.worker.lowered.lowering import Function, Lowering, Op, plain


def softmax(function: Function) -> Lowering:
    """Lower a softmax; before opset 13 it flattens from its axis on."""

    def lower(op: Op) -> Function:
        if op.opset >= 13:
            axis = op.get("axis", -1)
            return lambda x: function(x, dim=axis)
        start = op.get("axis", 1) % max(op.values[0].dim(), 1)
        return lambda x: function(x.reshape(math.prod(x.shape[:start]), -1), dim=1).reshape(x.shape)

    return lower


def hardmax(op: Op) -> Function:
    """The function of ONNX's Hardmax with these attributes."""
    op.must(op.opset >= 13, "this opset")
    axis = op.get("axis", -1)

    def run(x: Any) -> Any:
        first = torch.argmax(x, dim=axis, keepdim=True)
        return torch.zeros_like(x).scatter(axis, first, torch.ones_like(first, dtype=x.dtype))

    return run


def gemm(op: Op) -> Function:
    """The function of ONNX's Gemm with these attributes."""
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


def window(op: Op, kernel: Any) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations, and pads in F.pad's order."""
    rank = len(kernel)
    strides, dilations = (list(op.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads = list(op.get("pads") or [0] * (2 * rank))
    automatic = op.get("auto_pad", b"NOTSET")
    if automatic in (b"SAME_UPPER", b"SAME_LOWER"):
        for i, size in enumerate(op.values[0].shape[2:]):
            reach = (kernel[i] - 1) * dilations[i] + 1
            missing = max((-(-size // strides[i]) - 1) * strides[i] + reach - size, 0)
            small, large = missing // 2, missing - missing // 2
            pads[i], pads[i + rank] = (small, large) if automatic == b"SAME_UPPER" else (large, small)
    order = [size for i in reversed(range(rank)) for size in (pads[i], pads[i + rank])]
    return strides, dilations, order


def by_rank(op: Op, functions: tuple[Function, ...]) -> Function:
    """The function that suits the operand's rank: one, two or three dims in space."""
    rank = op.values[0].dim() - 2
    op.must(1 <= rank <= len(functions), f"{rank} spatial dims")
    return functions[rank - 1]


def convolution(op: Op) -> Function:
    """The function of ONNX's Conv with these attributes."""
    function = by_rank(op, (F.conv1d, F.conv2d, F.conv3d))
    strides, dilations, order = window(op, op.values[1].shape[2:])
    groups = op.get("group", 1)
    return lambda x, w, b=None: function(F.pad(x, order), w, b, strides, 0, dilations, groups)


def max_pool(op: Op) -> Function:
    """The function of ONNX's MaxPool with these attributes."""
    function = by_rank(op, (F.max_pool1d, F.max_pool2d, F.max_pool3d))
    op.must(not op.get("ceil_mode", 0) and op.outputs == 1, "ceil_mode or indices")
    op.must(op.values[0].is_floating_point(), f"dtype {op.values[0].dtype}")
    kernel = list(op.get("kernel_shape"))
    strides, dilations, order = window(op, kernel)
    return lambda x: function(F.pad(x, order, "constant", -math.inf), kernel, strides, 0, dilations)


def average_pool(op: Op) -> Function:
    """The function of ONNX's AveragePool with these attributes."""
    function = by_rank(op, (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d))
    kernel = list(op.get("kernel_shape"))
    strides, dilations, order = window(op, kernel)
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


def batch_norm(op: Op) -> Function:
    """The function of ONNX's BatchNormalization with these attributes."""
    op.must(not op.get("training_mode", 0) and op.outputs == 1, "training")
    eps = op.get("epsilon", 1e-5)
    return lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, False, 0.0, eps)


def layer_norm(op: Op) -> Function:
    """The function of ONNX's LayerNormalization with these attributes."""
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


def dropout(op: Op) -> Function:
    """The function of ONNX's Dropout with these attributes."""
    op.must(not (op.has(2) and op.values[2].item()), "training")
    if op.outputs == 1:
        return lambda x, *rest: x.clone()
    return lambda x, *rest: (x.clone(), torch.ones_like(x, dtype=torch.bool))


NETWORKS: dict[str, Lowering] = {
    "Softmax": softmax(torch.softmax),
    "LogSoftmax": softmax(torch.log_softmax),
    "Gemm": gemm,
    "Einsum": einsum,
    "Conv": convolution,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": plain(lambda x: torch.mean(x, spatial(x), True)),
    "GlobalMaxPool": plain(lambda x: torch.amax(x, spatial(x), True)),
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": instance_norm,
    "Dropout": dropout,
    "Hardmax": hardmax,
}
