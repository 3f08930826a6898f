"""Documented tests of our own: a model for each rewrite that grown programs seldom meet.

`crux patterns extract tests/documented --trust` takes patterns out of them; each model is the textbook form
of what an optimiser puts together, with one operator more here and there that the pattern can do without.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

HEADER = '<ir_version: 8, opset_import: ["" : {}, "com.microsoft" : 1, "ai.onnx.ml" : 4]>'


def model(text: str, opset: int = 17, **weights: tuple[int, ...]) -> onnx.ModelProto:
    """The model of a graph's text; `weights` are initializers of these shapes, of small different numbers."""
    made = parser.parse_model(f"{HEADER.format(opset)} {text}")
    for name, shape in weights.items():
        count = int(np.prod(shape))
        values = (np.arange(count, dtype=np.float32) % 7 + 1).reshape(shape) / 8
        made.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return made


def test_bias_and_gelu():
    model(
        """g (float[2,3,4] x) => (float[2,3,4] y)
        <float root = {1.4142135}, float one = {1.0}, float half = {0.5}> {
        a = Add(x, b) d = Div(a, root) e = Erf(d) f = Add(e, one) m = Mul(a, f) y = Mul(m, half) }""",
        b=(4,),
    )


def test_sum_and_layer_norm():
    model(
        """g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y) {
        s = Add(x, z) y = LayerNormalization<axis = -1, epsilon = 0.00001>(s, w, b) }""",
        w=(4,),
        b=(4,),
    )
    model(
        """g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y) {
        m = MatMul(x, k) c = Add(m, c0) s = Add(c, z)
        y = LayerNormalization<axis = -1, epsilon = 0.00001>(s, w, b) }""",
        k=(4, 4),
        c0=(4,),
        w=(4,),
        b=(4,),
    )


def test_layer_norm_written_out():
    for opset in (13, 17):
        model(
            """g (float[2,3,4] x) => (float[2,3,4] y) <float two = {2.0}, float eps = {0.00001}> {
            m = ReduceMean<axes = [-1]>(x) s = Sub(x, m) p = Pow(s, two) v = ReduceMean<axes = [-1]>(p)
            e = Add(v, eps) r = Sqrt(e) d = Div(s, r) q = Mul(d, w) y = Add(q, b) }""",
            opset,
            w=(4,),
            b=(4,),
        )
        model(
            """g (float[2,3,4] x) => (float[2,3,4] y) <float two = {2.0}, float eps = {0.00001}> {
            p = Pow(x, two) v = ReduceMean<axes = [-1]>(p) e = Add(v, eps) r = Sqrt(e) d = Div(x, r)
            y = Mul(w, d) }""",
            opset,
            w=(4,),
        )


def test_skipped_and_simplified_layer_norm():
    model(
        """g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y) <float two = {2.0}, float eps = {0.00001}> {
        s = Add(x, z) p = Pow(s, two) v = ReduceMean<axes = [-1]>(p) e = Add(v, eps) r = Sqrt(e)
        d = Div(s, r) y = Mul(w, d) }""",
        w=(4,),
    )


def test_gathers_of_one_axis():
    model(
        """g (float[2,3,4] x) => (float[2,4] a1, float[2,4] b1, float[2,4] c1)
        <int64 i = {0}, int64 j = {1}, int64 k = {2}> {
        a = Gather<axis = 1>(x, i) b = Gather<axis = 1>(x, j) c = Gather<axis = 1>(x, k)
        a1 = Neg(a) b1 = Abs(b) c1 = Exp(c) }"""
    )


def test_slices_to_depth():
    model(
        """g (float[1,3,8,8] x) => (float[1,12,4,4] y) <int64[1] h = {2}, int64[1] w = {3},
        int64[1] two = {2}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] end = {9223372036854775807}> {
        a = Slice(x, zero, end, h, two) a0 = Slice(a, zero, end, w, two)
        b = Slice(x, one, end, h, two) b0 = Slice(b, zero, end, w, two)
        c = Slice(x, zero, end, h, two) c0 = Slice(c, one, end, w, two)
        d = Slice(x, one, end, h, two) d0 = Slice(d, one, end, w, two)
        y = Concat<axis = 1>(a0, b0, c0, d0) }"""
    )


