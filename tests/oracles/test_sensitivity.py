"""Noise: what rounding explains is no difference, what it does not explain is one."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.graphs.program import Binding
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.numerics.input_noise import perturb_inputs, tensor_types
from oracles.numerics.perturbation import Perturbation
from oracles.probes.graph_context import snapped_program
from oracles.probes.onnx_noise import OnnxNoise
from oracles.rules.wrong_results import mismatch
from oracles.sandbox.sandbox import Job
from oracles.verdict import Limits, Mark, Outcome
from tests.helpers.models import graph_of, model_of, ref

F = np.float32
LOOSE = Tolerance()


def weigh(judge: Judge, graph: str, change: Any, steps: bool = True, **inputs: Any) -> str:
    """The kind of difference left when the first output is changed; empty when noise explains it."""
    model = model_of(graph)
    job = Job(model.SerializeToString(), inputs, judge.configs[:1])
    baseline = judge.executor.rerun(job)[0]
    name, value = next(iter(baseline.outputs.items()))
    noise = OnnxNoise(model, job, judge.executor.rerun)
    left = next(noise.beyond_noise(baseline.outputs, {name: change(value)}, LOOSE, steps=steps), None)
    return left.kind if left is not None else ""


CANCEL = (
    "g (float[4] x) => (float[4] y) <float big = {1000000.0}> { e = Exp(x) a = Add(e, big) y = Sub(a, big) }"
)
QUANTISE = (
    "g (float[64] x) => (float[64] y) <float s = {0.1}, uint8 z = {128}>"
    " { e = Sin(x) q = QuantizeLinear(e, s, z) y = DequantizeLinear(q, s, z) }"
)
SUM_THEN_MOD = (
    "g (float[1,512] x) => (float[1,1] y) <float one = {1.0}>"
    " { s = ReduceSum<keepdims = 1, noop_with_empty_axes = 0>(x) y = Mod<fmod = 1>(s, one) }"
)
SUM_THEN_FLOOR = (
    "g (float[1,512] x) => (float[1,1] y) { c = Sin(x) s = ReduceSum<keepdims = 1>(c) y = Floor(s) }"
)
ARGMAX = "g (float[1,8] x) => (int64[1] y) { e = Exp(x) y = ArgMax<axis = 1, keepdims = 0>(e) }"
REMAINDER = (
    "g (float[2] x) => (float[2] y) <float one = {1.0}, float three = {3.0}>"
    " { m = Mul(x, three) r = Mod<fmod = 1>(m, one) y = Sign(r) }"
)
TENFOLD_SUM = (
    "g (float[2] x) => (float[2] y) <float tenth = {0.1}, float ten = {10.0}, float one = {1.0}>"
    " { t = Mul(x, tenth) m = Mul(t, ten) r = Mod<fmod = 1>(m, one) y = Sign(r) }"
)
EQUALITY = (
    "g (float[2] x) => (float[2] y) <float three = {3.0}>"
    " { m = Mul(x, three) b = Equal(m, three) y = Cast<to = 1>(b) }"
)
SHIFTED_MASK = (
    "g (float[2] x) => (float[2] y) <float big = {1000.0}>"
    " { a = Add(x, big) d = Sub(a, big) b = Cast<to = 9>(d) y = Cast<to = 1>(b) }"
)
ERF_MASK = "g (float[2] x) => (float[2] y) { e = Erf(x) b = Cast<to = 9>(e) y = Cast<to = 1>(b) }"
SMALL_WEIGHTS = (
    "g (float[1,3] x) => (float[1,1] y) <int8[3,1] w = {4, 6, 8}, float one = {1.0}>"
    " { d = DequantizeLinear(w, one) y = MatMul(x, d) }"
)
NEARLY_ONE = np.nextafter(np.full(2, 1.0, F), F(2))
LINE = np.linspace(0.1, 1.3, 64, dtype=F)


@pytest.mark.parametrize(
    ("graph", "change", "inputs", "left"),
    [
        (CANCEL, lambda y: y + F(0.1), {"x": np.full(4, 0.3, F)}, ""),
        (CANCEL, lambda y: y + F(100), {"x": np.full(4, 0.3, F)}, "value"),
        (QUANTISE, lambda y: y + F(0.1), {"x": LINE}, ""),
        (QUANTISE, lambda y: y + F(1.0), {"x": LINE}, "value"),
        (ARGMAX, lambda y: y + 1, {"x": np.array([[0.1] * 7 + [0.9]], F)}, "value"),
        (ARGMAX, lambda y: y + 1, {"x": np.full((1, 8), 0.3, F)}, ""),
        (REMAINDER, lambda y: y * F(0), {"x": NEARLY_ONE}, ""),
        (REMAINDER, lambda y: y * F(0), {"x": np.full(2, 1.3, F)}, "value"),
        (TENFOLD_SUM, lambda y: y * F(0), {"x": NEARLY_ONE * F(14)}, ""),
        (EQUALITY, lambda y: F(1) - y, {"x": NEARLY_ONE}, ""),
        (EQUALITY, lambda y: F(1) - y, {"x": np.full(2, 1.3, F)}, "value"),
        (SHIFTED_MASK, lambda y: F(1) - y, {"x": np.full(2, 1e-4, F)}, ""),
        (SHIFTED_MASK, lambda y: F(1) - y, {"x": np.full(2, 0.1, F)}, "value"),
        (ERF_MASK, lambda y: F(1) - y, {"x": np.full(2, 1e-38, F)}, ""),
        (ERF_MASK, lambda y: F(1) - y, {"x": np.full(2, 0.1, F)}, "value"),
        (SMALL_WEIGHTS, lambda y: y + F(0.05), {"x": np.array([[-4, -3, 4]], F)}, ""),
        (SMALL_WEIGHTS, lambda y: y + F(2.0), {"x": np.array([[-4, -3, 4]], F)}, "value"),
    ],
    ids=[
        *("cancellation", "beyond it", "one step", "ten steps", "a clear maximum", "a tie"),
        *(
            "whole but for rounding",
            "not whole",
            "whole after what is not",
            "equal but for rounding",
            "not equal",
        ),
        *("zero but for rounding", "not zero"),
        *("zero where one is added inside", "not zero there"),
        *("eight bits of the other side", "more than that"),
    ],
)
def test_rounding_explains_what_it_can_do(judge, graph, change, inputs, left):
    assert weigh(judge, graph, change, **inputs) == left


NEARLY_ONE = np.full((1, 512), 2 / 512 + 1e-8, F)
PAIRS = np.repeat(np.array([[1.0, -1.0]], F) * np.linspace(0.1, 1.4, 256, dtype=F)[:, None], 1, 0).reshape(
    1, 512
)


@pytest.mark.parametrize(
    ("graph", "x", "left"),
    [
        (SUM_THEN_MOD, NEARLY_ONE, ""),
        (SUM_THEN_MOD, NEARLY_ONE * F(0.75), "value"),
        (SUM_THEN_FLOOR, PAIRS, ""),
    ],
    ids=["a sum at a jump", "a sum far from one", "terms that cancel"],
)
def test_the_order_of_a_sum_may_take_it_across_a_jump(judge, graph, x, left):
    assert weigh(judge, graph, lambda y: y - F(1), x=x) == left


def test_a_tie_of_many_is_one_whichever_end_it_takes(judge):
    graph = "g (float[64,4] x) => (float[64,4] y) { e = Exp(x) y = Hardmax<axis = 0>(e) }"
    x = np.full((64, 4), 0.3, F)
    assert weigh(judge, graph, lambda y: np.roll(y, 41, axis=0), x=x) == ""
    x[5] = 0.4
    assert weigh(judge, graph, lambda y: np.roll(y, 41, axis=0), x=x) == "value"


def test_a_pair_of_seeds_moves_every_element_both_ways(judge):
    """At least half the noise at each: a jump that is nearer than that shows under one of the two."""
    model = model_of("g (float[200] x) => (float[200] y) { y = Exp(x) }")
    x = np.arange(200, dtype=F) % 3
    job = Job(model.SerializeToString(), {"x": x}, judge.configs[:1])
    middle = np.asarray(judge.executor.rerun(job)[0].outputs["y"], np.float64)
    up, down = (
        np.asarray(
            judge.executor.rerun(Job(noisy.SerializeToString(), {"x": x}, ()))[0].outputs["y"], np.float64
        )
        for noisy in (Perturbation(tensor_types(model), seed).apply(model) for seed in (1, 2))
    )
    assert (np.sign(up - middle) == -np.sign(down - middle)).all()
    assert (np.abs(up - middle) / middle > 3 * 2.0**-23).all()


def test_where_every_quantisation_rounds_alone_a_step_counts(judge):
    on_the_grid = (np.arange(64) % 7 / 10).astype(F)
    assert weigh(judge, QUANTISE, lambda y: y + F(0.1), steps=False, x=np.arcsin(on_the_grid)) == "value"


WEIGHTS_BETWEEN_INTEGERS = (
    "g (uint8[1,2,3,3] x) => (uint8[1,1,1,1] y) <float s = {0.05}, uint8 z = {128}, float[1] b = {0.125},"
    " float[1,2,1,1] w = {0.125, 0.25}, float t = {0.015625}, uint8 zero = {0}, float u = {0.0063476562},"
    " uint8[1,1,3,3] v = {0, 0, 0, 0, 0, 0, 0, 0, 0}, float r = {0.087890625}> {"
    " d = DequantizeLinear(x, s, z) c = Conv(d, w, b) q = QuantizeLinear(c, s, z)"
    " y = QLinearConv(q, t, zero, v, u, z, r, z) }"
)


@pytest.mark.parametrize("steps", [True, False])
def test_weights_that_become_integers_take_many_values_over_an_edge_at_once(judge, steps):
    """onnxruntime's WeightBiasQuantization: nine values fall to their neighbours, and their sum with them."""
    x = np.zeros((1, 2, 3, 3), np.uint8)
    assert weigh(judge, WEIGHTS_BETWEEN_INTEGERS, lambda y: y - np.uint8(1), steps, x=x) == ""
    assert weigh(judge, WEIGHTS_BETWEEN_INTEGERS, lambda y: y - np.uint8(9), steps, x=x) == "value"


