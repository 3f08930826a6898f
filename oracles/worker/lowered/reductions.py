"""Lowerings of operators that sum, or otherwise make one of many elements."""

from __future__ import annotations

import math
from typing import Any

import torch

from oracles.worker.lowered.elementwise import truncating
from oracles.worker.lowered.lowering import Function, Lowering, Op
from oracles.worker.torch.tensors import Unsupported


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