def test_quantised_product():
    for scaled in ("", "t = Add(s, c) "):
        model(
            f"""g (float[2,4] x) => (float[2,3] y)
            <int8[4,3] w = {{1, -2, 3, 4, 5, -6, 7, 8, 9, 1, 2, 3}}, float ws = {{0.5}}, int8 wz = {{0}}> {{
            q, qs, qz = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, qz, wz) f = Cast<to = 1>(i)
            m = Mul(qs, ws) s = Mul(f, m) {scaled} y = Neg({"t" if scaled else "s"}) }}""",
            c=(3,),
        )
    model(
        """g (uint8[2,4] x, float xs) => (float[2,3] y)
        <int8[4,3] w = {1, -2, 3, 4, 5, -6, 7, 8, 9, 1, 2, 3}, float ws = {0.5}, uint8 xz = {3},
        int8 wz = {0}> {
        i = MatMulInteger(x, w, xz, wz) f = Cast<to = 1>(i) m = Mul(xs, ws) y = Mul(f, m) }"""
    )


def test_convolution_and_what_follows():
    for tail in (
        "y = Add(c, a)",
        "y = Mul(c, a)",
        "r = Add(c, x1) y = Relu(r)",
        "y = Relu(c)",
        "y = LeakyRelu(c)",
        "y = Sigmoid(c)",
        "y = Clip(c, low, high)",
        "y = BatchNormalization(c, n, n, n, n)",
        "p = BatchNormalization(c, n, n, n, n) y = Relu(p)",
        "h = HardSigmoid(c) y = Mul(c, h)",
    ):
        model(
            f"""g (float[1,2,6,6] x, float[1,3,6,6] x1) => (float[1,3,6,6] y)
            <float low = {{0.0}}, float high = {{6.0}}> {{
            c = Conv<pads = [1, 1, 1, 1], kernel_shape = [3, 3]>(x, w, n) {tail} }}""",
            w=(3, 2, 3, 3),
            n=(3,),
            a=(3, 1, 1),
        )


def test_padding_and_a_window():
    for tail in (
        "y = Conv<kernel_shape = [3, 3]>(p, w)",
        "y = MaxPool<kernel_shape = [3, 3]>(p)",
        "y = AveragePool<kernel_shape = [3, 3], count_include_pad = 1>(p)",
    ):
        model(
            f"""g (float[1,2,6,6] x) => (float[1,c,6,6] y) <int64[8] pads = {{0, 0, 1, 1, 0, 0, 1, 1}}> {{
            p = Pad(x, pads) {tail} }}""",
            w=(3, 2, 3, 3),
        )


def test_matrices_and_what_follows():
    for text in (
        "m = MatMul(x, w) y = Add(m, b)",
        "g = Gemm(x, w) y = Sum(g, b)",
        "g = Gemm(x, w, b) y = Relu(g)",
        "g = Gemm(x, w, b) y = LeakyRelu(g)",
        "t = Transpose<perm = [1, 0]>(x0) y = Gemm(t, w)",
        "t = Transpose<perm = [1, 0]>(x0) y = MatMul(t, w)",
        "y1 = Gemm(x, w) y = Transpose<perm = [1, 0]>(y1)",
        "m = MatMul(x, w) y = BatchNormalization(m, b, b, b, b)",
        "k = Mul(x, half) m = MatMul(k, w) y = Neg(m)",
        "m = MatMul(x, w) y = Mul(m, half)",
        "m = MatMul(x, w) y = Div(m, half)",
    ):
        model(
            f"""g (float[2,4] x, float[4,2] x0) => (float[p,q] y) <float half = {{0.25}}> {{ {text} }}""",
            w=(4, 3),
            b=(3,),
        )


