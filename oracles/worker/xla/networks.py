"""Lowerings to jax of linear algebra, convolutions, pools, normalisations and reductions."""

import math
from typing import Any

import jax.numpy as jnp
from jax import lax, nn

from oracles.worker.onnx import Function, Lowering, Op, plain, window
from oracles.worker.xla.elementwise import divide, is_float
from oracles.worker.xla.traced import TracedOp


def _gemm(op: Op) -> Function:
    alpha, beta = op.get("alpha"), op.get("beta")

    def run(a: Any, b: Any, c: Any = None) -> Any:
        a, b = a.T if op.get("transA") else a, b.T if op.get("transB") else b
        y = jnp.matmul(a, b)
        y = y if alpha == 1 else jnp.asarray(alpha, y.dtype) * y
        return y if c is None else y + (c if beta == 1 else jnp.asarray(beta, y.dtype) * c)

    return run


def sliding(op: Op, kernel: Any) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Strides, dilations and pads by axis of a window."""
    op.must(not op.get("ceil_mode", 0), "ceil_mode")
    strides, dilations, pads = window(op, kernel)
    return strides, dilations, list(zip(pads, pads[len(kernel) :]))  # noqa: B905 (Python 3.8)


def _convolution(op: Op) -> Function:
    strides, dilations, edges = sliding(op, op.values[1].shape[2:])
    groups = op.get("group")

    def run(x: Any, w: Any, b: Any = None) -> Any:
        y = lax.conv_general_dilated(x, w, strides, edges, rhs_dilation=dilations, feature_group_count=groups)
        return y if b is None else y + jnp.reshape(b, (1, -1, *[1] * (y.ndim - 2)))

    return run


def slide(x: Any, first: Any, function: Any, kernel: Any, strides: Any, dilations: Any, edges: Any) -> Any:
    """Reduce each window over the axes after batch and channel."""
    return lax.reduce_window(
        x, first, function, (1, 1, *kernel), (1, 1, *strides), ((0, 0), (0, 0), *edges),
        window_dilation=(1, 1, *dilations),
    )  # fmt: skip


def _max_pool(op: Op) -> Function:
    op.must(op.outputs == 1, "indices")
    kernel = list(op.get("kernel_shape"))
    strides, dilations, edges = sliding(op, kernel)
    x = op.values[0]
    least = jnp.asarray(-math.inf if is_float(x) else jnp.iinfo(x.dtype).min, x.dtype)
    return lambda x: slide(x, least, lax.max, kernel, strides, dilations, edges)


def _average_pool(op: Op) -> Function:
    kernel = list(op.get("kernel_shape"))
    strides, dilations, edges = sliding(op, kernel)

    def run(x: Any) -> Any:
        zero = jnp.zeros((), x.dtype)
        sums = slide(x, zero, lax.add, kernel, strides, dilations, edges)
        if op.get("count_include_pad"):
            return sums / math.prod(kernel)
        ones = jnp.ones((1, 1, *x.shape[2:]), x.dtype)
        return sums / slide(ones, zero, lax.add, kernel, strides, dilations, edges)

    return run


def spatial(x: Any) -> tuple[int, ...]:
    """Give the axes after batch and channel."""
    return tuple(range(2, x.ndim))


def _batch_norm(op: Op) -> Function:
    op.must(not op.get("training_mode", 0) and op.outputs == 1, "training")
    eps = op.get("epsilon")

    def run(x: Any, *rest: Any) -> Any:
        scale, bias, mean, variance = (
            each.reshape((1, -1, *[1] * (x.ndim - 2))[: max(x.ndim, 1)]) for each in rest
        )
        y = (x - mean) * lax.rsqrt(variance + jnp.asarray(eps, variance.dtype)) * scale + bias
        return y.astype(x.dtype)

    return run


def layer_norm(op: Op) -> Function:
    """The function of ONNX's LayerNormalization with these attributes; short floats in float32."""
    op.must(op.outputs == 1, "its further outputs")
    eps = op.get("epsilon")
    rank = op.values[0].ndim
    axes = tuple(range(op.get("axis") % rank, rank))

    def run(x: Any, scale: Any, bias: Any = None) -> Any:
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        centred = wide - jnp.mean(wide, axes, keepdims=True)
        inverse = lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + jnp.asarray(eps, wide.dtype))
        y = (centred * inverse).astype(x.dtype) * scale
        return y if bias is None else y + bias

    return run


