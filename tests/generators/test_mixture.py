"""What a campaign tests: the same case for a seed, whoever makes it and wherever a run begins."""

import os
import sys
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from generators.feedback import BLOCK, NOTHING, CoverageSnapshot
from generators.growth.grow import Program, grow
from generators.language.values import RandomSource
from generators.mixture import MIXED, Plan, _turn, make_cases, make_tests
from generators.modes import Mode, endanger
from generators.sequences import LONGEST, sequences
from generators.strategies import strategies
from oracles.backends import find_backend
from oracles.verdict import AGREEMENT, REFUSAL, SURVIVAL
from tests.helpers.commands import completed


def ids(seeds: range, plan: Plan) -> list[str]:
    return [case.case_id for case in make_cases(plan, seeds)]


@pytest.mark.parametrize("strategy", ["mixed", *(name for name in strategies() if name != "smt")])
def test_a_seed_gives_the_same_case_wherever_a_run_begins(strategy):
    plan = Plan(strategy, nodes=6)
    whole = ids(range(2 * BLOCK), plan)
    assert len(set(whole)) == len(whole)
    assert ids(range(BLOCK + 3, 2 * BLOCK - 1), plan) == whole[BLOCK + 3 : -1]
    assert ids(range(BLOCK - 2, BLOCK + 2), plan) == whole[BLOCK - 2 : BLOCK + 2]


def test_a_seed_gives_the_same_case_however_python_hashes_its_strings():
    script = """
from generators.mixture import Plan, make_cases
for strategy, count in (("mixed", 64), ("patterns", 64), ("aten", 64), ("tir", 24)):
    print(*(case.case_id for case in make_cases(Plan(strategy), range(320, 320 + count))))
"""
    told = {
        completed(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(told) == 1


def test_a_mixture_holds_every_strategy_and_every_mode():
    drawn, modes = Counter[str](), Counter[str]()
    for case in make_cases(Plan(nodes=4), range(60 * BLOCK)):
        drawn[case.notes[0].removeprefix("strategy: ")] += 1
        modes[case.settings] += 1
    apart = {"aten", "high_order", "relax", "relax_high_order", "relax_mutate", "relax_patterns"}
    assert set(drawn) - {"smt"} == set(strategies()) - apart - {"smt", "tir"}
    assert modes[()] + modes[(AGREEMENT,)] > 0.6 * modes.total()
    assert min(modes[(REFUSAL,)], modes[(SURVIVAL,)]) > 0.02 * modes.total()


def test_a_solver_gets_some_blocks_and_moves_no_other_program(monkeypatch):
    pytest.importorskip("z3", reason="z3 is not installed")
    plan, seeds = Plan(nodes=4, mode=Mode.STRICT), range(1000 * BLOCK)
    told = {}
    for is_there in (True, False):
        monkeypatch.setattr("generators.mixture.has_solver", lambda is_there=is_there: is_there)
        turns = {first: _turn(plan, range(first, first + BLOCK), NOTHING) for first in seeds[::BLOCK]}
        told[is_there] = {first: turn.strategy for first, turn in turns.items()}
    solved = [first for first, strategy in told[True].items() if strategy == "smt"]
    assert 0 < len(solved) < 20
    assert all(told[True][first] == told[False][first] for first in told[True] if first not in solved)


def test_a_mode_of_its_own_is_what_every_program_is_in():
    broken = list(make_cases(Plan("random", Mode.DISRUPTIVE, 8), range(60)))
    assert sum(REFUSAL in case.settings for case in broken) >= 55
    endangered = list(make_cases(Plan("random", Mode.VULNERABLE, 8), range(60)))
    assert sum(SURVIVAL in case.settings for case in endangered) >= 55
    mutants = make_cases(Plan("mutate", Mode.STRICT, 8), range(20))
    assert all(case.settings == (AGREEMENT,) for case in mutants)
    assert all(case.settings == () for case in make_cases(Plan("random", Mode.STRICT, 8), range(60)))


def parts_of(program: Program) -> dict[str, object]:
    """Every node, initializer and input of a program."""
    graph = program.model.graph
    found: dict[str, object] = {f"node {at}": str(node) for at, node in enumerate(graph.node)}
    found |= {each.name: str(each) for each in graph.initializer}
    return found | {
        name: (value.shape, str(value.tolist()))
        for name, value in program.inputs.items()
        if isinstance(value, np.ndarray)
    }


def test_a_hazard_changes_one_thing_and_nothing_else():
    kinds: Counter[str] = Counter()
    for seed in range(200):
        before = grow(seed, 6)
        found = endanger(RandomSource(f"hazard/{seed}"), before)
        if found is None:
            continue
        (after, what), old = found, parts_of(before)
        new = parts_of(after)
        assert old.keys() == new.keys()
        assert sum(old[name] != new[name] for name in old) <= 1, what
        kinds.update(word for word in ("attribute", "left out", ", not ", " holds ") if word in what)
    assert min(kinds[word] for word in ("attribute", "left out", ", not ", " holds ")) > 8, kinds


def test_a_given_sequence_is_that_of_every_case():
    given = ("LegalizeOps", "tirx.UnrollLoop")
    plan = Plan("random", nodes=3, passes_of="tvm", given=given)
    assert {case.passes for case in make_cases(plan, range(8))} == {given}


def test_a_mixture_is_not_guided_by_what_the_campaign_has_met_and_a_campaign_of_coverage_is():
    """Guided by it a campaign meets fewer symptoms."""
    seeds = range(640)
    mixed = Plan(MIXED, Mode.STRICT)
    drawn = [each for each in make_tests(mixed, seeds, CoverageSnapshot()) if each.arm.startswith("coverage")]
    met = CoverageSnapshot(covered=Counter(chain.from_iterable(each.covered for each in drawn)))
    again = [each for each in make_tests(mixed, seeds, met) if each.arm.startswith("coverage")]
    assert drawn
    assert [each.case.case_id for each in again] == [each.case.case_id for each in drawn]
    alone = Plan("coverage", Mode.STRICT)
    first, second = (list(make_tests(alone, range(16), lesson)) for lesson in (CoverageSnapshot(), met))
    assert [each.case.case_id for each in first] != [each.case.case_id for each in second]


# Sequences of passes: valid, and mutated from those before

PASSES = find_backend("tvm").sequences


def drawn(count: int = 1600) -> list[tuple[str, ...]]:
    return [each for first in range(0, count, 16) for each in sequences(range(first, first + 16), "tvm")]


def test_every_sequence_is_one_that_the_backend_can_run():
    found = [each for each in drawn() if each]
    assert 600 < len(found) < 1000
    assert not [each for each in found if PASSES.misplaced(each, PASSES.facts_of("onnx", b""))]
    assert max(map(len, found)) <= 3 * LONGEST


def test_every_pass_is_drawn():
    counts = Counter(name for each in drawn(4800) for name in each)
    assert set(counts) == set(PASSES.names)
    seldom = [counts[name] for name in PASSES.seldom]
    others = [counts[name] for name in counts.keys() - PASSES.seldom]
    assert 2 * median(seldom) < median(others)


def test_a_campaign_gives_half_of_its_cases_a_sequence_wherever_it_begins():
    plan = Plan(strategy="random", nodes=3, passes_of="tvm")
    found = list(make_cases(plan, range(32)))
    assert 8 < sum(bool(case.passes) for case in found) < 24
    assert ids(range(5, 32), plan) == [case.case_id for case in found[5:]]
    plan = replace(plan, sequences=False)
    assert not any(case.passes for case in make_cases(plan, range(8)))


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
