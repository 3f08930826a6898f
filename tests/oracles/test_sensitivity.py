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


def weigh(judge: Judge, graph: str | onnx.ModelProto, change: Any, steps: bool = True, **inputs: Any) -> str:
    """The kind of difference left when the first output is changed; empty when noise explains it."""
    model = model_of(graph) if isinstance(graph, str) else graph
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
HARDMAX = "g (float[64,4] x) => (float[64,4] y) { e = Exp(x) y = Hardmax<axis = 0>(e) }"
HELD_IN_BFLOAT16 = (
    "g (float[2] x) => (float[2] y) <float big = {1000.0}> {"
    " h = Add(x, big) b = Cast<to = 16>(h) w = Cast<to = 1>(b) y = Sub(w, big) }"
)
WHOLE = (
    "g (float[3,3] x) => (int32[3,3] y) <float half = {0.5}, float third = {0.3}, float most = {16777216.0}>"
    " { NODES y = Cast<to = 6>(m) }"
)
"""A cast takes the fraction away: the least noise would make a whole number the one below."""
NINE = np.arange(9, dtype=F).reshape(3, 3)
NEARLY_ONE = np.nextafter(np.full(2, 1.0, F), F(2))
LINE = np.linspace(0.1, 1.3, 64, dtype=F)
TERMS = np.full((1, 512), 2 / 512 + 1e-8, F)
TIES = np.full((64, 4), 0.3, F)


def plus(number: float) -> Any:
    return lambda y: y + y.dtype.type(number)


def to_zero(y: np.ndarray) -> np.ndarray:
    return y * F(0)


def flipped(y: np.ndarray) -> np.ndarray:
    return F(1) - y


def rolled(y: np.ndarray) -> np.ndarray:
    return np.roll(y, 41, axis=0)


ROUNDING = {
    "cancellation": (CANCEL, plus(0.1), np.full(4, 0.3, F), ""),
    "beyond cancellation": (CANCEL, plus(100), np.full(4, 0.3, F), "value"),
    "one step": (QUANTISE, plus(0.1), LINE, ""),
    "ten steps": (QUANTISE, plus(1.0), LINE, "value"),
    "a clear maximum": (ARGMAX, plus(1), np.array([[0.1] * 7 + [0.9]], F), "value"),
    "a tie": (ARGMAX, plus(1), np.full((1, 8), 0.3, F), ""),
    "a tie of many": (HARDMAX, rolled, TIES, ""),
    "a maximum among many": (HARDMAX, rolled, np.concatenate([TIES[1:], TIES[:1] + F(0.1)]), "value"),
    "whole but for rounding": (REMAINDER, to_zero, NEARLY_ONE, ""),
    "not whole": (REMAINDER, to_zero, np.full(2, 1.3, F), "value"),
    "whole after what is not": (TENFOLD_SUM, to_zero, NEARLY_ONE * F(14), ""),
    "equal but for rounding": (EQUALITY, flipped, NEARLY_ONE, ""),
    "not equal": (EQUALITY, flipped, np.full(2, 1.3, F), "value"),
    "zero but for rounding": (SHIFTED_MASK, flipped, np.full(2, 1e-4, F), ""),
    "not zero": (SHIFTED_MASK, flipped, np.full(2, 0.1, F), "value"),
    "zero where one is added inside": (ERF_MASK, flipped, np.full(2, 1e-38, F), ""),
    "not zero there": (ERF_MASK, flipped, np.full(2, 0.1, F), "value"),
    "eight bits of the other side": (SMALL_WEIGHTS, plus(0.05), np.array([[-4, -3, 4]], F), ""),
    "more than that": (SMALL_WEIGHTS, plus(2.0), np.array([[-4, -3, 4]], F), "value"),
    "a sum at a jump": (SUM_THEN_MOD, plus(-1), TERMS, ""),
    "a sum far from a jump": (SUM_THEN_MOD, plus(-1), TERMS * F(0.75), "value"),
    **{
        what: (WHOLE.replace("NODES", nodes), plus(-1), NINE, left)
        for what, nodes, left in (
            ("a whole product is exact", "m = Mul(x, x)", "value"),
            ("a whole sum is", "m = MatMul(x, x)", "value"),
            ("scaled by a half it is", "h = Mul(x, half) m = Div(h, half)", "value"),
            ("by a third it is not", "t = Mul(x, third) m = Div(t, third)", ""),
            ("nor past the whole numbers", "t = Mul(x, most) m = Add(t, x)", ""),
        )
    },
    "a last place of bfloat16": (HELD_IN_BFLOAT16, plus(4), np.array([0.25, 0.5], F), ""),
    "many of them": (HELD_IN_BFLOAT16, plus(999), np.array([0.25, 0.5], F), "value"),
}


@pytest.mark.parametrize("what", ROUNDING)
def test_rounding_explains_what_it_can_do(judge, what):
    graph, change, x, left = ROUNDING[what]
    assert weigh(judge, graph, change, x=x) == left


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


