"""What was reached of a target's code: nothing is counted twice, lineages give their programs again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.feedback import BLOCK, CoverageSnapshot, arm, shares_by_reach, together
from generators.mixture import DrawnCase, Plan, make_tests
from generators.pools import ENOUGH, FADING, MOST, NATIVE, NOWHERE, Lineage, NewlyReached, Reach
from generators.strategies.mutate import lineage_of, of_lineage

BLOCKS = st.sets(st.integers(0, 300)).map(lambda found: tuple(sorted(found)))
LINEAGES = st.none() | st.builds(
    Lineage, st.just("random"), st.integers(0, 99), st.integers(1, 9), st.lists(st.integers(0, 99)).map(tuple)
)
SIGHTINGS = st.lists(st.builds(NewlyReached, st.sampled_from("ab"), st.sampled_from("xyz"), BLOCKS, LINEAGES))


def sighting(seed: int, *blocks: int) -> NewlyReached:
    return NewlyReached("build", "random|strict", blocks, Lineage("random", seed, 5))


@given(SIGHTINGS)
def test_what_is_known_is_what_tests_on_the_last_build_met(sightings):
    reach = NOWHERE.after(sightings)
    builds = [each.build for each in sightings]
    last = len(builds)
    while last and builds[last - 1] == builds[-1]:
        last -= 1
    met = {block for each in sightings[last:] for block in each.blocks}
    assert {block for block in range(400) if reach.bits(reach.build, 400)[block]} == met
    assert not reach.bits("another", 400).any()


@given(SIGHTINGS, SIGHTINGS)
def test_it_comes_from_the_database_as_it_went_there(one, two):
    lesson = CoverageSnapshot(reach=NOWHERE.after(one), sightings=tuple(two))
    assert CoverageSnapshot.of(lesson.document()) == lesson


def test_a_program_is_kept_for_what_it_was_the_first_to_reach():
    many = tuple(range(ENOUGH))
    reach = NOWHERE.after([sighting(1, *many), sighting(2, *many), sighting(3, 100, 101)])
    assert [(root.key, root.gain) for root in reach.roots] == [(1, ENOUGH)]
    assert reach.arms == {"random|strict": (3.0, ENOUGH + 2.0)}
    assert reach.after([]).arms == {"random|strict": (FADING * 3, FADING * (ENOUGH + 2))}


def test_a_pool_does_not_grow_without_bound():
    reach = NOWHERE.after(sighting(n, *range(ENOUGH * n, ENOUGH * (n + 1))) for n in range(MOST + 50))
    assert [root.key for root in reach.roots] == list(range(50, MOST + 50))


def test_one_program_more_changes_only_the_seeds_that_it_wins():
    some = [sighting(n, *range(ENOUGH * n, ENOUGH * (n + 1))) for n in range(40)]
    one, two = NOWHERE.after(some[1:]), NOWHERE.after(some)
    parted = [(one.choose(seed), two.choose(seed)) for seed in range(1000)]
    changed = [new for old, new in parted if old != new]
    assert {root.key for root in changed if root} == {0}
    assert 5 < len(changed) < 60
    assert len({root.key for root, _ in parted if root}) == 39


@pytest.fixture(scope="module")
def lesson() -> CoverageSnapshot:
    return CoverageSnapshot(reach=NOWHERE.after(sighting(n, *range(9 * n, 9 * n + 9)) for n in range(6)))


def bred(lesson: CoverageSnapshot) -> list[DrawnCase]:
    """The tests of the first block of a campaign that breeds."""
    for first in range(0, 100 * BLOCK, BLOCK):
        found = list(make_tests(Plan(NATIVE, nodes=5), range(first, first + BLOCK), lesson))
        if found[0].arm == arm(NATIVE, "strict"):
            return found
    raise AssertionError("no block breeds")


def test_a_child_is_its_parent_changed_and_can_be_made_again(lesson):
    tests = bred(lesson)
    parents = {root.lineage for root in lesson.reach.roots}
    whole = [each for each in tests if each.lineage is not None]
    assert len(whole) > BLOCK // 2
    for each in whole[:4]:
        assert each.lineage == lineage_of(each.seed, 5, lesson)
        assert Lineage(each.lineage.strategy, each.lineage.seed, each.lineage.nodes) in parents
        again, once_more = of_lineage(each.lineage), of_lineage(each.lineage)
        assert again.model.SerializeToString() == once_more.model.SerializeToString()
        assert {node.op_type for node in again.model.graph.node} == {
            node.op_type for node in each.case.parsed.graph.node
        }


def test_grandchildren_are_no_deeper_than_the_deepest(lesson):
    for _ in range(5):
        lineage = lineage_of(77, 5, lesson)
        lesson = CoverageSnapshot(reach=NOWHERE.after([NewlyReached("build", "", (1, 2, 3, 4), lineage)]))
        assert 1 <= len(lineage.changes) <= 3
        assert of_lineage(lineage).model.graph.node


def test_without_news_the_mixture_makes_fresh_programs():
    tests = list(make_tests(Plan(NATIVE, nodes=4), range(20 * BLOCK), CoverageSnapshot()))
    assert not any(each.arm.startswith(NATIVE) for each in tests)
    assert len({each.arm for each in tests}) > 5


def test_an_arm_that_reaches_more_is_drawn_more():
    usual = {"random|strict": 1.0, "uniform|strict": 1.0}
    reach = Reach("build", arms={"random|strict": (200.0, 50.0), "uniform|strict": (200.0, 900.0)})
    found = shares_by_reach(usual, reach)
    assert found["uniform|strict"] > 3 * found["random|strict"] > 0
    assert shares_by_reach(usual, NOWHERE) == usual


def test_lessons_in_order_give_one_reach():
    one, two = (
        CoverageSnapshot(sightings=(sighting(1, 1, 2, 3, 4),)),
        CoverageSnapshot(sightings=(sighting(2, 3, 4, 5, 6),)),
    )
    folded = together([CoverageSnapshot(), one, two]).folded()
    assert [root.key for root in folded.reach.roots] == [1]
    assert folded.reach.bits("build", 8).tolist() == [False, *([True] * 6), False]
    assert not folded.sightings