def test_what_changes_nothing():
    for text in (
        "a = Relu(x) y = Clip(a, low, high)",
        "n = Not(c) y = Where(n, x, z)",
        "a = Cast<to = 11>(x) b = Cast<to = 1>(a) y = Neg(b)",
        "a = Cast<to = 11>(x) s = Shape(a) y = Cast<to = 1>(s)",
        "a = Div(one, x) y = Mul(a, z)",
        "a = Identity(x) y = Neg(a)",
        "a = Dropout(x) y = Neg(a)",
        "a = Add(x, none) y = Neg(a)",
        "a = Mul(x, one) y = Neg(a)",
        "a = Expand(x, shape) y = Neg(a)",
        "a = Slice(x, zero, end, zero) y = Neg(a)",
        "a = Unsqueeze(k, zero) y = Add(x, a)",
        "a = Reshape(x, flat) b = Reshape(a, shape) y = Neg(b)",
        "a = Transpose<perm = [1, 0]>(x) b = Neg(a) y = Transpose<perm = [1, 0]>(b)",
        "a = Concat<axis = 0>(k, k) y = Add(x, x)",
        "a = Exp(x) b = Exp(x) y = Add(a, b)",
        "a = Squeeze(x1, zero) b = Squeeze(x1, zero) y = Add(a, b)",
    ):
        model(
            f"""g (float[3,4] x, float[3,4] z, float[1,3,4] x1, bool[3,4] c) => (float y)
            <float low = {{-1.0}}, float high = {{6.0}}, float one = {{1.0}}, float none = {{0.0}},
            int64[2] shape = {{3, 4}}, int64[1] flat = {{12}}, int64[1] zero = {{0}},
            int64[1] end = {{9223372036854775807}}> {{ {text} }}""",
            k=(4,),
        )


def test_shape_computed_from_the_input():
    model(
        """g (float[2,3,4] x) => (float[2,12] y) <int64 i = {0}, int64[1] zero = {0}, int64[1] rest = {-1}> {
        s = Shape(x) d = Gather<axis = 0>(s, i) u = Unsqueeze(d, zero) c = Concat<axis = 0>(u, rest)
        y = Reshape(x, c) }"""
    )


QUANTISED = (
    "<float s = {0.05}, uint8 q = {128}, int8 z = {0}, float t = {0.1}, "
    "float low = {-6.4}, float high = {6.35}>"
)


def test_quantised_and_back():
    for text in (
        "a = Relu(x) b = QuantizeLinear(a, s, z) y = DequantizeLinear(b, s, z)",
        "a = Clip(x, low, high) b = QuantizeLinear(a, s, z) y = DequantizeLinear(b, s, z)",
        "a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) c = QuantizeLinear(b, s, q) "
        "y = DequantizeLinear(c, s, q)",
        "a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) y = Neg(b)",
        "a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) c = Reshape(b, flat) "
        "d = QuantizeLinear(c, s, q) y = DequantizeLinear(d, s, q)",
        "a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) c = MatMul(b, w) "
        "d = QuantizeLinear(c, s, q) y = DequantizeLinear(d, s, q)",
        "a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) c = Add(b, b) "
        "d = QuantizeLinear(c, s, q) y = DequantizeLinear(d, s, q)",
        "a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) v = DequantizeLinear(wq, t, z) "
        "c = MatMul(b, v) d = QuantizeLinear(c, s, q) y = DequantizeLinear(d, s, q)",
        "a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) c = Softmax(b) "
        "d = QuantizeLinear(c, s, q) y = DequantizeLinear(d, s, q)",
        "a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) y1 = Neg(b) y = Abs(b)",
        "a = Transpose<perm = [1, 0]>(x) b = QuantizeLinear(a, s, q) y = DequantizeLinear(b, s, q)",
        "a = QuantizeLinear(x, s, q) b = QuantizeLinear(x, s, q) c = DequantizeLinear(a, s, q) "
        "d = DequantizeLinear(b, s, q) y = Add(c, d)",
    ):
        quantised = QUANTISED[:-1] + ", int64[1] flat = {12}, int8[4,2] wq = {1, 2, 3, 4, 5, 6, 7, 8}>"
        model(f"g (float[3,4] x) => (float y) {quantised} {{ {text} }}", w=(4, 2))


