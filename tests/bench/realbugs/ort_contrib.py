"""Bugs of ONNX Runtime with contrib operators, quantised values, strings and sequences."""

import numpy as np

from tests.bench.realbugs.bug import Bug, floats
from tests.bench.realbugs.ort_optimiser import FROM_FIRST

CONTRIB = (
    Bug(
        "blocks-of-512", 28551, "MatMulNBits in blocks of 512 leaves its output as it finds it",
        "g (float[2,512] x) => (float[2,4] y) <uint8[4,1,256] w = {" + ", ".join(["34"] * 1024) + "},"
        " float[4] s = {0.5, 0.5, 0.5, 0.5}, uint8[4] z = {51, 51, 51, 51}>"
        " { y = com.microsoft.MatMulNBits<K=512, N=4, bits=4, block_size=512>(x, w, s, z) }",
        lambda: {"x": np.ones((2, 512), np.float32)},
        ("1.19.2", "1.26.0"), "mismatch", ("MatMulNBits",), seen_on="1.22.1", least=1,
        domains=("com.microsoft:1",), oracles="backends",
    ),
    Bug(
        "resize-rounds-down", 21319, "a quantised Resize rounds down what Resize between DQ and Q rounds",
        "g (float[1,1,1,3] x) => (float[1,1,1,6] y) <float[4] c = {1, 1, 1, 2}, float s = {1}, uint8 z = {0}>"
        " { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
        ' t = Resize<mode="linear">(d, , c) u = QuantizeLinear(t, s, z) y = DequantizeLinear(u, s, z) }',
        lambda: {"x": np.array([2, 7, 4], np.float32).reshape(1, 1, 1, 3)},
        (FROM_FIRST, "1.26.0"), "mismatch", ("QDQ", "Resize"), seen_on="1.20.1", least=3, opset=13,
        cause="qdq-resize",
    ),
    Bug(
        "skip-layer-norm-wide-scale", 27455, "Add and LayerNormalization with a scale of rank 3 are fused",
        "g (float[1,2,4] x, float[1,2,4] z) => (float[1,2,4] y) <float[1,1,4] s = {1, 2, 3, 4},"
        " float[1,1,4] b = {1, 2, 3, 4}> { a = Add(x, z) y = LayerNormalization(a, s, b) }",
        lambda: {"x": floats(0, 1, 2, 4), "z": floats(1, 1, 2, 4)},
        (FROM_FIRST, "1.23.2"), "exception", ("SkipLayerNorm",),
    ),
    Bug(
        "strings-in-attributes", 28413, "the search for common subexpressions refuses attributes of strings",
        "g (int64[2] x) => (string[2] y) { y = ai.onnx.ml.LabelEncoder<keys_tensor: tensor = int64[2] {1, 2},"
        ' values_tensor: tensor = string[2] {"a", "b"}, default_tensor: tensor = string[1] {"c"}>(x) }',
        lambda: {"x": np.array([1, 2])},
        ("1.25.1", "1.26.0"), "exception", ("CommonSubexpression",), "optimise", least=1,
        domains=("ai.onnx.ml:4",),
    ),
    Bug(
        "sequence-map-constants", 12491, "constants folded in a SequenceMap's body are defined twice",
        "g (float[2,3] x) => (float[2,3] y) { s = SequenceConstruct(x, x)"
        " r = SequenceMap<body = b (float[2,3] a) => (float[2,3] o) { c = Constant<value_float=2.0>()"
        " d = Constant<value_float=3.0>() k = Add(c, d) o = Mul(a, k) }>(s)"
        " i = Constant<value_int=0>() y = SequenceAt(r, i) }",
        lambda: {"x": floats(0, 2, 3)},
        (FROM_FIRST, FROM_FIRST), "exception", ("ConstantFolding", "SequenceMap"), "optimise", least=5,
        cause="sequence-map", change=16330,
    ),
    Bug(
        "sequence-map-shapes", 16296, "a shape that is known in a SequenceMap's body is defined twice",
        "g (float[2,3] x) => (int64[4] y) { s = SequenceConstruct(x, x)"
        " r = SequenceMap<body = b (float[2,3] a) => (int64[2] o) { o = Shape(a) }>(s)"
        " y = ConcatFromSequence<axis=0>(r) }",
        lambda: {"x": floats(0, 2, 3)},
        (FROM_FIRST, FROM_FIRST), "exception", ("ConstantFolding", "SequenceMap"), "optimise", least=3,
        cause="sequence-map", change=16330,
    ),
    Bug(
        "comparison-not-folded", 32130, "GreaterOrEqual of constants below opset 16 is no longer folded",
        "g (float[8] x) => (float[8] y) <int64[2] shape = {400, 500}, int64 axis = {0}>"
        " { one = ConstantOfShape<value = float[1] {1}>(shape) two = CumSum(one, axis)"
        " g = GreaterOrEqual(one, two) k = Cast<to=1>(g) r = ReduceMax<keepdims=0>(k) y = Mul(x, r) }",
        lambda: {"x": np.arange(8, dtype=np.float32)},
        ("1.27.0", "1.32.0"), "perf", ("ConstantFolding", "GreaterOrEqual"), seen_on="1.27.0", opset=13,
        is_hosted=False, against="1.26.0",
    ),
)  # fmt: skip
