"""Bugs of ONNX Runtime's optimiser: the un-optimised session is right, or loads."""

import numpy as np

from tests.bench.realbugs.bug import Bug, floats

FROM_FIRST, TO_LAST = "1.15.1", "1.32.0"


def counted(count: int, step: float = 1) -> str:
    """Numbers of a weight, in the text format."""
    return "{" + ", ".join(f"{at * step:g}" for at in range(count)) + "}"


NORMALISED = """{ m = ReduceMean<axes=[-1], keepdims=1>(x) d = Sub(x, m) q = Pow(d, two)
    v = ReduceMean<axes=[-1], keepdims=1>(q) ve = Add(v, e) sd = Sqrt(ve) n = Div(d, sd) y = Mul(s, n) }"""

OPTIMISER = (
    Bug(
        "relu-clip-double", 24158, "Relu before a Clip of float64: the fusion knows two types",
        "g (double[2,3] x) => (double[2,3] y) <double lo = {-0.5}, double hi = {0.5}>"
        " { a = Relu(x) y = Clip(a, lo, hi) }",
        lambda: {"x": floats(0, 2, 3, dtype="float64")},
        (FROM_FIRST, TO_LAST), "exception", ("ReluClip",), "optimise", seen_on="1.22.1",
    ),
    Bug(
        "gemm-identity-transpose-a", 32417, "a Transpose that moves nothing becomes Gemm's transA",
        f"g (float[3,4] x) => (float[3,5] y) <float[4,5] w = {counted(20)}, float[5] b = {counted(5)}>"
        " { t = Transpose<perm=[0, 1]>(x) y = Gemm(t, w, b) }",
        lambda: {"x": floats(0, 3, 4)},
        (FROM_FIRST, "1.29.0"), "exception", ("GemmTranspose",), seen_on="1.26.0", cause="gemm-transpose",
    ),
    Bug(
        "gemm-identity-transpose-b", 32418, "a Transpose that moves nothing becomes Gemm's transB",
        f"g (float[3,4] x, float[4,5] w) => (float[3,5] y) <float[5] b = {counted(5)}>"
        " { t = Transpose<perm=[0, 1]>(w) y = Gemm(x, t, b) }",
        lambda: {"x": floats(0, 3, 4), "w": floats(1, 4, 5)},
        (FROM_FIRST, "1.29.0"), "exception", ("GemmTranspose",), seen_on="1.26.0", cause="gemm-transpose",
    ),
    Bug(
        "layer-norm-wide-scale", 31980, "a scale wider than the normalised axis is fused",
        f"g (float[1,1] x) => (float[1,2] y) <float two = {{2}}, float e = {{1e-5}}, float[2] s = {{1,"
        f" 2}}> {NORMALISED}",
        lambda: {"x": floats(0, 1, 1)},
        (FROM_FIRST, TO_LAST), "exception", ("LayerNorm",), seen_on="1.29.0",
        least=8, cause="layer-norm-scale",
    ),
    Bug(
        "layer-norm-outer-scale", 8203, "a scale that adds a dim is fused",
        f"g (float[3,1] x) => (float[3,4] y) <float two = {{2}}, float e = {{1e-5}}, float[4] s ="
        f" {counted(4)}> {NORMALISED}",
        lambda: {"x": floats(0, 3, 1)},
        (FROM_FIRST, TO_LAST), "exception", ("LayerNorm",), seen_on="1.20.1",
        least=8, cause="layer-norm-scale",
        tracker="onnx",
    ),
    Bug(
        "rms-norm-cubed", 29196, "any exponent of the Pow is taken for 2",
        "g (float[2,4] x) => (float[2,4] y) <float p = {3}, float e = {1e-5}, float[4] s = {1, 2, 3, 4}>"
        " { q = Pow(x, p) v = ReduceMean<axes=[-1], keepdims=1>(q) ve = Add(v, e) sd = Sqrt(ve)"
        " n = Div(x, sd) y = Mul(n, s) }",
        lambda: {"x": abs(floats(0, 2, 4))},
        (FROM_FIRST, "1.27.0"), "mismatch", ("SimplifiedLayerNorm",), seen_on="1.24.4", least=6, change=29196,
    ),
    Bug(
        "quick-gelu-double", 32421, "x * Sigmoid(1.702 x) of float64 becomes an operator without a kernel",
        "g (double[2,3] x) => (double[2,3] y) <double k = {1.702}>"
        " { a = Mul(x, k) b = Sigmoid(a) y = Mul(x, b) }",
        lambda: {"x": floats(0, 2, 3, dtype="float64")},
        (FROM_FIRST, "1.30.0"), "exception", ("QuickGelu",), "optimise", seen_on="1.29.0", least=3,
    ),
    Bug(
        "pad-before-average", 22177, "a Pad becomes the pads of an AveragePool that does not count them",
        "g (float[1,1,4,4] x) => (float[1,1,5,5] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>"
        " { a = Pad(x, p) y = AveragePool<kernel_shape=[2, 2]>(a) }",
        lambda: {"x": floats(0, 1, 1, 4, 4) + 5},
        ("1.20.1", "1.20.1"), "mismatch", ("PadFusion", "Pad_Fusion"), change=23190,
    ),
    Bug(
        "matmul-batch-norm", 22512, "MatMul of rank 3 and BatchNormalization become a Gemm",
        f"g (float[2,3,4] x) => (float[2,5,3] y) <float[4,5] w = {counted(20)}, float[5] s = {counted(5)},"
        " float[5] b = {1, 1, 1, 1, 1}, float[5] m = {0, 0, 0, 1, 1}, float[5] v = {1, 1, 1, 2, 2}>"
        " { a = MatMul(x, w) t = Transpose<perm=[0, 2, 1]>(a) y = BatchNormalization(t, s, b, m, v) }",
        lambda: {"x": floats(0, 2, 3, 4)},
        ("1.17.3", "1.20.1"), "exception", ("MatMulBn", "MatMul_BatchNormalization"), "optimise",
        least=3, change=22762,
    ),
    Bug(
        "cast-before-div-mul", 32416, "a Cast to its own type goes while DivMulFusion reads its result",
        "g (float[3] a, float[3] b) => (float[3] y) <float one = {1}>"
        " { k = Cast<to=1>(b) d = Div(one, a) y = Mul(k, d) }",
        lambda: {"a": floats(0, 3), "b": floats(1, 3)},
        (FROM_FIRST, TO_LAST), "exception", ("DivMul", "CastElimination"), "optimise", seen_on="1.30.0",
        least=3,
    ),
    Bug(
        "div-mul-loses-rank", 24340, "1 / a * b loses the rank of the 1",
        "g (float a, float b) => (float[2] y) <float[1] one = {1}>"
        " { d = Div(one, a) m = Mul(d, b) y = Concat<axis=0>(m, m) }",
        lambda: {"a": np.float32(3), "b": np.float32(2)},
        (FROM_FIRST, TO_LAST), "exception", ("DivMul",), seen_on="1.22.1", least=3,
    ),
    Bug(
        "resize-between-scales", 28448,
        "a linear Resize is taken for one that keeps its values, and goes without DQ and Q",
        "g (float[1,1,1,3] x) => (float[1,1,1,6] y) <int64[4] sizes = {1, 1, 1, 6}, float s = {1}, int8"
        " z = {0}>"
        " { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
        ' t = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(d, , , sizes)'
        " u = QuantizeLinear(t, s, z) y = DequantizeLinear(u, s, z) }",
        lambda: {"x": np.array([2, 7, 4], np.float32).reshape(1, 1, 1, 3)},
        (FROM_FIRST, "1.26.0"), "mismatch", ("QDQ", "Resize"), seen_on="1.24.4", least=3, cause="qdq-resize",
    ),
    Bug(
        "two-scales-one-kept", 25259, "of two QDQ pairs the wrong scale is kept",
        "g (float[4] x) => (float[4] y) <float s = {0.07874016}, float s2 = {1}, uint8 z = {0}>"
        " { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
        " q2 = QuantizeLinear(d, s2, z) d2 = DequantizeLinear(q2, s2, z) y = Relu(d2) }",
        lambda: {"x": np.array([1, 3.2, 8.3, 15.8], np.float32)},
        (FROM_FIRST, TO_LAST), "mismatch", ("DoubleQDQ",), seen_on="1.22.1", least=4,
    ),
    Bug(
        "layer-norm-expanding-bias", 32603,
        "a scale and a bias that widen the result are fused into LayerNormalization",
        "g (float[1,1] x) => (float[1,2] y) <float two = {2}, float e = {1e-5}, float[2] s = {1, 2},"
        " float[2] b = {3, 4}>"
        " { m = ReduceMean<axes=[-1], keepdims=1>(x) d = Sub(x, m) q = Pow(d, two)"
        " v = ReduceMean<axes=[-1], keepdims=1>(q) ve = Add(v, e) sd = Sqrt(ve) n = Div(d, sd)"
        " z = Mul(n, s) y = Add(z, b) }",
        lambda: {"x": floats(0, 1, 1)},
        (FROM_FIRST, TO_LAST), "exception", ("LayerNorm",), seen_on="1.19.2", least=9,
    ),
    Bug(
        "conv-bias-of-another-scale", 24711,
        "a quantised Conv takes a bias's scale for input's times weight's",
        "g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float sx = {0.01}, uint8 zx = {128},"
        " float[1,1,1,1] w = {0.5},"
        " float sw = {0.01}, int8 zw = {0}, int32[1] b0 = {100}, float sb = {0.1}, float sy = {0.1},"
        " uint8 zy = {100}>"
        " { q = QuantizeLinear(x, sx, zx) d = DequantizeLinear(q, sx, zx) wq = QuantizeLinear(w, sw, zw)"
        " wd = DequantizeLinear(wq, sw, zw) b = DequantizeLinear(b0, sb) c = Conv(d, wd, b)"
        " qy = QuantizeLinear(c, sy, zy) y = DequantizeLinear(qy, sy, zy) }",
        lambda: {"x": floats(0, 1, 1, 2, 2)},
        (FROM_FIRST, "1.26.0"), "mismatch", ("QDQ", "Conv"), seen_on="1.19.2", least=5,
    ),
)  # fmt: skip
