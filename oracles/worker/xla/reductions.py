"""Lowerings to jax of reductions, sorts, sums along an axis and the like."""

import math
from typing import Any

import jax.numpy as jnp
from jax import lax, nn

from oracles.worker.onnx import Function, Lowering, Op
from oracles.worker.xla.elementwise import divide, is_float
from oracles.worker.xla.traced import TracedOp


def reduction(function: Function) -> Lowering:
    """`function(x, axes, keepdims)` over the axes that the node names, or all."""

    def lower(op: Op) -> Function:
        rank = op.values[0].ndim
        axes, keep = op.numbers(1, "axes"), bool(op.get("keepdims"))
        if not axes and op.get("noop_with_empty_axes", 0):
            return lambda x, *rest: function(x, (), keep)
        chosen = tuple(sorted({axis % rank for axis in axes})) if axes else tuple(range(rank))
        return lambda x, *rest: function(x, chosen, keep)

    return lower


def total(x: Any, axes: Any, keep: bool) -> Any:
    """Sum in the dtype of x."""
    return jnp.sum(x, axes, dtype=x.dtype, keepdims=keep)


def mean(x: Any, axes: Any, keep: bool) -> Any:
    """The mean; of integers, rounded towards zero."""
    count = jnp.asarray(math.prod(x.shape[axis] for axis in axes), x.dtype)
    return divide(total(x, axes, keep), count)


def extreme(function: Function, is_largest: bool) -> Function:
    """The largest or least element; of none, the other end of the type."""

    def run(x: Any, axes: Any, keep: bool) -> Any:
        if x.dtype == jnp.bool_:
            return function(x, axes, keepdims=keep, initial=not is_largest)
        least = -math.inf if is_float(x) else jnp.iinfo(x.dtype).min
        most = math.inf if is_float(x) else jnp.iinfo(x.dtype).max
        return function(x, axes, keepdims=keep, initial=jnp.asarray(least if is_largest else most, x.dtype))

    return run


def root_of_squares(x: Any, axes: Any, keep: bool) -> Any:
    """The root of the sum of squares; of integers in float64."""
    squares = total(x * x, axes, keep)
    return lax.sqrt(squares) if is_float(x) else lax.sqrt(squares.astype(jnp.float64)).astype(x.dtype)


def log_sum(x: Any, axes: Any, keep: bool) -> Any:
    """The logarithm of the sum; of integers in float64."""
    sums = total(x, axes, keep)
    return lax.log(sums) if is_float(x) else lax.log(sums.astype(jnp.float64)).astype(x.dtype)


def log_sum_exp(x: Any, axes: Any, keep: bool) -> Any:
    """The logarithm of the sum of exponentials; of integers in float64."""
    wide = x if is_float(x) else x.astype(jnp.float64)
    return nn.logsumexp(wide, axis=axes, keepdims=keep).astype(x.dtype)


def largest(function: Function) -> Lowering:
    """Lower ArgMax or ArgMin; `select_last_index` counts from the other end."""

    def lower(op: Op) -> Function:
        axis, keep = op.get("axis"), bool(op.get("keepdims"))

        def run(x: Any) -> Any:
            source = jnp.flip(x, axis) if op.get("select_last_index", 0) else x
            found = function(source, axis=axis, keepdims=keep).astype(jnp.int64)
            return x.shape[axis] - 1 - found if op.get("select_last_index", 0) else found

        return run

    return lower


def cumulative(function: Function, first: int) -> Lowering:
    """Lower CumSum or CumProd; `first` is what an exclusive one starts with."""

    def lower(op: TracedOp) -> Function:
        axis, reverse = op.item(1, 0) % op.values[0].ndim, bool(op.get("reverse"))

        def run(x: Any, *rest: Any) -> Any:
            y = function(x, axis=axis, reverse=reverse)
            if not op.get("exclusive") or not x.shape[axis]:
                return y
            one = jnp.full([1 if i == axis else size for i, size in enumerate(x.shape)], first, x.dtype)
            start = 1 if reverse else 0
            kept = lax.slice_in_dim(y, start, start + x.shape[axis] - 1, axis=axis)
            return jnp.concatenate([kept, one] if reverse else [one, kept], axis)

        return run

    return lower


