"""The pool of programs of loops: what Algorithm 1 of Tzer keeps, and that seeds alone decide."""

import json
from dataclasses import replace
from functools import cache

import pytest

from corpus.tir.program import parse
from corpus.tir.scopes import problems
from generators.feedback import CoverageSnapshot
from generators.language.profile import UNLIMITED
from generators.mixture import MIXED, Plan, make_tests
from generators.patterns import DEEPEST, bred_of, further_nodes, seeds_of
from generators.pools import EMPTY, FRESH, MOST_ENTRIES, PASSES, PROGRAM, Bred, Entry, Pool, Trial, trial_of
from generators.strategies import find_taught
from generators.tir.breeding import N_MAX, breed
from generators.tir.programs import TirProgram, make_program
from oracles.backends import find_backend


def entry(key: str, seed: int, idle: int = 0) -> Entry:
    made = make_program(seed, 5).as_case(seed)
    return Entry(key, made.program.decode(), made.passes, idle, kind="tir")


POOL = Pool((entry("1", 1), entry("2", 2)), frozenset({"a"}))


@cache
def bred_from(seed: int, pool: Pool) -> TirProgram:
    return breed(seed, 6, pool)


@pytest.mark.parametrize(("strategy", "breeds"), [(MIXED, False), ("tir", True)])
def test_a_mixture_breeds_no_loops_and_a_campaign_of_loops_does(strategy, breeds):
    """Bred ones meet fewer symptoms in the same time."""
    plan = Plan(strategy, passes_of="tvm", beside={"tir": {"tir": 1.0}})
    tests = make_tests(plan, range(80), CoverageSnapshot(pool=POOL))
    drawn = [each for each in tests if each.arm.startswith("tir")]
    assert drawn
    assert any(each.bred and each.bred.parent for each in drawn) is breeds


@pytest.mark.parametrize(
    ("trial", "keys", "idle", "passes"),
    [
        (Trial("9", Bred("1", PROGRAM), ("b",), "{}"), ["1", "2", "9"], 0, None),
        (Trial("9", Bred("1", PROGRAM), ("a",), "{}"), ["1", "2"], 1, None),
        (Trial("9", Bred("1", PASSES), ("b",), "{}", ("P",)), ["1", "2"], 0, ("P",)),
        (Trial("9", Bred("1", PASSES), (), "", ("P",)), ["1", "2"], 0, None),
        (Trial("9", Bred("1", PROGRAM), ("b",), "{}", failed=True), ["1", "2"], 0, None),
        (Trial("9", Bred("", FRESH), ("b",), "{}"), ["1", "2", "9"], 0, None),
    ],
    ids=["new code stays", "no new code", "passes that meet code", "passes that do not", "a bug", "fresh"],
)
def test_what_a_trial_changes(trial, keys, idle, passes):
    after = POOL.after([trial])
    assert [each.key for each in after.entries] == keys
    assert after.entries[0].idle == idle
    assert after.entries[0].passes == (POOL.entries[0].passes if passes is None else passes)


def test_the_oldest_go_where_a_pool_is_full():
    trials = [Trial(str(key), Bred(), (str(key),), "{}") for key in range(10, 10 + MOST_ENTRIES + 5)]
    assert [int(each.key) for each in EMPTY.after(trials).entries] == list(range(15, 15 + MOST_ENTRIES))


def test_a_program_is_kept_only_with_news():
    assert trial_of("3", Bred(), {"a", "b"}, {"a"}, "text", ()).program == "text"
    assert trial_of("3", Bred(), {"a"}, {"a"}, "text", ()) == Trial("3", Bred())


def test_lessons_are_kept_as_json():
    lesson = CoverageSnapshot(
        {"Relu": 1}, pool=POOL, trials=(Trial("3", Bred("1", PASSES), ("b",), "{}", ("P",)),)
    )
    assert CoverageSnapshot.of(lesson.document()) == lesson
    assert lesson.folded().pool == POOL.after(lesson.trials)


@pytest.mark.parametrize("idle", [0, N_MAX])
def test_passes_change_when_the_program_has_idled(idle):
    pool = Pool(tuple(replace(each, idle=idle) for each in POOL.entries))
    made = [bred_from(seed, pool) for seed in range(60)]
    changed = {each.bred.changed for each in made if each.bred.parent}
    assert changed == {PASSES if idle else PROGRAM}


@pytest.mark.parametrize("pool", [POOL, EMPTY], ids=["from a pool", "from none"])
def test_what_is_bred_is_well_formed_and_its_passes_fit(pool):
    sequences = find_backend("tvm").sequences
    assert sequences is not None
    for seed in range(40):
        made = bred_from(seed, pool)
        case = made.as_case(seed)
        assert problems(parse(case.program)) == []
        assert not sequences.misplaced(made.passes, sequences.facts_of("tir", case.program))
        assert breed(seed, 6, pool).as_case(seed) == case


# Contexts: what triggered becomes one, bounded, the same for any number of workers

KIND = "high_order"


def pool_of(*chains: tuple[int, ...]) -> Pool:
    texts = {str(chain[-1]): json.dumps(chain) for chain in chains}
    return Pool().after(
        [Trial(key, Bred(made_of=text, kind=KIND), (f"effect {key}",), text) for key, text in texts.items()]
    )


def test_where_nothing_is_known_programs_are_of_the_first_order():
    assert bred_of(7, Pool(), KIND) == Bred(made_of="[7]", kind=KIND)


def test_a_program_goes_on_from_a_context_and_is_made_of_its_seeds():
    pool = pool_of((1,), (2, 3))
    found = [bred_of(seed, pool, KIND) for seed in range(200)]
    assert {each.parent for each in found} == {"", "1", "3"}
    deepest = bred_of(9, pool_of(tuple(range(DEEPEST + 3))), KIND)
    assert len(seeds_of(deepest)) <= DEEPEST


def test_strategies_that_share_a_campaigns_pool_go_on_from_their_own_entries_alone():
    grown = Trial("1", Bred(made_of="[1]", kind=KIND), ("a",), "[1]")
    loops = Trial("2", Bred(kind="tir"), ("b",), make_program(2, 4).as_case(2).program.decode())
    pool = Pool().after([grown, loops])
    assert {bred_of(seed, pool, "relax_high_order").parent for seed in range(20)} == {""}
    assert {bred_of(seed, pool, KIND).parent for seed in range(20)} == {"", "1"}
    assert {breed(seed, 4, pool).bred.parent for seed in range(20)} == {"", "2"}


def test_programs_of_higher_order_are_larger():
    taught = find_taught("high_order")
    assert taught is not None
    lesson = CoverageSnapshot(pool=pool_of((1,), (2,), (3,)))
    first = list(taught(range(50, 62), 10, lesson, UNLIMITED))
    orders = [len(seeds_of(each.bred)) for each in first]  # type: ignore[union-attr, arg-type]
    assert set(orders) == {1, 2}
    larger = [len(each.model.graph.node) for each, order in zip(first, orders, strict=True) if order == 2]  # type: ignore[union-attr]
    assert max(larger) > 10 + further_nodes(10) // 2
