"""What `--tolerance auto` calls a wrong value: of any size, but not what rounding or a range explains."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from corpus.case import Case
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.compare import AUTO, Tolerance, compare, compare_outputs, distance, small
from oracles.numerics.input_noise import tensor_types
from oracles.numerics.perturbation import terms_of
from oracles.probes.context import Context
from oracles.relation.arithmetic import UNKNOWN_TERMS
from oracles.rules.wrong_nodes import segments, special_values
from oracles.rules.wrong_results import mismatch
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Run, Verdict
from tests.helpers.models import case_of, model_of

LEAST = float(np.finfo(np.float32).min)


program = partial(case_of, target=Target("ort"))


def judged(judge: Judge, case: Case, change: Callable[[Any], Any]) -> tuple[Verdict | None, Context]:
    """The verdict where the optimised run gives what `change` makes of the un-optimised result."""
    context = judge.open(case)
    (run,) = judge.executor.rerun(context.job)
    wrong = Run(judge.configs[1], run.status, run.phase, {"y": np.asarray(change(run.outputs["y"]))})
    context.notes.add("")
    return mismatch(case, (run, wrong), context), context


MASKED = (
    "g (float[2,4] x) => (float[2,4] y) <float[2,4] mask = {0,L,L,L, 0,0,L,L}, float[4,4] w = {1,2,3,4,5,6,7,"
    " 8,9,1,2,3, 4,5,6,7}> { s = Add(x, mask) p = Softmax(s) y = MatMul(p, w) }"
).replace("L", repr(LEAST))


MASK = program(MASKED, x=np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
CANCELLING = program(
    "g (float[4] x) => (float y) <float[4] w = {10000, -10000, 10000, -10000}> { y = MatMul(x, w) }",
    x=np.array([1.0, 1.0, 1.0, 1.0000119], np.float32),
)
"""The magnitudes sum up to 4e4: what is left after cancellation may be off by their last places."""


@pytest.mark.parametrize(
    ("case", "change", "is_wrong"),
    [
        (MASK, lambda y: y * np.float32(1.5), True),
        (MASK, lambda y: y * np.float32(1 + 1e-3), True),
        (MASK, lambda y: y * np.float32(1 + 2e-7), False),
        (CANCELLING, lambda y: y + np.float32(2e-3), False),
    ],
    ids=["beside a mask of the least float", "a small difference", "rounding", "what cancels"],
)
def test_a_difference_of_any_size_counts_if_rounding_does_not_explain_it(judge, case, change, is_wrong):
    assert (judged(judge, case, change)[0] is not None) == is_wrong


def test_small_is_relative_to_the_greatest_finite_value():
    values = np.array([100.0, 1e-3, np.inf], np.float32)
    assert small(values, AUTO) == pytest.approx(100 * 128 * 2.0**-23, rel=1e-6)
    near = values + np.array([0, 5e-4, 0], np.float32)
    assert compare("y", values, near, AUTO) is None
    far = values + np.array([0.01, 0, 0], np.float32)
    assert compare("y", values, far, AUTO) is not None
    assert compare("y", values, far, Tolerance()) is None


def test_an_operator_that_defines_nan_answers_for_it(judge, monkeypatch):
    case = program(
        "g (float[3] x) => (float[3] y) { s = Sqrt(x) r = Relu(s) y = Neg(r) }",
        x=np.array([-1.0, 4.0, 9.0], np.float32),
    )
    context = judge.open(case)
    (run,) = judge.executor.rerun(context.job)
    unpatched = judge.executor.run

    def dropping(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        """An optimised way whose Relu makes 0 of NaN."""
        (real,) = unpatched(job, fresh=fresh)
        if job.configs == judge.configs[:1]:
            return (real,)
        fixed = {
            name: np.nan_to_num(np.asarray(value)) if name in ("r", "y") else value
            for name, value in real.outputs.items()
        }
        return (Run(judge.configs[1], real.status, real.phase, fixed),)

    monkeypatch.setattr(judge.executor, "run", dropping)
    (wrong,) = dropping(replace(context.job, configs=judge.configs[1:2]))
    found = special_values(case, (run, wrong), context)
    assert (found.wrong.first, found.wrong.operator) == ("r", "Relu")
    assert found.wrong.located.right_until == ("s",)


def test_torch_is_told_nothing_below_its_usual_tolerances(inductor_judge, judge):
    """Its rule for fuzzers: tolerances no tighter than the defaults."""
    assert inductor_judge.screen == inductor_judge.tolerance
    assert judge.screen == AUTO


# Sums: the number of their terms, as the noise needs it


@pytest.mark.parametrize(
    ("graph", "terms"),
    [
        ("g (float[2,7] a, float[7,3] b) => (float[2,3] y) { y = MatMul(a, b) }", 7),
        ("g (float[7,2] a, float[7,3] b) => (float[2,3] y) { y = Gemm<transA = 1>(a, b) }", 7),
        ("g (float[1,4,5,5] a, float[6,2,3,3] b) => (y) { y = Conv<group = 2>(a, b) }", 18),
        ("g (float[1,4,5,5] a, float[4,2,3,3] b) => (y) { y = ConvTranspose(a, b) }", 36),
        ("g (float[1,4,5,5] a) => (y) { y = AveragePool<kernel_shape = [2, 3]>(a) }", 6),
        ("g (float[2,5] a) => (y) { y = ReduceSum(a) }", 10),
        ("g (float[2,N] a) => (y) { y = ReduceSum(a) }", UNKNOWN_TERMS),
    ],
)
def test_terms_are_counted_from_attributes_and_shapes(graph, terms):
    model = model_of(graph)
    assert terms_of(model.graph.node[0], tensor_types(model)) == terms


@pytest.mark.parametrize(("greatest", "is_left"), [(127, False), (64, True)], ids=["eight bits", "seven"])
def test_products_of_bytes_that_saturate_by_design_are_no_bug(judge, monkeypatch, greatest, is_left):
    """Without VNNI onnxruntime sums two of them in 16 bits, by design."""
    monkeypatch.setattr(judge.executor, "backend", replace(judge.executor.backend, saturates=lambda: True))
    case = program(
        "g (uint8[1,2] a) => (int32[1,1] y) <uint8 z = {0}, int8 n = {0}, int8[2,1] w = {W, W}>"
        " { y = MatMulInteger(a, w, z, n) }".replace("W", str(greatest)),
        a=np.full((1, 2), 255, np.uint8),
    )
    verdict, context = judged(judge, case, lambda y: np.minimum(y, 2000))
    assert (verdict is not None) == is_left
    assert any("VNNI" in text for text in context.noise.notes.texts) != is_left


# What a segment's own rounding explains: a step at its edge, but no other scale and no shorter float

QUANTISED = """g (float[4,8] x) => (uint8[4,8] out) <float s = {0.02}, uint8 z = {128}, float t = {0.05}> {
    q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) e = Tanh(d) r = MatMul(d, w)
    f = Add(r, e) out = QuantizeLinear(f, t, z)
}"""
WEIGHTS = "float[8,8] w = {" + ",".join(f"{np.sin(n):.4f}" for n in range(64)) + "}, "


def told_of(judge: Judge, tensor: str, change: Callable[[Any], Any]) -> Verdict | None:
    """The verdict of the rule where an optimised run gives another value of one tensor."""
    text = QUANTISED.replace("<", f"<{WEIGHTS}", 1)
    values = np.random.default_rng(3).uniform(-2, 2, (4, 8)).astype(np.float32)
    case = case_of(text, target=Target("ort"), opset=13, x=values)
    context = judge.open(case)
    plain = context.rerun(context.job)[0]

    def changed(job: Job, config: Config) -> Run:
        run = judge.executor.run(replace(job, configs=(config,)))[0]
        return replace(run, outputs={**run.outputs, tensor: change(run.outputs[tensor])})

    context.run_as = changed
    wrong = replace(plain, config=judge.configs[-1], outputs={"out": np.asarray(plain.outputs["out"]) + 1})
    return segments(case, (plain, wrong), context)


@pytest.mark.parametrize(
    ("tensor", "change", "is_wrong"),
    [
        ("out", lambda value: value, False),
        ("out", lambda value: value + (np.arange(32).reshape(4, 8) % 2 == 0), True),
        ("e", lambda value: value * np.float32(1 + 1e-3), True),
        ("e", lambda value: value.astype(np.float16).astype(np.float32), True),
        ("e", lambda value: value * np.float32(1 + 1e-7), False),
    ],
)
def test_only_the_rounding_of_its_own_nodes_explains_a_value(judge, tensor, change, is_wrong):
    found = told_of(judge, tensor, change)
    assert (found is not None) == is_wrong
    assert found is None or (found.wrong is not None and found.wrong.first == tensor)


# Comparing values: the order of kinds, the tolerance, what equals what

LOOSE = Tolerance()
F = np.float32


@pytest.mark.parametrize(
    ("expected", "actual", "kind"),
    [
        (np.zeros(2, F), np.zeros(2, np.float64), "dtype"),
        (np.zeros(2, F), np.zeros((2, 1), F), "shape"),
        (np.array([1, np.nan], F), np.array([np.nan, 1], F), "nan"),
        (np.array([1.0], F), np.array([1.02], F), "value"),
        (np.array([1.0], F), np.array([np.inf], F), "value"),
        (np.array([np.inf], F), np.array([-np.inf], F), "value"),
        (np.array([np.inf], F), np.array([1.0], F), "value"),
        (np.array([100]), np.array([101]), "value"),
        (np.array([True]), np.array([False]), "value"),
        (np.array(["a"]), np.array(["b"]), "value"),
        *(
            (np.array([1, 2]).astype(name), np.array([1, 3]).astype(name), "value")
            for name in ("float8_e5m2", "float4_e2m1fn", "bfloat16", "int4")
        ),
        (np.zeros(1, F), None, "presence"),
        ([np.zeros(1, F)], np.zeros(1, F), "dtype"),
        ([np.zeros(1, F)], [np.zeros(1, F)] * 2, "shape"),
        ([np.zeros(1, F)], [np.ones(1, F)], "value"),
    ],
)
def test_what_differs_has_a_kind(expected, actual, kind):
    found = compare("y", expected, actual, LOOSE)
    assert found.kind == kind


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (np.array([1.0], F), np.array([1.009], F)),
        (np.array([0.0], F), np.array([0.0009], F)),
        (np.array([np.nan, np.inf], F), np.array([np.nan, np.inf], F)),
        (np.array([0.0], F), np.array([-0.0], F)),
        (np.array(["a", "bc"]), np.array(["a", "bc"], dtype="<U9")),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078], ml_dtypes.bfloat16)),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        (None, None),
        ([], []),
    ],
)
def test_what_lies_within_the_tolerance_is_equal(expected, actual):
    assert compare("y", expected, actual, LOOSE) is None


def test_a_difference_says_where_it_starts_and_where_it_is_greatest():
    expected, actual = np.zeros((2, 3), F), np.zeros((2, 3), F)
    actual[0, 1], actual[1, 2] = 0.5, -7
    found = compare("y", expected, actual, LOOSE)
    assert (found.first, found.where, found.count, found.size) == ((0, 1), (1, 2), 2, 6)
    assert found.magnitude == 7
    assert "most at [1, 2]: -7.0 against 0.0" in str(found)


def test_a_shape_counts_before_a_value_of_an_earlier_output():
    expected = {"a": np.zeros(1, F), "b": np.zeros(1, F)}
    actual = {"a": np.ones(1, F), "b": np.zeros(2, F)}
    found = compare_outputs(expected, actual, LOOSE)
    assert (found.output, found.kind) == ("b", "shape")


def test_a_run_that_only_compiled_has_nothing_to_compare():
    assert compare_outputs({"a": np.zeros(1, F)}, {}, LOOSE) is None


numbers = arrays.arrays(
    np.float32, arrays.array_shapes(max_dims=2, max_side=3), elements=st.floats(width=32, allow_nan=True)
)


@given(numbers)
def test_a_value_equals_its_copy(value):
    assert compare("y", value, value.copy(), Tolerance(0, 0)) is None
    assert not distance(value, value.copy()).any()


@given(numbers, st.data())
def test_a_changed_element_is_found(value, data):
    place = tuple(data.draw(st.integers(0, size - 1)) for size in value.shape)
    other = value.copy()
    other[place] = 1.0 if not abs(value[place] - 1.0) < 0.5 else 3.0
    found = compare("y", value, other, LOOSE)
    assert (found.where, found.count) == (place, 1)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.int8])
def test_integers_are_as_far_apart_as_they_are_however_large(dtype):
    limits = np.iinfo(dtype)
    left = np.array([limits.max, limits.min, limits.max], dtype)
    right = np.array([limits.max - 1, limits.min + 3, limits.min], dtype)
    assert distance(left, right).tolist() == [1.0, 3.0, float(int(limits.max) - int(limits.min))]
    assert distance(left[1], right[1]) == 3.0