def of_integer_weights(operator: str, depth: int, weights: list[int], zero: int) -> onnx.ModelProto:
    """A product of floats and weights that come out of int8: onnxruntime makes it MatMulNBits."""
    tensors = [
        onnx.helper.make_tensor("w", onnx.TensorProto.INT8, [depth, 3], weights),
        onnx.helper.make_tensor("s", onnx.TensorProto.FLOAT, [], [0.1]),
        onnx.helper.make_tensor("z", onnx.TensorProto.INT8, [], [zero]),
    ]
    graph = onnx.parser.parse_graph(
        f"g (float[2,{depth}] x) => (float[2,3] y) {{ d = DequantizeLinear(w, s, z) y = {operator}(x, d) }}"
    )
    graph.initializer.extend(tensors)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
@pytest.mark.parametrize("weights", ["of all sizes", "only the zero point"])
@pytest.mark.parametrize("depth", [4, 64])
def test_floats_that_an_optimiser_rounds_to_int8_beside_integer_weights_are_no_bug(
    judge, operator, weights, depth
):
    """MatMulNBits: what rounds is relative to the greatest of a block, and a zero point cancels."""
    rng = np.random.default_rng(depth)
    x = rng.normal(size=(2, depth)).astype(F)
    x[:, 0] = 200
    made = rng.integers(-128, 128, depth * 3) if weights == "of all sizes" else np.full(depth * 3, 100)
    model = of_integer_weights(operator, depth, made.tolist(), 100)
    case = Case("onnx", model.SerializeToString(), {"x": x})
    way = judge.executor.run(Job(case.program, case.inputs, judge.configs))
    assert (np.asarray(way[0].outputs["y"]) != np.asarray(way[-1].outputs["y"])).any()
    assert judge.verdict(case).outcome is Outcome.PASS


