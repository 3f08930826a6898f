"""Bugs of ONNX Runtime's operators on the CPU: sessions without optimisation have them, too."""

import numpy as np

from tests.bench.realbugs.bug import Bug, floats
from tests.bench.realbugs.ort_optimiser import FROM_FIRST

KERNELS = (
    Bug(
        "div-by-zero", 27693, "integer Div by 0 ends the process",
        "g (int32[2] x, int32[2] z) => (int32[2] y) { y = Div(x, z) }",
        lambda: {"x": np.array([1, 2], np.int32), "z": np.array([0, 1], np.int32)},
        (FROM_FIRST, "1.24.4"), "crash", ("Div",), "execute", least=1, cause="div-zero", change=27693,
    ),
    Bug(
        "div-by-zero-steps", 16998, "a linspace of one step divides by 0 and ends the process",
        "g (int64 n) => (int64 y) <int64 one = {1}, int64 whole = {7}>"
        " { steps = Sub(n, one) y = Div(whole, steps) }",
        lambda: {"n": np.int64(1)},
        (FROM_FIRST, "1.24.4"), "crash", ("Div",), "execute", seen_on="1.20.1", least=1, cause="div-zero",
        change=27693,
    ),
    Bug(
        "mod-by-zero", 27833, "integer Mod by 0 ends the process",
        "g (int32[2] x, int32[2] z) => (int32[2] y) { y = Mod(x, z) }",
        lambda: {"x": np.array([1, 2], np.int32), "z": np.array([0, 1], np.int32)},
        (FROM_FIRST, "1.24.4"), "crash", ("Mod",), "execute", least=1, change=27833,
    ),
    Bug(
        "mod-of-least", 32369, "the least integer Mod -1 ends the process",
        "g (int32[1] x, int32[1] z) => (int32[1] y) { y = Mod(x, z) }",
        lambda: {"x": np.array([-(2**31)], np.int32), "z": np.array([-1], np.int32)},
        (FROM_FIRST, "1.30.0"), "crash", ("Mod",), "execute", least=1, change=32369,
    ),
    Bug(
        "mean-without-axes", 25095, "ReduceMean that is to reduce nothing throws",
        "g (float[2,3,4] x) => (float[2,3,4] y) { y = ReduceMean<noop_with_empty_axes=1>(x) }",
        lambda: {"x": floats(0, 2, 3, 4)},
        ("1.17.3", "1.23.2"), "exception", ("Reduce",), "execute", least=1, opset=18, cause="reduce-noop",
        change=26436,
    ),
    Bug(
        "sum-without-axes", 19147, "ReduceSum that is to reduce nothing throws",
        "g (float[3,2,2] x) => (float[3,2,2] y) { y = ReduceSum<noop_with_empty_axes=1, keepdims=1>(x) }",
        lambda: {"x": floats(0, 3, 2, 2)},
        ("1.15.1", "1.23.2"), "exception", ("Reduce",), "execute", seen_on="1.17.3", least=1, opset=13,
        cause="reduce-noop", change=26436,
    ),
    Bug(
        "reduce-empty-dim", 7563, "a reduction over a dim of 0 throws without keepdims",
        "g (float[0,3] x) => (float[3] y) <int64[1] a = {0}> { y = ReduceProd<keepdims=0>(x, a) }",
        lambda: {"x": np.zeros((0, 3), np.float32)},
        (FROM_FIRST, "1.16.3"), "exception", ("Reduce",), "execute", least=1, opset=18,
    ),
    Bug(
        "average-pool-ceil-included", 29629, "AveragePool divides by cells behind the padding",
        "g (float[1,1,4,4] x) => (float[1,1,2,2] y)"
        " { y = AveragePool<kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1>(x) }",
        lambda: {"x": np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)},
        (FROM_FIRST, "1.28.0"), "mismatch", ("AveragePool",), seen_on="1.22.1", least=1, change=29629,
        oracles="backends",
    ),
    Bug(
        "average-pool-ceil-19", 16203, "AveragePool of opset 19 divides by the kernel's size at the edge",
        "g (float[1,1,4,4] x) => (float[1,1,2,2] y)"
        " { y = AveragePool<kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1>(x) }",
        lambda: {"x": np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)},
        ("1.16.3", "1.20.1"), "mismatch", ("AveragePool",), least=1, opset=19, change=16752,
        oracles="backends",
    ),
    Bug(
        "max-pool-window-in-padding", 15446, "MaxPool has a window that begins in the padding",
        "g (float[1,1,3,6,5] x) => (float[1,1,D,H,W] y)"
        " { y = MaxPool<ceil_mode=1, kernel_shape=[3, 3, 3], pads=[1, 1, 1, 1, 1, 1], strides=[3, 3,"
        " 3]>(x) }",
        lambda: {"x": floats(0, 1, 1, 3, 6, 5)},
        (FROM_FIRST, "1.20.1"), "mismatch", ("MaxPool",), least=1, opset=14, oracles="backends",
    ),
    Bug(
        "attention-cap-before-mask", 28379,
        "Attention caps its scores after the mask, which lets masked ones through",
        "g (float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v, float[3,3] m) => (float[1,2,3,4] y)"
        " { y = Attention<softcap=0.5>(q, k, v, m) }",
        lambda: {"q": floats(0, 1, 2, 3, 4), "k": floats(1, 1, 2, 3, 4), "v": floats(2, 1, 2, 3, 4),
                 "m": np.where(np.tri(3), 0, -np.inf).astype(np.float32)},
        ("1.23.2", "1.26.0"), "mismatch", ("Attention",), least=1, opset=23, change=28379,
        oracles="backends",
    ),
    Bug(
        "layer-norm-scale-a-batch", 18184, "LayerNormalization refuses a scale that broadcasts",
        "g (float[2,3,4] x, float[2,1,4] s) => (float[2,3,4] y) { y = LayerNormalization<axis=-1>(x, s) }",
        lambda: {"x": floats(0, 2, 3, 4), "s": floats(1, 2, 1, 4)},
        (FROM_FIRST, "1.20.1"), "exception", ("LayerNorm",), "execute", least=1, change=23297,
    ),
    Bug(
        "rms-norm-scalar-scale", 26432, "RMSNormalization refuses a scalar scale",
        "g (float[2,5,3] x) => (float[2,5,3] y) <float s = {2}> { y = RMSNormalization<axis=2>(x, s) }",
        lambda: {"x": floats(0, 2, 5, 3)},
        ("1.23.2", "1.23.2"), "exception", ("RMSNorm", "LayerNorm"), "execute",
        least=1, opset=23, change=26613,
    ),
    Bug(
        "layer-norm-of-one", 25896, "LayerNormalization refuses an axis of 1",
        "g (float[2,1] x) => (float[2,1] y) <float[1] s = {2}> { y = LayerNormalization(x, s) }",
        lambda: {"x": floats(0, 2, 1)},
        ("1.21.1", "1.23.2"), "exception", ("LayerNorm",), "execute", least=1,
    ),
    Bug(
        "gemm-of-nothing", 22111, "Gemm refuses to add up nothing",
        "g (float[2,0] a, float[0,2] b, float[2] c) => (float[2,2] y) { y = Gemm(a, b, c) }",
        lambda: {"a": np.zeros((2, 0), np.float32), "b": np.zeros((0, 2), np.float32), "c": floats(0, 2)},
        (FROM_FIRST, "1.19.2"), "exception", ("Gemm",), "execute", least=1, change=22111,
    ),
    Bug(
        "log-sum-exp-of-zeros", 28461, "ReduceLogSumExp of -inf is NaN",
        "g (float[5] x) => (float y) { y = ReduceLogSumExp<keepdims=0>(x) }",
        lambda: {"x": np.full(5, -np.inf, np.float32)},
        (FROM_FIRST, "1.26.0"), "mismatch", ("ReduceLogSumExp",), least=1, opset=18, oracles="backends",
    ),
    Bug(
        "max-loses-nan", 21455, "Max with a single number loses a NaN",
        "g (float[3,1] a) => (float[3,1] y) <float[1] b = {10}> { y = Max(a, b) }",
        lambda: {"a": np.array([[1], [np.nan], [3]], np.float32)},
        (FROM_FIRST, "1.18.1"), "mismatch", ("Max",), least=1, opset=13, oracles="backends",
    ),
)  # fmt: skip
