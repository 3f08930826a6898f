"""Values of programs that were not grown here: repaired, by draws or by gradients, or left alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from corpus.case import Case, Remark
from corpus.onnx.inputs import make_inputs
from corpus.onnx.sizes import Plan, solve
from corpus.target import Target
from generators.finite import make_finite, settled
from generators.fitting import fitted
from oracles.judge import Judge
from oracles.probes.record import record
from oracles.verdict import Outcome
from tests.helpers.models import model_of

# A Log that bears only what no uniform draw of x gives: each column of x·w beyond a bound of its own.
DEEP_LOG = """g (float[2,3] x) => (float[2,3] y)
    <float[3,3] w = {2, -1, 3, -3, 2, 1, 1, 1, -2}, float[3] c = {1.5, 2.5, 0.5}>
    { a = MatMul(x, w) b = Sub(a, c) d = Log(b) y = Tanh(d) }"""
FLAT_RECIPROCAL = """g (float[4] x) => (float[4] y)
    <float[4] w = {-5, 3, -2, 1}, float c = {1}>
    { a = Mul(x, w) b = Sub(a, c) d = Relu(b) y = Reciprocal(d) }"""
NOT_TO_HAVE = "g (float[4] x) => (float[4] y) <float c = {2}> { a = Sigmoid(x) b = Sub(a, c) y = Sqrt(b) }"
MASK = """g (float[2] x) => (float[2] y) <float zero = {0}, float[2] none = {0, 1}>
    { a = Log(none) b = Add(a, x) y = Softmax(b) }"""


def case(graph: str, **inputs: Any) -> Case:
    return made_of(model_of(graph), **inputs)


def made_of(model: onnx.ModelProto, **inputs: Any) -> Case:
    return Case("onnx", model.SerializeToString(), inputs or make_inputs(model, 0), Target("ort"))


def are_finite(judge: Judge, found: Case) -> bool:
    """By the recording of another run, and every intermediate there."""
    recording = record(judge.executor, found)
    values = [value for value in recording.values.values() if isinstance(value, np.ndarray)]
    return recording.complete and all(np.isfinite(value).all() for value in values)


# What is drawn together, element by element; and what is small, which keeps its bits.
TOGETHER = """g (float[4,6] x, float[4,6] y) => (float[4,6] z)
    <float c = {3}> { a = Sqrt(y) b = Pow(y, a) d = Sub(b, x) e = Sub(d, c) z = Acos(e) }"""
FINE = """g (float[4] x) => (float[4] y)
    <float c = {0.0001}> { a = Abs(x) b = Sub(c, a) d = Log(a) y = Sqrt(b) }"""


@pytest.mark.parametrize(
    ("graph", "needs_gradients"),
    [
        ("g (float[4] x) => (float[4] y) { a = Neg(x) y = Log(x) }", False),
        (DEEP_LOG, True),
        (FLAT_RECIPROCAL, True),
        (TOGETHER, None),
        (FINE, None),
    ],
)
def test_an_input_is_found_by_draws_or_else_by_gradients(judge, graph, needs_gradients):
    """Also through a Relu, whose derivative is zero where the search begins."""
    chain = case(graph)
    assert not are_finite(judge, chain)
    found = make_finite(chain, judge)
    assert found.is_finite
    assert are_finite(judge, found.case)
    if needs_gradients is not None:
        assert make_finite(chain, judge, gradients=False).is_finite != needs_gradients
        assert found.steps[-1].endswith("gradients") == needs_gradients


def test_what_lies_within_the_domain_stays(judge):
    given = np.array([0.5, -1, 0.25, -2], np.float32)
    found = make_finite(case("g (float[4] x) => (float[4] y) { y = Sqrt(x) }", x=given), judge)
    after = found.case.inputs["x"]
    assert isinstance(after, np.ndarray)
    assert found.is_finite
    assert after[[0, 2]].tolist() == [0.5, 0.25]
    assert (after >= 0).all()


OF_WEIGHTS = (
    "g (float[4] x) => (float[4] y) <float[4] w = {-1, 2, -3, 0.5}> { a = Relu(x) b = Add(a, w) c = Neg(a)"
    " d = Add(c, w) y = Log(d) }"
)


def test_weights_move_where_the_user_says_so_and_no_inputs_do(judge):
    chain = case(OF_WEIGHTS)
    assert settled(chain, judge).program == chain.program
    assert not are_finite(judge, settled(chain, judge))
    free = settled(chain, judge, free_weights=True)
    assert are_finite(judge, free)
    assert [each.name for each in free.parsed.graph.input] == ["x"]
    assert [each.name for each in free.parsed.graph.initializer] == ["w"]
    assert free.notes[-1].startswith("weights, and inputs from the seed, changed")


def test_weights_stay_where_inputs_do(judge):
    chain = case(DEEP_LOG)
    assert settled(chain, judge, free_weights=True).program == chain.program


def test_the_search_is_the_same_every_time(judge):
    assert make_finite(case(DEEP_LOG), judge).case == make_finite(case(DEEP_LOG), judge).case


def test_a_program_that_no_value_suits_is_given_up(judge):
    chain = case(NOT_TO_HAVE)
    found = make_finite(chain, judge)
    assert (found.is_finite, found.case, found.steps) == (False, chain, ())


@pytest.mark.parametrize("graph", ["g (float[4] x) => (float[4] y) { y = Tanh(x) }", MASK])
def test_values_that_are_finite_or_the_programs_own_are_left_alone(judge, graph):
    chain = case(graph)
    assert settled(chain, judge) is chain


# Inputs that fit: sizes on which a graph agrees, values that operators take, and what a refusal mends


@pytest.mark.parametrize(
    ("graph", "shapes"),
    [
        ("g (float[n,m] x, float[m,k] y) => (float[n,k] z) { z = MatMul(x, y) }", [(2, 3), (3, 5)]),
        ("g (float[n,m] x) => (float[n,k] z) <float[7,2] w = {1}> { z = MatMul(x, w) }", [(2, 7)]),
        ("g (float[a,b] x, float[c,d] y) => (float[a,b] z) { z = Add(x, y) }", [(2, 3), (2, 3)]),
        (
            "g (float[a,b] x, float[c,d] y) => (float[e,b] z) { z = Concat <axis=0> (x, y) }",
            [(2, 3), (5, 3)],
        ),
        ("g (float[past] x, float[seq] y, float[total_seq] m) => (float[total_seq] z) { z = Neg(m) }",
         [(2,), (3,), (5,)]),
    ],
)  # fmt: skip
def test_sizes_agree_over_the_graph_and_differ_where_they_may(graph, shapes):
    assert list(solve(model_of(graph), Plan()).shapes.values()) == shapes


def test_sizes_that_are_asked_for_are_kept():
    model = model_of("g (float[n,m] x, float[m,k] y) => (float[n,k] z) { z = MatMul(x, y) }")
    assert next(value.shape for value in make_inputs(model, 0, {"n": 9, "m": 11}).values()) == (9, 11)
    assert solve(model, Plan({"m": 11})).shapes == {"x": (2, 11), "y": (11, 3)}


REFUSED = {
    "sizes of two inputs": "g (float[a,b] x, float[c,d] y) => (float[e,f] z) { z = MatMul(x, y) }",
    "a constant k above the size": (
        "g (float[n] x) => (float[k] v, int64[k] i) <int64[1] k = {40}> { v, i = TopK(x, k) }"
    ),
    "a product that only the run knows": (
        "g (float[a,b] x) => (float[c,d] z) <int64[2] s = {12, -1}> { z = Reshape(x, s) }"
    ),
    "an index beyond a table": (
        "g (int64[n] i) => (float[n] z) <float[2] w = {1, 2}, int64 one = {1}>"
        " { j = Add(i, one) z = Gather(w, j) }"
    ),
}


@pytest.mark.parametrize("graph", REFUSED.values(), ids=REFUSED)
def test_what_a_run_refuses_is_mended(graph, judge):
    refused = case(graph)
    mended = fitted(refused, judge, seed=0, dims={})
    assert mended.remarks(Remark.FITTED)
    assert judge.verdict(mended).outcome is Outcome.PASS
    assert fitted(refused, judge, seed=0, dims={}).case_id == mended.case_id


def test_inputs_that_fit_nowhere_blame_crux_and_not_the_model(judge):
    unfit = case(
        "g (float[n] x) => (float[m] z) <int64[1] s = {0}, float[1] w = {1}>"
        " { a = Shape(x) b = Sub(s, a) z = Expand(w, b) }"
    )
    unfit = fitted(unfit, judge, seed=0, dims={})
    verdict = judge.verdict(unfit)
    assert unfit.remarks(Remark.UNFIT)
    assert unfit.inputs.keys() == {"x"}
    assert verdict.outcome is Outcome.UNDECIDED
    assert "crux made do not fit" in verdict.title
    given = replace(unfit, notes=())
    assert judge.verdict(given).outcome is Outcome.INVALID


def test_a_map_goes_in_as_its_keys_and_values(judge):
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
        g (map(string, float) x) => (float[n,m] y)
        { y = ai.onnx.ml.DictVectorizer <string_vocabulary = ["b", "a"]> (x) }"""
    found = made_of(onnx.parser.parse_model(text))
    keys, values = found.inputs["x"]
    verdict = judge.verdict(found)
    assert verdict.outcome is Outcome.PASS
    table = dict(zip(keys, values, strict=True))
    assert np.array_equal(verdict.runs[0].outputs["y"].ravel(), [table["b"], table["a"]])
