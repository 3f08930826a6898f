"""Values of programs that were not grown here: repaired, by draws or by gradients, or left alone."""

from typing import Any

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.onnx.inputs import make_inputs
from generators.finite import make_finite, settled
from oracles.judge import Judge
from oracles.probes.record import record

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
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    return Case("onnx", model.SerializeToString(), inputs or make_inputs(model, 0))


def are_finite(judge: Judge, found: Case) -> bool:
    """By the recording of another run, and every intermediate there."""
    recording = record(judge.executor, found)
    values = [value for value in recording.values.values() if isinstance(value, np.ndarray)]
    return recording.complete and all(np.isfinite(value).all() for value in values)


def test_an_input_is_drawn_within_the_domain_of_the_operator_that_it_feeds(judge):
    chain = case("g (float[4] x) => (float[4] y) { a = Neg(x) y = Log(x) }")
    assert not are_finite(judge, chain)
    found = make_finite(chain, judge, gradients=False)
    assert found.is_finite
    assert are_finite(judge, found.case)
    assert len(found.steps) == 1


def test_what_lies_within_the_domain_stays(judge):
    given = np.array([0.5, -1, 0.25, -2], np.float32)
    found = make_finite(case("g (float[4] x) => (float[4] y) { y = Sqrt(x) }", x=given), judge)
    after = found.case.inputs["x"]
    assert isinstance(after, np.ndarray)
    assert found.is_finite
    assert after[[0, 2]].tolist() == [0.5, 0.25]
    assert (after >= 0).all()


@pytest.mark.parametrize("graph", [DEEP_LOG, FLAT_RECIPROCAL])
def test_gradients_find_what_draws_do_not(judge, graph):
    """Also through a Relu, whose derivative is zero where the search begins."""
    chain = case(graph)
    drawn = make_finite(chain, judge, gradients=False)
    found = make_finite(chain, judge)
    assert not drawn.is_finite
    assert found.is_finite
    assert are_finite(judge, found.case)
    assert found.steps[-1].endswith("gradients")


TOGETHER = (
    "g (float[4,6] x, float[4,6] y) => (float[4,6] z) <float c = {3}> { a = Sqrt(y) b = Pow(y, a)"
    " d = Sub(b, x) e = Sub(d, c) z = Acos(e) }"
)
FINE = (
    "g (float[4] x) => (float[4] y) <float c = {0.0001}> { a = Abs(x) b = Sub(c, a) d = Log(a) y = Sqrt(b) }"
)


@pytest.mark.parametrize("graph", [TOGETHER, FINE])
def test_draws_are_put_together_by_elements_and_what_is_small_keeps_its_bits(judge, graph):
    found = make_finite(case(graph), judge)
    assert found.is_finite
    assert are_finite(judge, found.case)


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
    assert free.notes[-1].startswith(
        "weights, and inputs from the seed, changed so that every value is finite"
    )


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
