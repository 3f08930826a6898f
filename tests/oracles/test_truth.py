"""Truth about mismatches: float64, what the text leaves open, and where values part."""

import re
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from corpus.values import Value
from oracles.numerics.compare import Difference, Tolerance, compare
from oracles.numerics.input_noise import inputs_in_double, program_in_double
from oracles.numerics.mismatch_kind import finest_kind, left_open
from oracles.probes.context import FirstDivergence, Truth
from oracles.probes.record import as_defined, record
from oracles.probes.wrong_side import judge_sides
from oracles.sandbox.sandbox import Job
from oracles.verdict import Outcome, Run
from tests.helpers.models import case_of as case
from tests.helpers.models import model_of

F = np.float32


def test_a_program_in_double_keeps_its_nodes_and_rounds_less(judge):
    third = case(
        "g (float[2] x, bool c) => (float[2] y, float16[2] h) <float one = {1.0}> {"
        " k = Constant<value_float = 3.0>() s = Constant<value_ints = [2]>() z = ConstantOfShape(s)"
        " d = Div(one, k) e = Add(x, d) f = Add(e, z)"
        " y = If(c) <then_branch = t () => (float[2] u) { u = Exp(f) },"
        " else_branch = e () => (float[2] v) { v = Sin(f) }> h = Cast<to = 10>(y) }",
        x=np.array([0.1, 0.2], F),
        c=np.array(True),
    )
    model = onnx.load_model_from_string(third.program)
    wide = program_in_double(model)
    onnx.checker.check_model(wide)
    assert [node.op_type for node in wide.graph.node] == [node.op_type for node in model.graph.node]
    (run,) = judge.executor.rerun(Job(wide.SerializeToString(), inputs_in_double(third.inputs), ()))
    assert run.is_ok, run.message
    exact = np.exp(np.array([0.1, 0.2], F).astype(float) + 1 / 3)
    np.testing.assert_allclose(run.outputs["h"], exact, rtol=1e-15)


INT8, INT64, HALF = TensorProto.INT8, TensorProto.INT64, TensorProto.FLOAT16
ONES, TWO, ONE = np.ones(3), np.ones(2), np.ones(1, int)


@pytest.mark.parametrize(
    ("op", "attributes", "operands", "is_open"),
    [
        ("Cast", {"to": INT8}, [np.array([300.0])], True),
        ("Cast", {"to": INT8}, [np.array([np.nan])], True),
        ("Cast", {"to": INT8}, [np.array([-128.9, 127.9])], False),
        ("Cast", {"to": INT64}, [np.array([2.0**63])], True),
        ("Cast", {"to": HALF}, [np.array([1e9])], False),
        ("Shrink", {}, [np.array([2**62])], True),
        ("Shrink", {}, [np.array([2**52])], False),
        ("Pow", {}, [np.array([2]), np.array([-1])], True),
        ("Pow", {}, [np.array([2.0]), np.array([-1.0])], False),
        ("BitShift", {}, [np.ones(1, np.uint8), np.full(1, 8, np.uint8)], True),
        ("TopK", {"sorted": 0}, [ONES, ONE], True),
        ("TopK", {}, [ONES, ONE], False),
        ("TopK", {}, [np.array([1.0, np.nan]), ONE], True),
        ("ScatterElements", {"axis": 0}, [ONES, np.array([0, -3]), TWO], True),
        ("ScatterElements", {"axis": 0, "reduction": "add"}, [ONES, np.array([0, -3]), TWO], False),
        ("ScatterND", {}, [np.ones((2, 2)), np.array([[0, 1], [1, 0]]), TWO], False),
        *(
            ("DynamicQuantizeLinear", {}, [np.float32(values)], is_open)
            for values, is_open in [
                ([0, 0], True),
                ([1, 2], False),
                ([-np.inf, 1], True),
                ([np.nan, 1], True),
                ([-3e38, 3e38], True),
            ]
        ),
        ("Add", {}, [ONES, ONES], False),
        ("MaxPool", {"kernel_shape": [3, 3]}, [np.ones((1, 1, 3, 2))], True),
        ("MaxPool", {"kernel_shape": [3, 3]}, [np.ones((1, 1, 3, 3))], False),
        ("AveragePool", {"kernel_shape": [3], "pads": [1, 0], "dilations": [1]}, [np.ones((1, 1, 2))], False),
    ],
)
def test_what_the_text_leaves_open(op, attributes, operands, is_open):
    names = ["x", "i", "u"][: len(operands)]
    node = helper.make_node(op, names, ["y", "s", "z"], **attributes)
    assert bool(left_open(node, dict(zip(names, operands, strict=True)))) == is_open


