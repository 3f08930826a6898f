"""The pool of contexts: what triggered becomes a context, bounded, the same for any number of workers."""

import json

from corpus.case import Case, Remark
from generators.feedback import BLOCK, NOTHING, CoverageSnapshot, FeedbackSchedule
from generators.fuzz import NO_PATTERNS, Fired, judge_cases, lesson_of
from generators.language.profile import UNLIMITED
from generators.mixture import DrawnCase, Plan, make_tests
from generators.mutations.modes import Mode
from generators.patterns import DEEPEST, bred_of, further_nodes, seeds_of
from generators.pools import Bred, Pool, Trial
from generators.strategies import find_taught
from generators.tir.breeding import breed
from generators.tir.programs import make_program
from oracles.verdict import Outcome, Phase, Verdict

KIND = "high_order"
PASS = Verdict(Outcome.PASS, Phase.COMPARE, "")


def pool_of(*chains: tuple[int, ...]) -> Pool:
    trials = [
        Trial(
            str(chain[-1]), Bred(made_of=json.dumps(chain), kind=KIND), (f"effect {at}",), json.dumps(chain)
        )
        for at, chain in enumerate(chains)
    ]
    return Pool().after(trials)


def test_where_nothing_is_known_programs_are_of_the_first_order():
    assert bred_of(7, Pool(), KIND) == Bred(made_of="[7]", kind=KIND)


def test_a_program_goes_on_from_a_context_and_is_made_of_its_seeds():
    pool = pool_of((1,), (2, 3))
    found = [bred_of(seed, pool, KIND) for seed in range(200)]
    assert {each.parent for each in found} == {"", "1", "3"}
    assert {seeds_of(each)[:-1] for each in found} == {(), (1,), (2, 3)}
    deepest = bred_of(9, pool_of(tuple(range(DEEPEST + 3))), KIND)
    assert len(seeds_of(deepest)) <= DEEPEST


def test_one_context_more_changes_only_the_seeds_that_it_wins():
    few, more = pool_of((1,), (2,), (3,)), pool_of((1,), (2,), (3,), (4,))
    for seed in range(200):
        assert bred_of(seed, more, KIND).parent in (bred_of(seed, few, KIND).parent, "4")


def test_strategies_that_share_a_campaigns_pool_go_on_from_their_own_entries_alone():
    grown = Trial("1", Bred(made_of="[1]", kind=KIND), ("a",), "[1]")
    loops = Trial("2", Bred(kind="tir"), ("b",), make_program(2, 4).as_case(2).program.decode())
    pool = Pool().after([grown, loops])
    assert {bred_of(seed, pool, "relax_high_order").parent for seed in range(20)} == {""}
    assert {bred_of(seed, pool, KIND).parent for seed in range(20)} == {"", "1"}
    assert {breed(seed, 4, pool).bred.parent for seed in range(20)} == {"", "2"}


def test_programs_of_higher_order_hold_more_patterns_and_follow_from_their_seeds():
    taught = find_taught("high_order")
    assert taught is not None
    lesson = CoverageSnapshot(pool=pool_of((1,), (2,), (3,)))
    first, again = (list(taught(range(50, 62), 10, lesson, UNLIMITED)) for _ in range(2))
    assert [each.model for each in first] == [each.model for each in again]  # type: ignore[union-attr]
    orders = [len(seeds_of(each.bred)) for each in first]  # type: ignore[union-attr, arg-type]
    assert set(orders) == {1, 2}
    larger = [len(each.model.graph.node) for each, order in zip(first, orders, strict=True) if order == 2]  # type: ignore[union-attr]
    assert max(larger) > 10 + further_nodes(10) // 2


def campaign(blocks: int, order: list[int]) -> list[str]:
    """The ids of all cases where blocks end in another order than they began, as with several workers."""
    plan = Plan("high_order", Mode.STRICT, nodes=6, sequences=False)
    course, ids = FeedbackSchedule(), dict[int, list[str]]()

    def fired(case: Case) -> Fired:
        names = case.remarks(Remark.PATTERN)
        return Fired(len(names), len(names), frozenset(names)) if names else NO_PATTERNS

    waiting: list[tuple[int, CoverageSnapshot]] = []
    for block in range(blocks):
        lesson = course.lesson(block)
        while lesson is None:
            course.add(*waiting.pop(order[block] % len(waiting)))
            lesson = course.lesson(block)
        drawn: list[DrawnCase] = list(make_tests(plan, range(block * BLOCK, (block + 1) * BLOCK), lesson))
        ids[block] = [each.case.case_id for each in drawn]
        tests = list(judge_cases(drawn, lambda case, thorough: PASS, 60, fired=fired, known=lesson.pool.seen))
        waiting.append((block, lesson_of(tests)))
        if order[block] % 2:
            while waiting:
                course.add(*waiting.pop())
    return [each for block in sorted(ids) for each in ids[block]]


def test_a_campaign_makes_the_same_programs_whenever_its_blocks_end():
    eager, lazy = campaign(4, [1, 1, 1, 1]), campaign(4, [0, 0, 0, 0])
    assert eager == lazy
    plain = campaign(1, [1])
    assert eager[: len(plain)] == plain
    assert NOTHING.pool.entries == ()
