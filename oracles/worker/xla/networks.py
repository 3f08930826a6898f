"""Lowerings to jax of linear algebra, convolutions, pools, normalisations and the like."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import helper

from oracles.worker.onnx import Function, Lowering, Op, evaluator_of, plain, window
from oracles.worker.xla.elementwise import is_float
from oracles.worker.xla.repeated import RECURRENT
from oracles.worker.xla.traced import TracedOp


def _gemm(op: Op) -> Function:
    alpha, beta = op.get("alpha"), op.get("beta")

    def run(a: Any, b: Any, c: Any = None) -> Any:
        a, b = a.T if op.get("transA") else a, b.T if op.get("transB") else b
        y = jnp.matmul(a, b)
        y = y if alpha == 1 else jnp.asarray(alpha, y.dtype) * y
        return y if c is None else y + (c if beta == 1 else jnp.asarray(beta, y.dtype) * c)

    return run


def shifted(x: Any, zero: Any, axis: int) -> Any:
    """An integer operand less its zero point, as int32; one a row or column stands along `axis`."""
    wide = x.astype(jnp.int32)
    if zero is None:
        return wide
    zero = jnp.reshape(zero, ()) if zero.size == 1 else zero
    if zero.ndim == 1:
        zero = jnp.expand_dims(zero, axis)
    return wide - zero.astype(jnp.int32)


def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    """The product of two integer matrices, in int32."""
    return jnp.matmul(shifted(a, a_zero, -1), shifted(b, b_zero, 0))


def _matmul_quantized(op: TracedOp) -> Function:
    op.must(all(op.values[place].size == 1 for place in (1, 2, 6, 7)), "a scale for each row")

    def run(
        a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
    ) -> Any:
        product = jnp.matmul(shifted(a, a_zero, -1), shifted(b, b_zero, 0))
        scale = a_scale.reshape(-1) * b_scale.reshape(-1) / y_scale.reshape(())
        return requantized(product, scale, y_zero)

    return run


def requantized(sums: Any, scale: Any, zero: Any) -> Any:
    """int32 sums by a scale, rounded to even and saturated to the type of the zero point."""
    found = lax.round(sums.astype(jnp.float32) * scale, lax.RoundingMethod.TO_NEAREST_EVEN)
    limits = jnp.iinfo(zero.dtype)
    shifted_by = found + jnp.reshape(zero, ()).astype(jnp.float32)
    return jnp.clip(shifted_by, int(limits.min), int(limits.max)).astype(jnp.int32).astype(zero.dtype)


def sliding(op: Op, kernel: Any) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Strides, dilations and pads by axis, with what a ceiled last window needs besides."""
    strides, dilations, pads = window(op, kernel)
    rank = len(kernel)
    edges = [(pads[i], pads[i + rank]) for i in range(rank)]
    if not op.get("ceil_mode", 0):
        return strides, dilations, edges
    found = []
    for i, size in enumerate(op.values[0].shape[2:]):
        reach, whole = (kernel[i] - 1) * dilations[i] + 1, size + sum(edges[i])
        count = -(-(whole - reach) // strides[i]) + 1
        if (count - 1) * strides[i] >= size + edges[i][0]:  # a window may not begin in the padding
            count -= 1
        found.append((edges[i][0], edges[i][1] + max((count - 1) * strides[i] + reach - whole, 0)))
    return strides, dilations, found


def convolve(x: Any, w: Any, strides: Any, edges: Any, dilations: Any, groups: int) -> Any:
    """A convolution of [batch, channel, …] by [filter, channel, …]."""
    return lax.conv_general_dilated(x, w, strides, edges, rhs_dilation=dilations, feature_group_count=groups)


def with_bias(y: Any, b: Any) -> Any:
    """Add one number a channel."""
    return y if b is None else y + jnp.reshape(b, (1, -1, *[1] * (y.ndim - 2)))


def _convolution(op: Op) -> Function:
    strides, dilations, edges = sliding(op, op.values[1].shape[2:])
    groups = op.get("group")
    return lambda x, w, b=None: with_bias(convolve(x, w, strides, edges, dilations, groups), b)


def _convolution_of_integers(op: TracedOp) -> Function:
    strides, dilations, edges = sliding(op, op.values[1].shape[2:])

    def run(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
        weights = shifted(w, None if w_zero is None else along_filters(w_zero, w), 0)
        return convolve(shifted(x, x_zero, 0), weights, strides, edges, dilations, op.get("group"))

    return run


def along_filters(value: Any, w: Any) -> Any:
    """One number a filter, or one for all, in the rank of the weights."""
    return jnp.reshape(value, () if value.size == 1 else (-1, *[1] * (w.ndim - 1)))


def _convolution_quantized(op: TracedOp) -> Function:
    strides, dilations, edges = sliding(op, op.values[3].shape[2:])

    def run(x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
            y_scale: Any, y_zero: Any, b: Any = None) -> Any:  # fmt: skip
        weights = shifted(w, along_filters(w_zero, w), 0)
        sums = convolve(shifted(x, x_zero, 0), weights, strides, edges, dilations, op.get("group"))
        scale = jnp.reshape(x_scale, ()) * w_scale / jnp.reshape(y_scale, ())
        scale = jnp.reshape(scale, () if w_scale.size == 1 else (1, -1, *[1] * (w.ndim - 2)))
        return requantized(with_bias(sums, b), scale, y_zero)

    return run


def transposed_edges(op: Op, strides: Any, dilations: Any, kernel: Any) -> list[tuple[int, int]]:
    """What a transposed convolution is padded by: the rest of each kernel, and what the output gets."""
    rank, shape = len(kernel), op.values[0].shape[2:]
    extra = list(op.get("output_padding") or [0] * rank)
    pads = list(op.get("pads") or [0] * (2 * rank))
    reaches = [(kernel[i] - 1) * dilations[i] + 1 for i in range(rank)]
    sizes, automatic = op.get("output_shape"), op.get("auto_pad")
    if sizes is None and automatic in (b"SAME_UPPER", b"SAME_LOWER"):
        sizes = [shape[i] * strides[i] for i in range(rank)]
    for i in range(rank) if sizes is not None else ():
        missing = strides[i] * (shape[i] - 1) + extra[i] + reaches[i] - sizes[i]
        small, large = missing // 2, missing - missing // 2
        pads[i], pads[i + rank] = (small, large) if automatic == b"SAME_UPPER" else (large, small)
    return [(reaches[i] - 1 - pads[i], reaches[i] - 1 - pads[i + rank] + extra[i]) for i in range(rank)]


def _convolution_transposed(op: Op) -> Function:
    kernel, groups = op.values[1].shape[2:], op.get("group")
    strides, dilations = (list(op.get(name) or [1] * len(kernel)) for name in ("strides", "dilations"))
    edges = transposed_edges(op, strides, dilations, kernel)

    def run(x: Any, w: Any, b: Any = None) -> Any:
        parts = jnp.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
        filters = jnp.reshape(jnp.swapaxes(parts, 1, 2), (-1, w.shape[0] // groups, *kernel))
        flipped = lax.rev(filters, tuple(range(2, filters.ndim)))
        y = lax.conv_general_dilated(
            x, flipped, [1] * len(kernel), edges, strides, dilations, feature_group_count=groups
        )
        return with_bias(y, b)

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
    counts_pads = bool(op.get("count_include_pad"))
    given = window(op, kernel)[2]

    def run(x: Any) -> Any:
        zero = jnp.zeros((), x.dtype)
        sums = slide(x, zero, lax.add, kernel, strides, dilations, edges)
        ones = jnp.ones((1, 1, *x.shape[2:]), x.dtype)
        left = list(edges)
        if counts_pads:  # but not what a ceiled window reaches beyond
            rank = len(kernel)
            inner = [(0, 0), (0, 0), *((given[i], given[i + rank]) for i in range(rank))]
            ones = jnp.pad(ones, inner, constant_values=1)
            left = [(0, high - given[i + rank]) for i, (_, high) in enumerate(edges)]
        return sums / slide(ones, zero, lax.add, kernel, strides, dilations, left)

    return run


def _lp_pool(op: Op) -> Function:
    kernel, p = list(op.get("kernel_shape")), op.get("p")
    strides, dilations, edges = sliding(op, kernel)

    def run(x: Any) -> Any:
        powers = jnp.abs(x) ** p
        sums = slide(powers, jnp.zeros((), x.dtype), lax.add, kernel, strides, dilations, edges)
        return sums ** jnp.asarray(1 / p, x.dtype)

    return run


def spatial(x: Any) -> tuple[int, ...]:
    """Give the axes after batch and channel."""
    return tuple(range(2, x.ndim))


def _global_lp_pool(op: Op) -> Function:
    p = op.get("p")
    return lambda x: jnp.sum(jnp.abs(x) ** p, spatial(x), keepdims=True) ** jnp.asarray(1 / p, x.dtype)


def _lrn(op: Op) -> Function:
    size, alpha, beta, bias = (op.get(name) for name in ("size", "alpha", "beta", "bias"))

    def run(x: Any) -> Any:
        edges = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
        shape = (1, size, *[1] * (x.ndim - 2))
        sums = lax.reduce_window(x * x, jnp.zeros((), x.dtype), lax.add, shape, [1] * x.ndim, edges)
        return x / (bias + alpha / size * sums) ** beta

    return run


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
    eps = op.get("epsilon")
    rank = op.values[0].ndim
    axes = tuple(range(op.get("axis") % rank, rank))

    def run(x: Any, scale: Any, bias: Any = None) -> Any:
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        mean = jnp.mean(wide, axes, keepdims=True)
        centred = wide - mean
        inverse = lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + jnp.asarray(eps, wide.dtype))
        y = (centred * inverse).astype(x.dtype) * scale
        found = (y if bias is None else y + bias, mean, inverse)
        return found[: op.outputs] if op.outputs > 1 else found[0]

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


def resize(op: TracedOp) -> Function:
    """A Resize, axis by axis: a gather, or a product with the matrix that ONNX's own makes."""
    mode = op.get("mode")
    op.must(op.get("coordinate_transformation_mode") != b"tf_crop_and_resize", "a crop")
    op.must(op.opset >= 11, "this opset")
    x = op.values[0]
    sizes, scales = op.numbers(3), op.numbers(2)
    axes = [axis % x.ndim for axis in op.get("axes") or range(x.ndim)]
    op.must(op.get("keep_aspect_ratio_policy", b"stretch") == b"stretch", "an aspect that is kept")
    matrices = {}
    for i, axis in enumerate(axes):
        if scales and scales[i] != 1:
            matrices[axis] = along_one_axis(op, x.shape[axis], {"scales": [1.0, scales[i]]})
        elif sizes and sizes[i] != x.shape[axis]:
            matrices[axis] = along_one_axis(op, x.shape[axis], {"sizes": [x.shape[axis], sizes[i]]})

    def run(x: Any, *rest: Any) -> Any:
        for axis, matrix in matrices.items():
            if mode == b"nearest":
                x = jnp.take(x, np.argmax(matrix, 0), axis)
            else:
                wide = jnp.tensordot(x.astype(jnp.float32) if not is_float(x) else x, matrix.astype(
                    x.dtype if is_float(x) else np.float32), ((axis,), (0,)))  # fmt: skip
                x = jnp.moveaxis(wide, -1, axis).astype(x.dtype)
        return x

    return run


def along_one_axis(op: TracedOp, size: int, kept: dict[str, Any]) -> Any:
    """The matrix [size, new size] of a Resize along one axis: what ONNX's evaluator makes of an identity."""
    attributes = {name: value for name, value in op.attributes.items() if name != "axes"}
    inputs = ["x", "", *("" if name not in kept else name for name in ("scales", "sizes"))]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node("Resize", inputs, ["y"], **attributes)
    values = [helper.make_empty_tensor_value_info(name) for name in ("x", *kept)]
    graph = helper.make_graph([node], "axis", values, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=op.scope.model.opset_import)
    arrays = {name: np.array(value, "f4" if name == "scales" else "i8") for name, value in kept.items()}
    rows = np.eye(size, dtype=np.float64)
    return evaluator_of(model).run(None, {"x": rows, **arrays})[0]


def dft(op: TracedOp) -> Function:
    """The function of ONNX's DFT with these attributes: the last axis holds real and imaginary parts."""
    x = op.values[0]
    op.must(x.dtype in (np.float32, np.float64), f"dtype {x.dtype}")
    axis = int(op.item(2, -2)) if op.opset >= 20 else op.get("axis")
    axis %= x.ndim
    size = int(op.item(1)) if op.has(1) else None
    is_inverse, is_half = bool(op.get("inverse")), bool(op.get("onesided"))
    op.must(not (is_inverse and is_half), "a real inverse")

    def run(x: Any, *rest: Any) -> Any:
        signal = x[..., 0] if x.shape[-1] == 1 else lax.complex(x[..., 0], x[..., 1])
        found = (jnp.fft.ifft if is_inverse else jnp.fft.fft)(signal, size, axis)
        if is_half:
            found = lax.slice_in_dim(found, 0, found.shape[axis] // 2 + 1, axis=axis)
        return jnp.stack([found.real, found.imag], -1)

    return run


def _det(op: TracedOp) -> Function:
    op.must(op.values[0].dtype in (np.float32, np.float64), f"dtype {op.values[0].dtype}")
    return jnp.linalg.det


NETWORKS: dict[str, Lowering] = {
    "MatMul": plain(jnp.matmul),
    "Gemm": _gemm,
    "Einsum": lambda op: lambda *terms: jnp.einsum(op.get("equation").decode(), *terms),
    "Det": _det,
    "DFT": dft,
    "MatMulInteger": plain(matmul_integer),
    "QLinearMatMul": _matmul_quantized,
    "Conv": _convolution,
    "ConvInteger": _convolution_of_integers,
    "QLinearConv": _convolution_quantized,
    "ConvTranspose": _convolution_transposed,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": plain(lambda x: jnp.mean(x, spatial(x), keepdims=True)),
    "GlobalMaxPool": plain(lambda x: jnp.max(x, spatial(x), keepdims=True)),
    "GlobalLpPool": _global_lp_pool,
    "LRN": _lrn,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": _instance_norm,
    "Dropout": _dropout,
    "Resize": resize,
    **RECURRENT,
}
