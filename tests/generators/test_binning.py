"""Numbers of attributes by bins between powers of two: how they are spread, and who draws them."""

from collections import Counter

import pytest
from onnx import AttributeProto

from generators.language.profile import UNLIMITED
from generators.language.values import RandomSource
from generators.relax.operator import Asking
from generators.relax.ops import operators
from generators.relax.programs import Policy, make_program
from generators.strategies import find_strategy


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