def test_quantised_convolution():
    quantised = QUANTISED[:-1] + ", int8[1,2,1,1] wq = {1, 2}, int32[1] bias = {3}>"
    model(
        f"""g (float[1,2,4,4] x) => (float y) {quantised} {{
        a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) v = DequantizeLinear(wq, t, z)
        c = Conv(b, v) d = QuantizeLinear(c, s, q) y = DequantizeLinear(d, s, q) }}"""
    )
    model(
        f"""g (float[1,2,4,4] x) => (float y) {quantised} {{
        a = QuantizeLinear(x, s, q) b = DequantizeLinear(a, s, q) c = Conv(b, k, n)
        d = QuantizeLinear(c, s, q) y = DequantizeLinear(d, s, q) }}""",
        k=(1, 2, 1, 1),
        n=(1,),
    )


def test_swish_and_its_kin():
    for text in ("a = Sigmoid(x) y = Mul(x, a)", "m = Mul(x, k) a = Sigmoid(m) y = Mul(x, a)"):
        model(f"g (float[2,3,4] x) => (float y) <float k = {{1.702}}> {{ {text} }}")


def test_attention_written_out():
    model(
        """g (float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (float y) <float scale = {2.0}> {
        t = Transpose<perm = [0, 1, 3, 2]>(k) m = MatMul(q, t) d = Div(m, scale)
        s = Softmax<axis = -1>(d) y = MatMul(s, v) }"""
    )


def test_halves_kept_as_constants():
    half = helper.make_tensor("h", onnx.TensorProto.FLOAT16, [4], [0.5, 1.0, 2.0, 4.0])
    made = model("g (float[3,4] x) => (float y) { f = Cast<to = 1>(h) y = Mul(x, f) }")
    made.graph.initializer.append(half)


def test_nchw_kept_in_blocks():
    model(
        """g (float[1,8,6,6] x) => (float y) {
        a = Conv<pads = [1, 1, 1, 1], kernel_shape = [3, 3]>(x, w) b = Relu(a)
        c = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(b) y = Conv<kernel_shape = [1, 1]>(c, v) }""",
        w=(8, 8, 3, 3),
        v=(8, 8, 1, 1),
    )


def test_gelu_written_out():
    model(
        """g (float[2,3,4] x) => (float y) <float root = {1.4142135}, float one = {1.0}, float half = {0.5}> {
        d = Div(x, root) e = Erf(d) f = Add(e, one) m = Mul(x, f) y = Mul(m, half) }""",
        20,
    )
    for text in (
        "p = Pow(x, three) m = Mul(p, small) s = Add(x, m) t = Mul(s, root)",
        "n = Mul(x, small) p = Mul(n, x) m = Add(p, one) s = Mul(x, root) t = Mul(s, m)",
    ):
        model(
            f"""g (float[2,3,4] x) => (float y) <float root = {{0.7978845834732056}}, float one = {{1.0}},
            float small = {{0.044714998453855515}}, float half = {{0.5}}, float three = {{3.0}}> {{
            {text} h = Tanh(t) a = Add(h, one) b = Mul(x, half) c = Mul(b, a) y = Neg(c) }}"""
        )


def test_pixels_to_channels():
    for order in ("a, b, c, d", "a, c, b, d"):
        model(
            f"""g (float[1,3,8,8] x) => (float y) <int64[2] axes = {{2, 3}}, int64[2] two = {{2, 2}},
            int64[2] p = {{0, 0}}, int64[2] q = {{0, 1}}, int64[2] r = {{1, 0}}, int64[2] s = {{1, 1}},
            int64[2] end = {{9223372036854775807, 9223372036854775807}}> {{
            a = Slice(x, p, end, axes, two) b = Slice(x, r, end, axes, two)
            c = Slice(x, q, end, axes, two) d = Slice(x, s, end, axes, two)
            y = Concat<axis = 1>({order}) }}"""
        )


def test_rows_from_a_range():
    model(
        """g (float[2,6,4] x, int64 end) => (float y) <int64 start = {-3}, int64 one = {1}> {
        r = Range(start, end, one) a = Gather<axis = 1>(x, r) y = Neg(a) }"""
    )


def test_convolution_of_weights_that_are_computed():
    for last in ("Relu", "Sigmoid", "Tanh", "LeakyRelu"):
        model(
            f"""g (float[1,2,6,6] x, float[1,3,6,6] z, float[3,2,3,3] w, float[3] n) => (float y) {{
            c = Conv<pads = [1, 1, 1, 1]>(x, w, n) a = Add(c, z) b = {last}(a) y = Neg(b) }}"""
        )