def test_so_do_few_floats_whose_moves_cancel_by_chance(judge):
    graph = (
        "g (float[4,2] x) => (float[4,2] y) <int8[2,2] w = {5, 6, 7, 8}, float s = {0.1}>"
        " { d = DequantizeLinear(w, s) y = MatMul(x, d) }"
    )
    x = [
        [-1.699417, -1.4528768],
        [-1.9388193, -0.8900804],
        [-0.7346345, -1.1931853],
        [-1.8523575, -1.7862872],
    ]
    case = Case("onnx", model_of(graph, opset=13).SerializeToString(), {"x": np.array(x, F)})
    assert judge.verdict(case).outcome is Outcome.PASS


def test_a_quantisation_within_a_function_may_reach_a_neighbouring_step_too(judge):
    """QLinearSoftmax of one value: 48.545 steps, which its table of integers makes 48."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13, "own": 1]> g (uint8[1] x) => (uint8[1] y)'
        " <float one = {1}, float s = {0.021484375}, uint8 z = {2}>"
        " { d = DequantizeLinear(x, one) y = own.f(d, s, z) }"
        ' <domain: "own", opset_import: ["": 13]> f (a, s, z) => (c)'
        " { b = Softmax(a) c = QuantizeLinear(b, s, z) }"
    )
    case = Case("onnx", model.SerializeToString(), {"x": np.zeros(1, np.uint8)})
    assert judge.verdict(case).outcome is Outcome.PASS


def test_so_do_floats_whose_dims_no_inference_knows(judge):
    model = of_integer_weights("MatMul", 4, [55, -128, 57, 55, 54, -1, 3, 9, 127, 0, 1, 2], 55)
    picked = onnx.helper.make_node("Compress", ["x", "which"], ["few"], axis=0)
    model.graph.node.insert(0, picked)
    model.graph.node[-1].input[0] = "few"
    model.graph.input.append(onnx.helper.make_tensor_value_info("which", onnx.TensorProto.BOOL, [2]))
    model.graph.output[0].type.tensor_type.shape.dim[0].Clear()
    x = np.array([[200, 0.3, -0.7, 0.9], [1, 2, 3, 4]], F)
    case = Case("onnx", model.SerializeToString(), {"x": x, "which": np.array([True, False])})
    assert judge.verdict(case).outcome is Outcome.PASS


def test_a_wrong_product_with_integer_weights_is_told_from_their_rounding(judge):
    """A block's rounding moves this product by some hundredths; one row that is lost moves it by more."""
    rng = np.random.default_rng(1)
    model = of_integer_weights("MatMul", 64, rng.integers(-128, 128, 192).tolist(), 0)
    x = rng.normal(size=(2, 64)).astype(F)
    job = Job(model.SerializeToString(), {"x": x}, judge.configs[:1])
    (right,) = judge.executor.rerun(job)
    expected = np.asarray(right.outputs["y"])

    def left(factor: float) -> bool:
        noise = OnnxNoise(model, job, judge.executor.rerun)
        found = noise.beyond_noise({"y": expected}, {"y": (expected * factor).astype(F)}, LOOSE)
        return next(found, None) is not None

    assert not left(1.002)
    assert left(1.3)


