"""Programs whose sizes a solver finds: type rules on sizes that note what is computed with them."""

import operator
from collections import Counter
from importlib import import_module
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto

from generators.language.profile import UNLIMITED
from generators.language.values import RandomSource
from generators.relax.operator import Asking
from generators.relax.ops import operators
from generators.solved_dims import Dim, Trace, plain
from generators.strategies import find_strategy
from oracles.operators import find_operator
from oracles.relation.program import Call, Operand
from oracles.relation.types import F32, Range

needs_z3 = pytest.mark.skipif(find_spec("z3") is None, reason="z3 is not installed")

COMPUTES = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
COMPARES = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)


def free(*values: int) -> tuple[Trace, list[Dim]]:
    trace = Trace(import_module("z3"))
    return trace, [trace.unknown(value, (value, value)) for value in values]


@needs_z3
@settings(max_examples=30)
@given(st.sampled_from(COMPUTES), st.integers(0, 40), st.integers(1, 9), st.booleans())
def test_a_size_computes_as_its_number_and_its_term_is_that_number(compute, one, other, is_known):
    trace, (left, right) = free(one, other)
    for found in (compute(left, other if is_known else right), compute(one, right)):
        assert plain(found) == compute(one, other)
        assert trace.solve()(found) == compute(one, other)


@needs_z3
@settings(max_examples=30)
@given(st.sampled_from(COMPARES), st.integers(0, 9), st.integers(0, 9))
def test_a_comparison_has_its_outcome_in_all_sizes_that_are_found(compare, one, other):
    trace, (left, right) = free(one, other)
    trace.free = [(term, (3, 6)) for term, _ in trace.free]
    holds = compare(left, right)
    size = trace.solve()
    assert holds is compare(one, other) is compare(size(left), size(right))


@needs_z3
def test_the_type_rule_of_a_convolution_is_what_the_solver_gets():
    trace, (high, wide, channels) = free(8, 8, 4)
    trace.free = [(trace.free[0][0], (30, 31)), (trace.free[1][0], (20, 20)), (trace.free[2][0], (6, 7))]
    image = Operand("x", F32, (1, channels, high, wide), Range(0, 1))
    weight = Operand("w", F32, (6, channels // 2, 3, 3), Range(0, 1))
    call = Call((image, weight), {"group": 2, "strides": (2, 1)})
    ((_, dims),) = find_operator("Conv").infer(call)
    size = trace.solve()
    assert size(channels) == 6  # of 6 and 7 it has two groups
    assert tuple(map(size, dims)) == (1, 6, 14, 18)
    assert size(high) in (30, 31)


@needs_z3
def test_values_that_are_not_known_in_other_sizes_leave_out_what_counts_them():
    (made,) = find_strategy("smt")(range(412001587, 412001588), 14, None, UNLIMITED)
    assert len(made.model.graph.node) >= 14  # type: ignore[union-attr]


# Numbers of attributes by bins between powers of two: how they are spread, and who draws them


def test_each_bin_is_as_likely_and_holds_all_its_numbers():
    draws = RandomSource("bins")
    drawn = Counter(draws.binned(0, 20) for _ in range(6000))
    bins = [(0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 20)]
    assert set(drawn) == set(range(21))
    for low, high in bins:
        share = sum(count for number, count in drawn.items() if low <= number <= high) / 6000
        assert abs(share - 1 / len(bins)) < 0.02


def test_bins_below_zero_mirror_those_above_and_ends_are_kept():
    draws = RandomSource("below")
    assert {draws.binned(-5, 2) for _ in range(500)} == set(range(-5, 3))
    assert {draws.binned(3, 3) for _ in range(9)} == {3}


@pytest.mark.parametrize(("strategy", "are_binned"), [("backward", True), ("random", False)])
def test_some_strategies_of_onnx_draw_attributes_by_bins_and_others_keep_their_programs(strategy, are_binned):
    found: set[int] = set()
    for made in find_strategy(strategy)(range(120), 8, None, UNLIMITED):
        for node in made.model.graph.node:  # type: ignore[union-attr]
            numbers = [each for each in node.attribute if each.type == AttributeProto.INTS]
            found.update(*(each.ints for each in numbers if each.name == "strides"), ())
    assert bool({size for size in found if size > 3}) == are_binned


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_operators_of_relax_draw_attributes_by_the_rate_of_the_policy(rate):
    (convolution,) = (each for each in operators() if each.name == "relax.nn.conv2d")
    asking = Asking(RandomSource(f"strides/{rate}"), {}, (1, 2, 3, 4, 5), binned=rate)
    found = [convolution.sample(asking) for _ in range(300)]
    strides = {size for each in found if each for size in each[1].attributes[1]["strides"]}
    assert strides == (set(range(1, 9)) if rate else {1, 2})