def top_k(op: TracedOp) -> Function:
    """The function of ONNX's TopK with these attributes: of equal elements the first comes first."""
    count = int(op.item(1)) if op.has(1) else op.get("k")
    axis, is_largest = op.get("axis"), op.get("largest", 1)

    def run(x: Any, *rest: Any) -> Any:
        rows = jnp.moveaxis(x, axis, -1)
        if is_largest:
            values, places = lax.top_k(rows, count)
        else:
            order = lax.broadcasted_iota(jnp.int32, rows.shape, rows.ndim - 1)
            values, places = lax.sort((rows, order), num_keys=1, is_stable=True)
            values, places = values[..., :count], places[..., :count]
        return jnp.moveaxis(values, -1, axis), jnp.moveaxis(places.astype(jnp.int64), -1, axis)

    return run


def softmax(function: Function) -> Lowering:
    """Lower a softmax; before opset 13 it flattens from its axis on."""

    def lower(op: Op) -> Function:
        if op.opset >= 13:
            return lambda x: function(x, axis=op.get("axis"))
        start = op.get("axis") % max(op.values[0].ndim, 1)
        return lambda x: function(x.reshape(math.prod(x.shape[:start]), -1), axis=1).reshape(x.shape)

    return lower


def _hardmax(op: Op) -> Function:
    op.must(op.opset >= 13, "this opset")
    axis = op.get("axis") % op.values[0].ndim

    def run(x: Any) -> Any:
        places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
        return (places == jnp.argmax(x, axis=axis, keepdims=True)).astype(x.dtype)

    return run


def _lp_norm(op: Op) -> Function:
    axis, p = op.get("axis"), op.get("p")

    def run(x: Any) -> Any:
        size = total(jnp.abs(x), axis, True) if p == 1 else lax.sqrt(total(x * x, axis, True))
        return jnp.where(size == 0, jnp.zeros_like(x), x / size)

    return run


def unique(op: TracedOp) -> Function:
    """The function of ONNX's Unique with these attributes, sorted."""
    op.must(bool(op.get("sorted")), "the order of the input")
    axis = op.get("axis")
    import numpy as np

    known = op.known(0)
    count = np.unique(known, axis=axis).shape[axis or 0]
    op.must(known.size > 0, "an empty tensor")

    def run(x: Any) -> Any:
        found = jnp.unique(
            x, return_index=True, return_inverse=True, return_counts=True, axis=axis, size=count
        )
        return (found[0], *(each.reshape(-1).astype(jnp.int64) for each in found[1:]))

    return run


REDUCTIONS: dict[str, Lowering] = {
    "ReduceSum": reduction(total),
    "ReduceMean": reduction(mean),
    "ReduceProd": reduction(lambda x, axes, keep: jnp.prod(x, axes, dtype=x.dtype, keepdims=keep)),
    "ReduceMax": reduction(extreme(jnp.max, True)),
    "ReduceMin": reduction(extreme(jnp.min, False)),
    "ReduceL1": reduction(lambda x, axes, keep: total(jnp.abs(x), axes, keep)),
    "ReduceL2": reduction(root_of_squares),
    "ReduceSumSquare": reduction(lambda x, axes, keep: total(x * x, axes, keep)),
    "ReduceLogSum": reduction(log_sum),
    "ReduceLogSumExp": reduction(log_sum_exp),
    "ArgMax": largest(jnp.argmax),
    "ArgMin": largest(jnp.argmin),
    "CumSum": cumulative(lax.cumsum, 0),
    "CumProd": cumulative(lax.cumprod, 1),
    "TopK": top_k,
    "Softmax": softmax(nn.softmax),
    "LogSoftmax": softmax(nn.log_softmax),
    "Hardmax": _hardmax,
    "LpNormalization": _lp_norm,
    "Unique": unique,
}