def test_a_product_of_integers_on_both_sides_rounds_like_any_other(judge):
    """onnxruntime makes no MatMulNBits of it, and its weights are integers already."""
    rng = np.random.default_rng(2)
    model = of_integer_weights("MatMul", 64, rng.integers(-128, 128, 192).tolist(), 0)
    model.graph.node.insert(0, onnx.helper.make_node("DequantizeLinear", ["q", "s"], ["x"]))
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("q", onnx.TensorProto.INT8, [2, 64]))
    job = Job(model.SerializeToString(), {"q": rng.integers(-128, 128, (2, 64), np.int8)}, judge.configs[:1])
    (right,) = judge.executor.rerun(job)
    expected = np.asarray(right.outputs["y"])
    noise = OnnxNoise(model, job, judge.executor.rerun)
    wrong = {"y": (expected * 1.02).astype(F)}
    assert next(noise.beyond_noise({"y": expected}, wrong, LOOSE), None) is not None


UNTIL_ONE = (
    "g (float[2] x) => (float[2] y) <int64 most = {4611686018427387904}, bool on = {1}, float zero = {0.0}> {"
    " y, s = Loop(most, on, x, zero) <body = b (int64 i, bool c, float[2] v, float t) =>"
    " (bool d, float[2] w, float u) <float step = {0.25}, float one = {1.0}>"
    " { w = Exp(v) u = Add(t, step) e = Equal(u, one) d = Not(e) }> }"
)