def _instance_norm(op: Op) -> Function:
    eps = op.get("epsilon")

    def run(x: Any, w: Any, b: Any) -> Any:
        centred = x - jnp.mean(x, spatial(x), keepdims=True)
        variance = jnp.mean(centred * centred, spatial(x), keepdims=True)
        shape = (1, -1, *[1] * (x.ndim - 2))
        return centred * lax.rsqrt(variance + jnp.asarray(eps, x.dtype)) * w.reshape(shape) + b.reshape(shape)

    return run


def _dropout(op: TracedOp) -> Function:
    op.must(not op.item(2, False), "training")
    if op.outputs == 1:
        return lambda x, *rest: x
    return lambda x, *rest: (x, jnp.ones(x.shape, jnp.bool_))


NETWORKS: dict[str, Lowering] = {
    "MatMul": plain(jnp.matmul),
    "Gemm": _gemm,
    "Einsum": lambda op: lambda *terms: jnp.einsum(op.get("equation").decode(), *terms),
    "Conv": _convolution,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": plain(lambda x: jnp.mean(x, spatial(x), keepdims=True)),
    "GlobalMaxPool": plain(lambda x: jnp.max(x, spatial(x), keepdims=True)),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": _instance_norm,
    "Dropout": _dropout,
}


def reduction(function: Function, *, of_floats: bool = False) -> Lowering:
    """`function(x, axes, keepdims)` over the axes that the node names, or all."""

    def lower(op: Op) -> Function:
        op.must(is_float(op.values[0]) or not of_floats, "integers")
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


def _cumulative(op: TracedOp) -> Function:
    op.must(not op.get("exclusive"), "an exclusive sum")
    axis, reverse = op.item(1, 0) % op.values[0].ndim, bool(op.get("reverse"))
    return lambda x, *rest: lax.cumsum(x, axis=axis, reverse=reverse)


def softmax(function: Function) -> Lowering:
    """Lower a softmax; before opset 13 it flattened from its axis on."""

    def lower(op: Op) -> Function:
        op.must(op.opset >= 13, "this opset")
        return lambda x: function(x, axis=op.get("axis"))

    return lower


def _lp_norm(op: Op) -> Function:
    axis, p = op.get("axis"), op.get("p")

    def run(x: Any) -> Any:
        size = total(jnp.abs(x), axis, True) if p == 1 else lax.sqrt(total(x * x, axis, True))
        return jnp.where(size == 0, jnp.zeros_like(x), x / size)

    return run


REDUCTIONS: dict[str, Lowering] = {
    "ReduceSum": reduction(total),
    "ReduceMean": reduction(mean),
    "ReduceProd": reduction(lambda x, axes, keep: jnp.prod(x, axes, dtype=x.dtype, keepdims=keep)),
    "ReduceMax": reduction(extreme(jnp.max, True)),
    "ReduceMin": reduction(extreme(jnp.min, False)),
    "ReduceL1": reduction(lambda x, axes, keep: total(jnp.abs(x), axes, keep)),
    "ReduceL2": reduction(lambda x, axes, keep: lax.sqrt(total(x * x, axes, keep)), of_floats=True),
    "ReduceSumSquare": reduction(lambda x, axes, keep: total(x * x, axes, keep)),
    "ReduceLogSum": reduction(lambda x, axes, keep: lax.log(total(x, axes, keep)), of_floats=True),
    "ReduceLogSumExp": reduction(
        lambda x, axes, keep: nn.logsumexp(x, axis=axes, keepdims=keep), of_floats=True
    ),
    "ArgMax": largest(jnp.argmax),
    "ArgMin": largest(jnp.argmin),
    "CumSum": _cumulative,
    "Softmax": softmax(nn.softmax),
    "LogSoftmax": softmax(nn.log_softmax),
    "LpNormalization": _lp_norm,
}