def test_bias_of_a_skipped_layer_norm():
    for operands in ("a, z", "z, a"):
        model(
            f"""g (float[2,3,4] x, float[2,3,4] z, float[2,4,4] k) => (float y) {{
            m = MatMul(x, k) a = Add(m, n)
            y = com.microsoft.SkipLayerNormalization<epsilon = 0.00001>({operands}, w, b) }}""",
            n=(4,),
            w=(4,),
            b=(4,),
        )


def test_packed_weights_and_a_bias():
    made = model(
        """g (float[2,32] x) => (float y) {
        c = com.microsoft.MatMulNBits<K = 32, N = 4, bits = 4, block_size = 32>(x, packed, s)
        y = Add(c, b) }""",
        s=(4,),
        b=(4,),
    )
    packed = (np.arange(64) % 200).astype(np.uint8).reshape(4, 1, 16)
    made.graph.initializer.append(numpy_helper.from_array(packed, "packed"))


def test_embeddings():
    for ids in ("int64", "int32"):
        model(
            f"""g ({ids}[1,3] word, {ids}[1,3] segment) => (float y) <int64[1,3] place = {{0, 1, 2}}> {{
            a = Gather(words, word) b = Gather(places, place) s = Add(a, b) c = Gather(segments, segment)
            t = Add(s, c) l = LayerNormalization<axis = -1, epsilon = 0.00001>(t, w, n)
            y = com.microsoft.Attention<num_heads = 2>(l, k, m) }}""",
            words=(5, 4),
            places=(3, 4),
            segments=(2, 4),
            w=(4,),
            n=(4,),
            k=(4, 12),
            m=(12,),
        )


def test_bounds_that_quantising_has_itself():
    for first in ("Clip(n, low, high)", "Relu(n)"):
        model(
            f"""g (float[3,4] x) => (float y)
            <float s = {{0.05}}, uint8 q = {{0}}, float low = {{0.0}}, float high = {{100.0}}> {{
            n = Exp(x) a = {first} b = QuantizeLinear(a, s, q) c = DequantizeLinear(b, s, q) y = Neg(c) }}"""
        )


def test_a_choice_beside_what_is_quantised():
    for operands in ("d, half", "half, d"):
        model(
            f"""g (bool[3,4] c, uint8[3,4] x) => (float y)
            <float s = {{0.05}}, uint8 q = {{128}}, float half = {{0.5}}> {{
            d = DequantizeLinear(x, s, q) w = Where(c, {operands}) e = QuantizeLinear(w, s, q)
            y = DequantizeLinear(e, s, q) }}"""
        )


def test_back_and_quantised_again():
    model(
        """g (uint8[3,4] x) => (float y) <float s = {0.05}, uint8 q = {128}> {
        d = DequantizeLinear(x, s, q) e = com.microsoft.QuantizeLinear(d, s, q)
        y = com.microsoft.DequantizeLinear(e, s, q) }"""
    )


def test_halves_without_a_kernel():
    for text in (
        "a = Softplus(x) y = Softplus(a)",
        "a = Softplus(x) b = Cast<to = 1>(a) c = Cast<to = 10>(b) y = Softplus(c)",
        "a = Softplus(x) y = Abs(a)",
    ):
        model(f"g (float16[3,4] x) => (float16 y) {{ {text} }}")


def test_labels_of_labels():
    for first, second in (
        ("values_int64s = [3, 4], default_int64 = 0", "keys_int64s = [3, 4], values_int64s = [5, 6]"),
        (
            "values_strings = ['a', 'b'], default_string = 'c'",
            "keys_strings = ['a', 'b'], values_int64s = [5, 6]",
        ),
    ):
        text = f"""g (int64[3] x) => (int64[3] y) {{
            a = ai.onnx.ml.LabelEncoder<keys_int64s = [1, 2], {first}>(x)
            y = ai.onnx.ml.LabelEncoder<{second}, default_int64 = 7>(a) }}"""
        model(text.replace("'", '"'))
