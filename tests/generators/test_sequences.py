"""Sequences of passes: valid, the same from the same seed, and mutated from those before."""

from collections import Counter
from statistics import median

from corpus.case import Case
from generators.language.values import RandomSource
from generators.mixture import Plan, make_cases
from generators.sequences import LONGEST, MUTATIONS, draw_sequence, sequences
from oracles.backends import find_backend

PASSES = find_backend("tvm").sequences


def drawn(count: int = 1600) -> list[tuple[str, ...]]:
    return [each for first in range(0, count, 16) for each in sequences(range(first, first + 16), "tvm")]


def test_every_sequence_is_one_that_the_backend_can_run():
    found = [each for each in drawn() if each]
    assert 600 < len(found) < 1000
    assert not [each for each in found if PASSES.misplaced(each, PASSES.facts_of("onnx", b""))]
    assert max(map(len, found)) <= 3 * LONGEST


def test_the_same_seeds_give_the_same_sequences():
    assert drawn() == drawn()


def test_every_pass_is_drawn():
    counts = Counter(name for each in drawn(4800) for name in each)
    assert set(counts) == set(PASSES.names)
    seldom = [counts[name] for name in PASSES.seldom]
    others = [counts[name] for name in counts.keys() - PASSES.seldom]
    assert 2 * median(seldom) < median(others)


def test_each_mutation_makes_something_else():
    assert PASSES is not None
    for mutate in MUTATIONS:
        draws = RandomSource(mutate.__name__)
        pairs = [(draw_sequence(draws, PASSES), draw_sequence(draws, PASSES)) for _ in range(20)]
        mutants = [mutate(draws, PASSES, one, other) for one, other in pairs]
        assert sum(mutant != one for mutant, (one, _) in zip(mutants, pairs, strict=True)) > 10


def cases(plan: Plan, seeds: range) -> list[Case]:
    return list(make_cases(plan, seeds))


def test_a_campaign_gives_half_of_its_cases_a_sequence_wherever_it_begins():
    plan = Plan(strategy="random", nodes=3, passes_of="tvm")
    found = cases(plan, range(0, 32))
    assert 8 < sum(bool(case.passes) for case in found) < 24
    assert [case.case_id for case in cases(plan, range(5, 32))] == [case.case_id for case in found[5:]]


def test_a_backend_without_named_passes_gets_none():
    for plan in (Plan("random", passes_of="openvino"), Plan("random", passes_of="tvm", sequences=False)):
        assert not any(case.passes for case in cases(plan, range(0, 8)))


def test_a_fifth_of_the_cases_of_ort_and_inductor_set_options_of_theirs():
    """Inductor compiles a block as one graph, so its cases have the same ones."""
    for name, count in (("ort", 3200), ("inductor", 12800)):
        known = find_backend(name).sequences
        blocks = [sequences(range(first, first + 16), name) for first in range(0, count, 16)]
        found = [each for block in blocks for each in block]
        assert 0.15 < sum(map(bool, found)) / len(found) < 0.25
        assert {member for each in found for member in each} == set(known.names)
        assert not [each for each in found if known.misplaced(each, frozenset())]
        assert all(len({member.partition("=")[0] for member in each}) == len(each) for each in found)
        assert all(len(set(block)) == 1 for block in blocks) == (name == "inductor")


def test_the_five_passes_that_need_more_of_a_module_are_drawn():
    counts = Counter(name.partition(":")[0] for each in drawn(4800) for name in each)
    wanted = ["LiftTransformParams", "ToMixedPrecision", "Gradient", "FuseOpsByPattern", "UpdateVDevice"]
    assert min(counts[name] for name in wanted) >= 5