def test_a_difference_that_no_noisy_run_can_explain_is_undecided():
    """This loop ends at a float that noise misses."""
    x = np.array([-2.0, -3.0], F)
    case = Case("onnx", model_of(UNTIL_ONE).SerializeToString(), {"x": x}, Target("ort"))
    with Judge(case.target, limits=Limits(cpu_seconds=1.0)) as judge:
        context = judge.open(case)
        (right,) = judge.executor.rerun(context.job)
        assert right.is_ok, right.message
        wrong = replace(right, config=judge.configs[1], outputs={"y": np.asarray(right.outputs["y"]) * 2})
        assert mismatch(case, (right, wrong), context) is None
    assert Mark.UNDECIDED in context.noise.notes.marks


def test_integers_have_no_noise_and_need_no_run():
    model = model_of("g (int32[3] x) => (int32[3] y) { y = Mul(x, x) }")
    value = np.array([1, 2, 3], np.int32)

    def refuse(job: Job) -> Any:
        raise AssertionError("nothing to run")

    noise = OnnxNoise(model, Job(model.SerializeToString(), {"x": value}, ()), refuse)
    left = next(noise.beyond_noise({"y": value}, {"y": value + 1}, LOOSE), None)
    assert left is not None


@pytest.mark.parametrize(
    ("nodes", "is_left"),
    [
        ("m = Mul(x, x) y = Cast<to = 6>(m)", True),
        ("m = MatMul(x, x) y = Cast<to = 6>(m)", True),
        ("h = Mul(x, half) t = Div(h, half) y = Cast<to = 6>(t)", True),
        ("t = Mul(x, third) s = Div(t, third) y = Cast<to = 6>(s)", False),
        ("t = Mul(x, most) s = Add(t, x) y = Cast<to = 6>(s)", False),
    ],
    ids=["whole product", "whole sum", "scaled by a half", "by a third", "past the whole numbers"],
)
def test_arithmetic_that_is_exact_has_no_noise(judge, nodes, is_left):
    """A cast takes the fraction away: the least noise would make a whole number the one below."""
    weights = f"<float half = {{0.5}}, float third = {{0.3}}, float most = {{{2.0**24}}}>"
    graph = f"g (float[3,3] x) => (int32[3,3] y) {weights} {{ {nodes} }}"
    x = np.arange(9, dtype=F).reshape(3, 3)
    assert weigh(judge, graph, lambda y: y - 1, x=x) == ("value" if is_left else "")


def test_bfloat16_has_noise_where_a_backend_only_holds_it(judge):
    """At a thousand its last place is 4; onnxruntime has no sum of it, only casts."""
    graph = (
        "g (float[2] x) => (float[2] y) <float big = {1000.0}> {"
        " h = Add(x, big) b = Cast<to = 16>(h) w = Cast<to = 1>(b) y = Sub(w, big) }"
    )
    x = np.array([0.25, 0.5], F)
    assert weigh(judge, graph, lambda y: y + F(4), x=x) == ""
    assert weigh(judge, graph, lambda y: y + F(999), x=x) == "value"


def test_a_bfloat16_that_is_not_finite_is_made_so_where_a_backend_only_holds_it(judge):
    nodes = "d = Div(x, zero) b = Cast<to = 16>(d) w = Cast<to = 1>(b) y = Relu(w)"
    model = model_of(f"g (float[2] x) => (float[2] y) <float zero = {{0.0}}> {{ {nodes} }}")
    x = np.array([0.3, 0.5], F)
    job = Job(model.SerializeToString(), {"x": x}, judge.configs[:1])
    noise = OnnxNoise(model, job, judge.executor.rerun)
    assert all(np.isfinite(np.asarray(sample["y"])).all() for sample in noise.samples())


NAN = np.array([1.0, np.nan, 2.0, 3.0], F)


