"""What a campaign tests: the same case for a seed, whoever makes it and wherever a run begins."""

import os
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.errors import UserError
from generators.feedback import BLOCK, NOTHING, CoverageSnapshot
from generators.growth.grow import grow
from generators.language.profile import Budget
from generators.language.values import RandomSource
from generators.mixture import MIXED, Plan, _turn, make_cases, make_tests
from generators.mutations.lists import change_list
from generators.mutations.modes import Mode, endanger
from generators.sequences import LONGEST, MUTATIONS, draw_sequence, sequences
from generators.strategies import strategies
from oracles.backends import find_backend
from oracles.verdict import AGREEMENT, REFUSAL, SURVIVAL
from tests.helpers.commands import completed
from triage.console import program_options as making
from triage.console.program_options import plan_of


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
    drawn: Counter[str] = Counter()
    modes: Counter[str] = Counter()
    for case in make_cases(Plan(nodes=4), range(60 * BLOCK)):
        drawn[case.notes[0].removeprefix("strategy: ")] += 1
        modes[
            "refusal" if REFUSAL in case.settings else "survival" if SURVIVAL in case.settings else "none"
        ] += 1
    apart = {
        "aten",
        "high_order",
        "relax",
        "relax_high_order",
        "relax_mutate",
        "relax_patterns",
        "smt",
        "tir",
    }
    assert set(drawn) - {"smt"} == set(strategies()) - apart
    assert modes["none"] > 0.6 * modes.total()
    assert min(modes["refusal"], modes["survival"]) > 0.02 * modes.total()


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


def tensors(case: Case) -> dict[str, np.ndarray]:
    model = onnx.ModelProto.FromString(case.program)
    named = {each.name: each for each in model.graph.initializer}
    named |= {node.output[0]: node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"}
    found = {name: onnx.numpy_helper.to_array(tensor) for name, tensor in named.items()}
    found |= {name: value for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
    return {name: each.astype(np.str_) if each.dtype.kind == "O" else each for name, each in found.items()}


def test_a_hazard_changes_one_thing_and_nothing_else():
    kinds: Counter[str] = Counter()
    for seed in range(200):
        before = grow(seed, 6)
        found = endanger(RandomSource(f"hazard/{seed}"), before)
        if found is None:
            continue
        after, what = found
        old, new = (
            tensors(Case("onnx", each.model.SerializeToString(), dict(each.inputs)))
            for each in (before, after)
        )
        pairs = list(zip(before.model.graph.node, after.model.graph.node, strict=True))
        content = {name for name in old if old[name].tobytes() != new[name].tobytes()}
        shaped = {name for name in old if old[name].shape != new[name].shape}
        attributes = [a for a, b in pairs if a.op_type != "Constant" and a.attribute != b.attribute]
        wired = [a for a, b in pairs if a.input != b.input]
        assert all(a.op_type == b.op_type for a, b in pairs)
        assert len(content | shaped) + len(attributes) + len(wired) <= 1
        for kind, changed in (("attribute", attributes), ("left out", wired), (", not ", shaped)):
            assert (kind in what) or not changed
            kinds[kind] += bool(changed)
        kinds["value"] += bool(content - shaped)
    assert min(kinds[kind] for kind in ("attribute", "left out", ", not ", "value")) > 8


def test_an_unknown_strategy_is_the_users_mistake():
    with pytest.raises(UserError, match="--strategy nothing"):
        plan_of(making.Growth("nothing"), False)
    growth = making.Growth("coverage", making.Mode.STRICT, Path("x"))
    assert plan_of(growth, False, making.Bounds(max_dim=3)) == Plan(
        "coverage", Mode.STRICT, None, Path("x"), budget=Budget(dim=3)
    )


def test_programs_of_a_campaign_keep_to_its_budget():
    plan = Plan(mode=Mode.STRICT, nodes=5, budget=Budget(dim=4))
    for case in make_cases(plan, range(4 * BLOCK)):
        assert all(max(np.shape(value), default=0) <= 4 for value in case.inputs.values()), case.origin


def test_a_given_sequence_is_that_of_every_case():
    given = ("LegalizeOps", "tirx.UnrollLoop")
    plan = Plan("random", nodes=3, passes_of="tvm", given=given)
    assert {case.passes for case in make_cases(plan, range(8))} == {given}
    drawn = {case.passes for case in make_cases(Plan("random", nodes=3, passes_of="tvm"), range(8))}
    assert len(drawn) > 1


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


def test_a_changed_list_is_one_attribute_of_another_length_or_with_one_other_element():
    words, tensor = ["a", "b", "c"], onnx.numpy_helper.from_array(np.array([5, 6, 7], np.uint8))
    lists = {"ids": [4, 5, 6], "weights": [0.5, 1.5, 2.5], "words": words, "modes": tensor}
    lengths: Counter[int] = Counter()
    own = False
    for seed in range(400):
        before = onnx.helper.make_node("Trees", ["x"], ["y"], domain="ai.onnx.ml", single=1, **lists)
        after = onnx.NodeProto()
        after.CopyFrom(before)
        what = change_list(RandomSource(f"list/{seed}"), after)
        changed = [new for old, new in zip(before.attribute, after.attribute, strict=True) if old != new]
        assert what is not None
        assert {each.name for each in changed} <= {what.split()[1]}
        for each in changed:
            found = onnx.helper.get_attribute_value(each)
            items = onnx.numpy_helper.to_array(found).tolist() if each.name == "modes" else list(found)
            lengths[len(items)] += 1
            own |= each.name == "ids" and len(items) == 3 and any(at == item for at, item in enumerate(items))
    assert min(lengths[length] for length in (0, 2, 3, 4)) > 5
    assert own


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
