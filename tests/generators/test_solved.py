"""Programs whose sizes a solver finds: type rules on sizes that note what is computed with them."""

import operator
from collections import Counter
from importlib import import_module
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto

from generators.language.profile import UNLIMITED, qualified_name
from generators.language.values import RandomSource
from generators.relax.operator import Asking
from generators.relax.ops import operators
from generators.relax.programs import Policy, make_program
from generators.solved.dims import Dim, Trace, plain
from generators.solved.realising import Realising, Used
from generators.strategies import find_strategy
from oracles.operators import find_operator
from oracles.relation.program import Call, Operand
from oracles.relation.types import F32, NARROW, DType, Range

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


class Solved:
    """A hundred programs; how often operators stayed or left, and how often sizes are not the first ones."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.kept, self.lost, self.changed = Counter[str](), Counter[str](), 0
        placed = Realising._placed

        def counted(realising: Realising, used: Used) -> bool:
            is_placed = False
            try:
                is_placed = placed(realising, used)
            finally:
                (self.kept if is_placed else self.lost)[used.name] += 1
                sizes = ((realising.size(dim), plain(dim)) for _, dims in used.types for dim in dims)
                self.changed += any(found != first for found, first in sizes)
            return is_placed

        patch.setattr(Realising, "_placed", counted)
        made = find_strategy("smt")(range(100), 10, None, UNLIMITED)
        self.graphs = [each.model.graph for each in made]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def solved():
    with pytest.MonkeyPatch.context() as patch:
        return Solved(patch)


@needs_z3
def test_sizes_that_are_found_take_the_same_way_through_the_rules_of_over_a_hundred_operators(solved):
    assert len(solved.kept) >= 110
    assert solved.lost.total() < 0.05 * solved.kept.total()
    assert solved.changed > 0.2 * solved.kept.total()


@needs_z3
def test_values_that_are_not_known_in_other_sizes_leave_out_what_counts_them():
    (made,) = find_strategy("smt")(range(412001587, 412001588), 14, None, UNLIMITED)
    assert len(made.model.graph.node) >= 14  # type: ignore[union-attr]


@needs_z3
def test_an_element_type_that_numpy_lacks_comes_in_a_part_of_the_programs(solved):
    held = Counter[DType]()
    for graph in solved.graphs:
        codes = {each.type.tensor_type.elem_type for each in (*graph.input, *graph.value_info, *graph.output)}
        codes |= {each.data_type for each in graph.initializer}
        held.update(dtype for dtype in NARROW if int(dtype) in codes)
    assert len(held) >= 5, held


@needs_z3
def test_windows_have_sizes_strides_and_pads_of_the_solver(solved):
    kernels, pads = Counter[int](), Counter[int]()
    for node in (node for graph in solved.graphs for node in graph.node):
        told = {each.name: each.ints for each in node.attribute}
        if qualified_name(node) in ("Conv", "MaxPool", "AveragePool", "LpPool"):
            kernels.update(told.get("kernel_shape", ()))
            pads.update(told.get("pads", ()))
    assert min(len(kernels), len(pads)) >= 2, (kernels, pads)


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


def test_without_a_rate_an_amount_is_one_of_the_usual_by_the_same_draw():
    usual = (1, 1, 2, 3)
    one, other = RandomSource("same"), RandomSource("same")
    assert [one.amount(usual, 64, 0.0) for _ in range(50)] == [other.pick(usual) for _ in range(50)]


def strides(rate: float) -> Counter[int]:
    found: Counter[int] = Counter()
    (convolution,) = (each for each in operators() if each.name == "relax.nn.conv2d")
    asking = Asking(RandomSource(f"strides/{rate}"), {}, (1, 2, 3, 4, 5), binned=rate)
    for _ in range(300):
        sampled = convolution.sample(asking)
        if sampled is not None and sampled[1].attributes is not None:
            found.update(sampled[1].attributes[1]["strides"])
    return found


def test_operators_of_relax_draw_attributes_by_the_rate_of_the_policy():
    plain, binned = strides(0.0), strides(1.0)
    assert set(plain) == {1, 2}
    assert set(binned) == set(range(1, 9))
    assert abs(binned[1] / binned.total() - 1 / 4) < 0.06
    plain_programs, binned_programs = (
        [make_program(seed, 8, Policy(binned=rate)).program.to_bytes() for seed in range(5, 13)]
        for rate in (0.0, 1.0)
    )
    assert plain_programs != binned_programs


@pytest.mark.parametrize(("strategy", "are_binned"), [("backward", True), ("random", False)])
def test_some_strategies_of_onnx_draw_attributes_by_bins_and_others_keep_their_programs(strategy, are_binned):
    found: set[int] = set()
    for made in find_strategy(strategy)(range(120), 8, None, UNLIMITED):
        for node in made.model.graph.node:  # type: ignore[union-attr]
            numbers = [each for each in node.attribute if each.type == AttributeProto.INTS]
            found.update(*(each.ints for each in numbers if each.name == "strides"), ())
    assert bool({size for size in found if size > 3}) == are_binned