def of_integer_weights(operator: str, depth: int, weights: Any, zero: int) -> onnx.ModelProto:
    """A product of floats and weights that come out of int8: onnxruntime makes it MatMulNBits."""
    text = (
        f"g (float[2,{depth}] x) => (float[2,3] y) <float s = {{0.1}}, int8 z = {{{zero}}}>"
        f" {{ d = DequantizeLinear(w, s, z) y = {operator}(x, d) }}"
    )
    return model_of(text, 21, 10, w=np.reshape(weights, (depth, 3)).astype(np.int8))


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
    model = of_integer_weights(operator, depth, made, 100)
    case = Case("onnx", model.SerializeToString(), {"x": x})
    way = judge.executor.run(Job(case.program, case.inputs, judge.configs))
    assert (np.asarray(way[0].outputs["y"]) != np.asarray(way[-1].outputs["y"])).any()
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


def times(factor: float) -> Any:
    return lambda y: (y * factor).astype(F)


def test_a_wrong_product_with_integer_weights_is_told_from_their_rounding(judge):
    """A block's rounding moves this product by some hundredths; one row that is lost moves it by more."""
    rng = np.random.default_rng(1)
    model = of_integer_weights("MatMul", 64, rng.integers(-128, 128, 192), 0)
    x = rng.normal(size=(2, 64)).astype(F)
    assert weigh(judge, model, times(1.002), x=x) == ""
    assert weigh(judge, model, times(1.3), x=x) == "value"


def test_a_product_of_integers_on_both_sides_rounds_like_any_other(judge):
    """onnxruntime makes no MatMulNBits of it, and its weights are integers already."""
    rng = np.random.default_rng(2)
    model = of_integer_weights("MatMul", 64, rng.integers(-128, 128, 192), 0)
    model.graph.node.insert(0, onnx.helper.make_node("DequantizeLinear", ["q", "s"], ["x"]))
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("q", onnx.TensorProto.INT8, [2, 64]))
    assert weigh(judge, model, times(1.02), q=rng.integers(-128, 128, (2, 64), np.int8)) == "value"


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


@pytest.mark.parametrize(
    ("nodes", "is_left"),
    [("y = Log(x)", True), ("l = Log(x) y = Max(l, x)", True), ("l = Log(x) y = Exp(l)", False)],
    ids=["made here", "and passed on", "entered another node"],
)
def test_what_a_node_makes_of_finite_values_is_to_be_confirmed(judge, nodes, is_left):
    model = model_of(f"g (float[3] x) => (float[3] y) {{ {nodes} }}")
    job = Job(model.SerializeToString(), {"x": np.array([-1.0, 1.0, 2.0], F)}, judge.configs[:1])
    expected = judge.executor.rerun(job)[0].outputs
    noise = OnnxNoise(model, job, judge.executor.rerun)
    found = next(noise.beyond_noise(expected, {"y": np.nan_to_num(expected["y"], nan=7.0)}, LOOSE), None)
    assert (found is not None) == is_left
    assert found.unconfirmed[0] if is_left else noise.notes.texts == ["nonfinite"]


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
            np.testing.assert_allclose(run.outputs[name], value, atol=0.35, rtol=0.05)
            moved |= {name} if not np.array_equal(run.outputs[name], value) else set()
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
    assert moved["x"][0] == 1.0
    assert moved["x"][1] != F(0.3)
    assert np.isfinite(moved["x"]).all()
    assert moved["i"][0] == 3


def test_of_other_formats_too_what_is_whole_but_for_rounding_becomes_whole():
    value = np.nextafter(np.float32([2, 1.3]), F(3))
    program = graph_of("torch", {"x": value}, Binding("y", "torch.mul", (ref("x"), ref("x"))))
    snapped = snapped_program(program, {"y": value}, 128.0)
    assert [each.op for each in snapped.main.bindings] == ["torch.mul", "torch.add", "torch.sub"]
    (large,) = {each.tobytes(): each for each in snapped.constants.values()}.values()
    assert ((value + large) - large).tolist() == [2, value[1]]


def test_what_draws_no_random_numbers_gets_its_noise_in_constants(torch_judge):
    """Eager torch has no lowering for them: without inputs there was no noise at all."""
    model = model_of(
        "g () => (float[2] y) <float[2] x = {0.6666667, 0.8}, float k = {3}> { m = Mul(x, k) y = Floor(m) }"
    )
    job = Job(model.SerializeToString(), {}, torch_judge.configs[1:2])
    (run,) = torch_judge.executor.run(job)
    noise = OnnxNoise(model, job, torch_judge.executor.run)
    assert run.outputs["y"].tolist() == [2, 2]
    (left,) = noise.beyond_noise(run.outputs, {"y": np.float32([1, -3])}, LOOSE)
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