@pytest.mark.parametrize(
    ("graph", "left"),
    [
        ("g (float[4] x) => (float[1] y) { y = ReduceMax<keepdims = 0>(x) z = Neg(y) }", ""),
        ("g (float[4] x) => (float[4] y) { y = Relu(x) }", "nan"),
        ("g (float[4] x) => (float[4] y) { y = Relu(x) z = Log(y) }", "nan"),
        ("g (float[4] x) => (float[4] y) { y = Exp(x) }", "value"),
    ],
    ids=["hangs on a NaN", "defined", "defined up to there", "another element"],
)
def test_only_what_hangs_on_a_value_that_is_not_finite_is_set_aside(judge, graph, left):
    def change(y: np.ndarray) -> np.ndarray:
        changed = np.nan_to_num(y, nan=0.0).reshape(-1)
        changed[0] += 7
        return changed.reshape(y.shape).astype(F)

    assert weigh(judge, graph, change, x=NAN) == left


def test_what_a_defined_operator_makes_of_an_infinity_is_fixed(judge):
    graph = "g (float[4] x) => (bool[4] y) { y = IsInf(x) }"
    x = np.array([1.0, np.inf, -np.inf, 0.5], F)
    assert weigh(judge, graph, lambda y: y ^ np.array([False, False, True, False]), x=x) == "value"


@pytest.mark.parametrize(
    ("nodes", "is_left"),
    [("y = Log(x)", True), ("l = Log(x) y = Max(l, x)", True), ("l = Log(x) y = Exp(l)", False)],
    ids=["made here", "and passed on", "entered another node"],
)
def test_what_a_node_makes_of_finite_values_is_to_be_confirmed(judge, nodes, is_left):
    model = model_of(f"g (float[3] x) => (float[3] y) {{ {nodes} }}")
    x = np.array([-1.0, 1.0, 2.0], F)
    job = Job(model.SerializeToString(), {"x": x}, judge.configs[:1])
    expected = judge.executor.rerun(job)[0].outputs["y"]
    assert isinstance(expected, np.ndarray)
    actual = np.where(np.isnan(expected), F(7), expected)
    noise = OnnxNoise(model, job, judge.executor.rerun)
    found = next(noise.beyond_noise({"y": expected}, {"y": actual}, LOOSE), None)
    assert (found is not None) == is_left
    if found is not None:
        assert found.unconfirmed[0]
    else:
        assert noise.notes.texts == ["nonfinite"]


def test_a_perturbed_model_is_valid_and_stays_near(judge):
    """Bodies, half floats, per-axis scales and dynamic quantisation included."""
    model = model_of(
        "g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] d, float16[2,3] h)"
        " <float[3] s = {0.1, 0.2, 0.3}, uint8[3] z = {1, 2, 3}> {"
        " i = If(c) <then_branch = t () => (float[2,3] u) { u = Exp(x) },"
        " else_branch = e () => (float[2,3] v) { v = Sin(x) }>"
        " q = QuantizeLinear<axis = 1>(i, s, z) y = DequantizeLinear<axis = 1>(q, s, z)"
        " dq, ds, dz = DynamicQuantizeLinear(i) d = DequantizeLinear(dq, ds, dz)"
        " hx = Cast<to = 10>(x) h = Mul(hx, hx) }"
    )
    inputs = {"x": np.arange(6, dtype=F).reshape(2, 3) / 7, "c": np.array(True)}
    job = Job(model.SerializeToString(), inputs, judge.configs[:1])
    expected = judge.executor.rerun(job)[0].outputs
    moved = set()
    for seed in (1, 2):
        noisy = Perturbation(tensor_types(model, inputs), seed).apply(model)
        onnx.checker.check_model(noisy)
        run = judge.executor.rerun(Job(noisy.SerializeToString(), perturb_inputs(inputs, seed), ()))[0]
        assert run.is_ok, run.message
        for name, value in expected.items():
            np.testing.assert_allclose(run.outputs[name], value, atol=0.35, rtol=0.05)  # type: ignore[arg-type]
            moved |= {name} if not np.array_equal(run.outputs[name], value) else set()  # type: ignore[arg-type]
    assert moved == {"y", "d", "h"}


