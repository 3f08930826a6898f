"""What a campaign learns: in epochs, so that nobody's speed and no number of workers changes a program."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import generators.fuzz as loop
from corpus.case import Case, Remark
from corpus.formats.onnx import parse
from corpus.onnx.graph import walk_nodes
from generators.feedback import (
    BLOCK,
    LONGEST,
    MANY_REFUSALS,
    NOTHING,
    CoverageSnapshot,
    FeedbackSchedule,
    blocks_before,
    bounded,
    earned,
    epoch_starts,
    together,
)
from generators.fuzz import NO_PATTERNS, Fired, Tester, fuzz, judge_cases, lesson_of
from generators.language.profile import UNLIMITED
from generators.legality import CALLED, NAMED, Legality, blamed
from generators.mixture import PLAN, Plan, make_cases, make_tests
from generators.modes import Mode
from generators.strategies import find_strategy
from oracles.operators import all_operators
from oracles.verdict import Outcome, Phase, Symptom, Verdict
from tests.helpers.campaigns import Remembering

GUIDED = Plan("coverage", Mode.STRICT, nodes=6)
counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9))
lessons = st.builds(CoverageSnapshot, counts, counts, counts, counts, counts, counts)


@given(counts, st.integers(1, 6))
def test_what_is_forgotten_is_what_came_least_often(covered, most):
    lesson = CoverageSnapshot(covered)
    kept = bounded(lesson, most).covered
    assert len(kept) <= max(most, 0)
    assert all(covered[key] == times for key, times in kept.items())
    gone = covered.keys() - kept.keys()
    assert not gone or len(covered) > most
    assert all(covered[key] <= times for key in gone for times in kept.values())
    assert bounded(CoverageSnapshot(dict(reversed(covered.items()))), most).covered == kept


def passing(case: Case, thorough: bool) -> Verdict:
    return Verdict(Outcome.PASS, Phase.EXECUTE, "fine")


def fired(case: Case) -> Fired:
    names = case.remarks(Remark.PATTERN)
    return Fired(len(names), len(names), frozenset(names)) if names else NO_PATTERNS


def worker_of(plan: Plan) -> Tester:
    return lambda seeds, seconds, lesson: list(
        judge_cases(make_tests(plan, seeds, lesson), passing, seconds, fired=fired)
    )


def score(tests: Sequence[loop.Tested]) -> int:
    """Distinct pieces of coverage, as HirFuzz counts them."""
    return sum(":" in key or ">" in key for key in Counter(key for each in tests for key in each.covered))


@pytest.mark.parametrize("strategy", ["coverage", "high_order"])
def test_any_number_of_workers_makes_the_same_programs(strategy):
    worker = worker_of(Plan(strategy, Mode.STRICT, nodes=6))
    one, four = (
        [each.case_id for each in fuzz([worker] * workers, tests=6 * BLOCK, teacher=Remembering())]
        for workers in (1, 4)
    )
    assert one == four


def test_a_campaign_that_learns_covers_more_than_one_that_forgets():
    worker = worker_of(GUIDED)
    learning = list(fuzz([worker], tests=24 * BLOCK, teacher=Remembering()))
    forgetting = list(fuzz([worker], tests=24 * BLOCK))
    assert score(learning) > 1.05 * score(forgetting)


@given(st.integers(0, 20_000))
def test_a_block_draws_from_all_epochs_but_its_own_and_the_one_before(block):
    starts = []
    for start in epoch_starts():
        starts.append(start)
        if start > block:
            break
    own = len(starts) - 2
    assert blocks_before(block) == (starts[own - 1] if own else 0)
    assert starts[own + 1] - starts[own] <= LONGEST


@given(st.lists(lessons, max_size=6), st.randoms())
def test_in_which_order_lessons_are_put_together_does_not_matter(found, random):
    mixed = list(found)
    random.shuffle(mixed)
    assert together(found) == together(mixed)


@given(st.lists(lessons, min_size=3, max_size=40))
def test_a_course_that_goes_on_from_what_was_folded_gives_the_same_lessons(found):
    whole, half = FeedbackSchedule(), len(found) // 2
    for block, lesson in enumerate(found):
        whole.add(block, lesson)
        if block == half:
            whole.lesson(block)
            kept = FeedbackSchedule(whole.folded, whole.blocks)
            for each in range(whole.blocks, half + 1):
                kept.add(each, found[each])
        if block > half:
            kept.add(block, lesson)
    assert kept.lesson(len(found)) == whole.lesson(len(found))


def test_a_symptom_that_all_arms_meet_earns_none_of_them_much():
    alone = CoverageSnapshot(found={"a|x\tone": 5})
    together = CoverageSnapshot(found={"a|x\tone": 5, "b|x\tone": 5})
    assert earned(alone) == {"a|x": 1.0}
    assert earned(together) == {"a|x": 0.5, "b|x": 0.5}


def lesson_of_failures(plan: Plan, seeds: range, name: str) -> CoverageSnapshot:
    """The lesson if the programs with an operator or a pass fail, all in one way, and no others."""
    known = Symptom(Outcome.CRASH, Phase.IMPORT, "SIGSEGV")
    failing = Verdict(Outcome.CRASH, Phase.IMPORT, "died", symptom=known)
    tests = judge_cases(make_tests(plan, seeds, NOTHING), passing, 600)
    return lesson_of(
        [replace(each, verdict=failing) if name in {*each.covered, *each.passes} else each for each in tests]
    )


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        (Plan("random", nodes=4, sequences=False), "Softmax"),
        (Plan("random", nodes=2, passes_of="tvm"), "ToNonDataflow"),
    ],
)
def test_what_leads_to_known_failures_alone_is_drawn_less_and_not_forbidden(plan, name):
    seeds = range(40 * BLOCK)
    lesson = lesson_of_failures(plan, seeds, name)
    assert name in lesson.worn
    assert len(lesson.worn) <= 2  # what every one of its programs holds is as much to blame
    usual, spared = (
        sum(name in {*each.covered, *each.case.passes} for each in make_tests(plan, seeds, given))
        for given in (NOTHING, lesson)
    )
    assert 0 < spared < usual / 2


# What a campaign tests is made of what the target has


def operators(program: bytes) -> set[str]:
    return {node.op_type for node in walk_nodes(parse(program).graph)} - {"Constant"}


def test_a_mixture_for_a_small_table_holds_hardly_anything_else():
    table = frozenset(
        {
            *("Add", "Mul", "Relu", "Cast", "Abs", "Neg", "Transpose", "Reshape", "Identity", "Concat"),
            *("Sub", "Div", "Max", "Min", "Sqrt", "Exp", "Gemm", "MatMul", "Where", "Clip", "Slice", "Pad"),
        }
    )
    cases = list(make_cases(replace(PLAN, legality=Legality(table), nodes=2), range(200)))
    fit = sum(operators(case.program) <= table for case in cases)
    free = sum(operators(case.program) <= table for case in make_cases(replace(PLAN, nodes=2), range(200)))
    assert fit > 1.5 * free
    assert fit > 100


def test_a_function_of_the_model_needs_a_target_that_takes_such():
    (program,) = find_strategy("functions")(range(1), 5, None, UNLIMITED)
    names = {node.op_type for node in walk_nodes(program.model.graph)}  # type: ignore[union-attr]
    inside = {node.op_type for one in program.model.functions for node in one.node}  # type: ignore[union-attr]
    assert not Legality(frozenset(names | inside)).allows(program)
    assert Legality(frozenset(names | inside | {CALLED})).allows(program)


def test_a_refusal_counts_against_the_operator_that_it_names():
    forms = ("Add(1,1->1)", "com.microsoft.Gelu(1->1)")
    assert blamed(forms, "operators are not supported: Gelu") == {forms[1]: NAMED}
    assert blamed(forms, "no reason") == {forms[0]: 1, forms[1]: 1}


def test_what_was_refused_often_and_never_ran_is_left_out_from_then_on():
    legality = Legality(frozenset(each.name for each in all_operators()))
    plan = Plan("random", nodes=4, legality=legality, sequences=False)
    drawn = next(each for each in make_tests(plan, range(64), NOTHING) if each.forms)
    (name, *_) = drawn.forms
    operator = name.partition("(")[0]
    refusal = Verdict(Outcome.UNSUPPORTED, Phase.IMPORT, f"not supported: {operator}")
    tests = [loop.Tested(seed, "", refusal, forms=(name,)) for seed in range(MANY_REFUSALS)]
    lesson = lesson_of(tests)
    assert name in lesson.refusals
    again = next(each for each in make_tests(plan, range(drawn.seed, drawn.seed + 1), lesson))
    assert name not in again.forms