@pytest.mark.parametrize(("scale", "outcome"), [(0.0, "pass"), (-1.0, "pass"), (0.5, "mismatch")])
def test_quantisation_without_a_scale_is_judged_by_nobody(judge, monkeypatch, scale, outcome):
    """A run that differs on one output behind the quantisation."""
    quantised = case(
        f"g (float[2] x) => (float[2] y) <float s = {{{scale}}}> {{ q = QuantizeLinear(x, s)"
        " d = DequantizeLinear(q, s) y = Neg(d) }",
        x=np.ones(2, F),
    )
    run = judge.executor.run

    def other(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        runs = run(job, fresh=fresh)
        wrong = {"y": np.full(2, 7, F)}
        return tuple(replace(each, outputs=wrong) if each.config.label == "all" else each for each in runs)

    monkeypatch.setattr(judge.executor, "run", other)
    assert judge.verdict(quantised, only=judge.configs[1]).outcome.value == outcome


CHAIN = case(
    "g (float[3] x) => (float[3] y) { a = Exp(x) b = Neg(a) c = Abs(b) y = Sqrt(c) }", x=np.ones(3, F)
)


@pytest.mark.parametrize("shows", [("a", "b", "c", "y"), ("c", "y")], ids=["at once", "from the node on"])
@pytest.mark.parametrize("is_hidden", [False, True], ids=["with all outputs", "one at a time"])
def test_values_part_at_the_first_tensor_that_shows_it(judge, shows, is_hidden):
    """A backend that is wrong from a tensor on, also where it is right while more than one is an output."""
    values = record(judge.executor, CHAIN).values

    def wrong(job: Job) -> tuple[Run, ...]:
        (run,) = judge.executor.rerun(job)
        is_right = is_hidden and len(run.outputs) > 1
        outputs = {
            name: value + 1 if name in shows and not is_right else value
            for name, value in run.outputs.items()
        }
        return (Run(run.config, run.status, run.phase, outputs),)

    model = onnx.load_model_from_string(CHAIN.program)
    job = Job(CHAIN.program, CHAIN.inputs, judge.configs[1:2])

    def differs(name: str, left: Value, right: Value) -> bool:
        return compare(name, left, right, Tolerance()) is not None

    found = FirstDivergence(model, job, wrong, values, differs).first("y", {"a", "b", "c", "x", "y"})
    assert (found.name, found.node.output[0]) == (shows[0], shows[0])


def test_a_wrong_result_says_what_is_wrong_where_it_begins_and_by_whose_word(judge):
    fused = case(
        "g (int32[3] x, int32[3] z) => (int32[3] y) <int32 one = {1}>"
        " { n = Neg(z) q = Div(one, x) m = Mul(q, n) y = Abs(m) }",
        x=np.array([2, 3, 4], np.int32),
        z=np.array([10, 20, 30], np.int32),
    )
    wrong = judge.explain(fused, judge.verdict(fused)).wrong
    assert (wrong.side, wrong.output, wrong.kind, wrong.error) == ("optimised", "y", "zeros", 7.0)
    assert wrong.truth.startswith("reference")
    assert wrong.off_truth == (0.0, 7.0)
    assert (wrong.first, wrong.operator) == ("m", "Mul")


@pytest.mark.parametrize(
    ("expected", "actual", "kind"),
    [
        (np.array([1.0], F), np.array([1.0 + 2.0**-10], F), "2^13 ulps"),
        (np.array([1.0, 2.0]), np.array([-1.0, -2.0]), "sign"),
        (np.array([1.0, 2.0]), np.array([0.0, 0.0]), "zeros"),
        (np.array([1, 2]), np.array([2, 3]), "off by one"),
        (np.array([100, 101], np.uint8), np.array([255, 255], np.uint8), "saturation"),
        (np.array([1.0]), np.array([np.inf]), "inf"),
        (np.array([1.0]), np.array([np.nan]), "nan"),
        (np.array([[1.0]]), np.array([1.0]), "shape"),
        (np.array([True]), np.array([False]), "value"),
        (np.array(["a"]), np.array(["b"]), "value"),
    ],
)
def test_a_difference_has_its_kind(expected, actual, kind):
    difference = compare("y", expected, actual, Tolerance(0.0, 0.0))
    assert finest_kind(difference, expected, actual) == kind


def test_what_hangs_on_a_value_that_is_not_finite_has_an_outcome_of_its_own(judge):
    """A convolution in another layout adds its infinities in another order."""
    data = np.ones((1, 16, 6, 6), F)
    data[0, 3, 2, 2], data[0, 5, 2, 2] = np.inf, np.nan
    pool = case(
        "g (float[1,16,6,6] x, float[16,16,1,1] w) => (float[1,16,1,1] y)"
        " { c = Conv(x, w) y = GlobalMaxPool(c) }",
        x=data,
        w=np.ones((16, 16, 1, 1), F),
    )
    verdict = judge.verdict(pool)
    assert verdict.outcome in (Outcome.NONFINITE, Outcome.PASS)
    assert not verdict.is_bug
    assert (verdict.symptom is None) == (verdict.outcome is Outcome.PASS)


# Which side is wrong: the one that is clearly further from a truth, which may be wrong itself


GOOD, BAD, ODD = np.array([1.0, 2.0]), np.array([5.0, -2.0]), np.array([30.0, 40.0])


def difference_of(expected: Value, actual: Value) -> Difference:
    found = compare("y", expected, actual, Tolerance())
    return found


def truths(*values: Value) -> list[Truth]:
    return [Truth("some", {"y": value} if value is not None else {}) for value in values]


SIDES = {
    "optimised": (GOOD, BAD, [GOOD], "optimised"),
    "baseline": (BAD, GOOD, [GOOD], "un-optimised"),
    "in the middle": (GOOD, BAD, [(GOOD + BAD) / 2], "neither"),
    "far from both": (GOOD, BAD, [ODD], "optimised"),
    "the second tells": (GOOD, BAD, [ODD, BAD], "un-optimised"),
    "none": (GOOD, BAD, [], "optimised"),
    "shape": (GOOD[:1], GOOD, [GOOD], "un-optimised"),
    "other shape": (GOOD, GOOD[:1], [GOOD], "optimised"),
    "dtype": (GOOD, BAD.astype(int), [GOOD], "optimised"),
    "text": (GOOD, BAD, [np.array(["a", "b"])], "optimised"),
    "sequence": (GOOD, BAD, [[GOOD]], "optimised"),
    "integers": (np.array([1, 2]), np.array([1, 3]), [np.array([1, 3])], "un-optimised"),
    "booleans": (np.array([True]), np.array([False]), [np.array([True])], "optimised"),
    "nan": (np.array([1.0, np.nan]), np.array([1.0, 0.0]), [np.array([1.0, np.nan])], "optimised"),
}


@pytest.mark.parametrize(("baseline", "other", "told", "side"), SIDES.values(), ids=SIDES)
def test_the_side_that_is_further_from_the_truth_is_wrong(baseline, other, told, side):
    assert judge_sides(difference_of(baseline, other), baseline, other, truths(*told)).side == side


def test_what_must_be_confirmed_and_is_not_is_no_bug():
    """float32 overflows where float64 does not: the infinity is right for its type."""
    baseline, other = np.array([np.inf], np.float32), np.array([1e30], np.float32)
    found = compare("y", baseline, other, Tolerance())
    wild = replace(found, unconfirmed=np.array([True]))
    assert judge_sides(wild, baseline, other, truths(np.array([1e40]))).side == "neither"
    assert judge_sides(wild, baseline, other, truths(np.array([np.inf]))).side == "optimised"


# Recordings: every intermediate, and the node at which a run breaks


@pytest.mark.parametrize(
    ("before", "values"),
    [
        ("a = Identity(x) b = Identity(a)", (np.iinfo(np.int64).min, -1)),
        ("b = Identity(x)", (5, 0)),
        ("", (5, 0)),
    ],
    ids=["crash", "exception", "the first node"],
)
def test_a_run_that_breaks_is_recorded_up_to_the_culprit(judge, before, values):
    dividend = "b" if before else "x"
    chain = case(
        "g (int64[1] x, int64[1] z) => (int64[1] y) {"
        f" {before} c = Div({dividend}, z) d = Neg(c) e = Abs(d) y = Identity(e) }}",
        x=np.array([values[0]]),
        z=np.array([values[1]]),
    )
    recording = record(judge.executor, chain)
    assert recording.crashed_at == "c"
    assert set(recording.values) == {"x", "z", *re.findall(r"(\w) =", before)}


def test_what_does_not_fit_the_budget_is_left_out(judge):
    large = case(
        "g (float[1] x) => (float[1] y) <int64[1] n = {1000}> { big = Expand(x, n) y = ReduceSum(big) }",
        x=np.ones(1, F),
    )
    recording = record(judge.executor, large, byte_budget=1000)
    assert not recording.complete
    assert "y" in recording.values
    assert "big" not in recording.values


def test_an_operator_is_written_out_as_onnx_defines_it():
    text = "g (float[2] x) => (float y) { y = ReduceLogSumExp <keepdims=0> (x) }"
    model = model_of(text, 18)
    defined = as_defined(model)
    (given,) = ReferenceEvaluator(defined).run(None, {"x": np.array([0, np.log(3)], np.float32)})
    assert given == pytest.approx(np.log(4))
    assert as_defined(model_of(text.replace("ReduceLogSumExp", "ReduceMax"), 18)) is None


def test_the_inferred_shape_of_a_scalar_is_known(judge):
    total = case("g (float[2,3] x) => (y) { y = ReduceSum<keepdims = 0>(x) }", x=np.ones((2, 3), F))
    assert judge.open(total).shape_of("y") == ()
    assert judge.open(total).shape_of("nowhere") is None