@pytest.mark.parametrize("opset", [17, 21, 22, 23])
@pytest.mark.parametrize("dims", ["2,3", "N,3"])
def test_noise_comes_at_every_opset(judge, opset, dims):
    """onnxruntime has no RandomUniformLike from opset 22 on."""
    model = model_of(f"g (float[{dims}] x) => (float[{dims}] y) {{ y = Exp(x) }}", opset)
    x = {"x": np.full((2, 3), 0.3, F)}
    expected = judge.executor.rerun(Job(model.SerializeToString(), x, ()))[0].outputs["y"]
    noisy = Perturbation(tensor_types(model), 1).apply(model)
    run = judge.executor.rerun(Job(noisy.SerializeToString(), x, ()))[0]
    assert run.is_ok, run.message
    assert (np.asarray(run.outputs["y"]) != np.asarray(expected)).all()


def test_a_perturbation_is_decided_by_its_seed():
    model = model_of(CANCEL)
    types = tensor_types(model)
    programs = [Perturbation(types, seed).apply(model).SerializeToString() for seed in (1, 1, 2)]
    assert programs[0] == programs[1] != programs[2]


def test_whole_numbers_in_the_inputs_stay():
    moved = perturb_inputs({"x": np.array([1.0, 0.3, np.nan], F), "i": np.array([3])}, 1)
    assert moved["x"][0] == 1.0  # type: ignore[index]
    assert moved["x"][1] != F(0.3)  # type: ignore[index]
    assert np.isfinite(moved["x"]).all()  # type: ignore[arg-type]
    assert moved["i"][0] == 3  # type: ignore[index]


def test_of_other_formats_too_what_is_whole_but_for_rounding_becomes_whole():
    value = np.nextafter(np.float32([2, 1.3]), F(3))
    program = graph_of("torch", {"x": value}, Binding("y", "torch.mul", (ref("x"), ref("x"))))
    snapped = snapped_program(program, {"y": value}, 128.0)
    kinds = [each.op for each in snapped.main.bindings]
    assert kinds == ["torch.mul", "torch.add", "torch.sub"]
    (large,) = {each.tobytes(): each for each in snapped.constants.values()}.values()
    found = (value + large) - large
    assert found[0] == 2
    assert found[1] == value[1]


def test_what_draws_no_random_numbers_gets_its_noise_in_constants(torch_judge):
    """Eager torch has no lowering for them: without inputs there was no noise at all."""
    pytest.importorskip("torch", reason="torch is not installed")
    graph = (
        "g () => (float[2] y) <float[2] x = {0.6666667, 0.8}, float k = {3}> { m = Mul(x, k) y = Floor(m) }"
    )
    model = model_of(graph)
    job = Job(model.SerializeToString(), {}, torch_judge.configs[1:2])
    (run,) = torch_judge.executor.run(job)
    assert run.is_ok, run.message
    expected = run.outputs["y"]
    assert isinstance(expected, np.ndarray)
    noise = OnnxNoise(model, job, torch_judge.executor.run)
    assert expected.tolist() == [2, 2]
    actual = {"y": expected - np.float32([1, 5])}
    (left,) = noise.beyond_noise(run.outputs, actual, LOOSE)
    assert left.mask.tolist() == [False, True]


@pytest.mark.parametrize(
    ("nodes", "unknown"),
    [
        ("y = Relu(x)", ""),
        ("y = own.Twice(x)", ""),
        ("y = own.Strange(x)", "Swirl"),
        ("y = other.Swirl(x)", "Swirl"),
        ("z = other.Swirl(x) y = Relu(x)", ""),
    ],
)
def test_an_operator_without_a_row_is_told_through_calls_and_only_before_the_value(nodes, unknown):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "own" : 1, "other" : 1]>'
        f" g (float[2] x) => (float[2] y) {{ {nodes} }}"
        ' <domain: "own", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) }'
        ' <domain: "own", opset_import: ["" : 17, "other" : 1]> Strange (a) => (b) { b = other.Swirl(a) }'
    )
    noise = OnnxNoise(model, Job(b"", {}, ()), lambda job: ())
    assert noise.unknown_before("y") == unknown
