"""Programs of TVM's loop IR: sound by construction, sound after every mutation, the same for a seed."""

import pytest

from corpus.errors import UserError
from corpus.tir.program import from_bytes, is_rooted, parse, to_bytes
from corpus.tir.scopes import problems
from corpus.tir.tree import Block, For
from corpus.tir.walk import statements
from generators.language.emit import language_of
from generators.language.profile import Budget
from generators.language.values import RandomSource
from generators.mixture import Plan, make_cases
from generators.strategies.fresh import loops as programs
from generators.tir.mutators import all_mutators
from generators.tir.programs import grown, is_sound, lowered, make_program
from generators.tir.ranged import has_extremes
from oracles.backends import find_backend
from oracles.tir.interpreter import interpret
from oracles.verdict import Outcome
from tests.helpers.wrong_loops import WRONG, noticed

SEEDS = range(60)
PROGRAMS = [make_program(seed, 8) for seed in SEEDS]
BASES = [each.module for each in PROGRAMS]


def test_a_program_is_well_formed_and_defined_throughout():
    for program in PROGRAMS:
        assert problems(program.module) == []
        assert interpret(program.module, program.inputs).is_defined
        assert from_bytes(to_bytes(program.module)) == program.module


def test_most_programs_are_sound_before_anything_is_checked():
    drawn = [grown(RandomSource(f"sound/{seed}"), 8, seed=seed) for seed in range(100)]
    assert sum(is_sound(module, seed) for seed, module in enumerate(drawn)) >= 85


def test_programs_notice_what_compilers_get_wrong_at_the_ends_of_types():
    programs = [make_program(seed, 8) for seed in range(7_000, 7_300)]
    tame = [each for seed, each in enumerate(programs, 7_000) if not has_extremes(seed)]
    found, found_by_tame = (
        set().union(*(noticed(each, WRONG) for each in some)) for some in (programs, tame)
    )
    assert len(found) >= 13
    assert len(found - found_by_tame) >= 2


@pytest.mark.parametrize("mutator", all_mutators(), ids=lambda each: each.name)
def test_a_mutator_changes_programs_and_leaves_most_of_them_sound(mutator):
    made = [
        (seed, mutator.mutate(RandomSource(f"{mutator.name}/{seed}"), each))
        for seed, each in enumerate(BASES)
    ]
    changed = [(seed, found) for seed, found in made if found is not None and found != BASES[seed]]
    assert changed
    assert sum(not problems(found) for _, found in changed) >= 0.7 * len(changed)
    assert sum(is_sound(found, seed) for seed, found in changed) >= 0.5 * len(changed)


def test_the_passes_of_a_program_suit_its_form():
    sequences = find_backend("tvm").sequences
    assert sequences is not None
    assert any(program.passes for program in PROGRAMS)
    for program in PROGRAMS:
        facts = sequences.facts_of("tir", to_bytes(program.module))
        assert sequences.misplaced(program.passes, facts) == ""


def test_programs_come_as_loops_and_as_blocks_with_loops_of_several_kinds():
    assert any(isinstance(stmt, Block) for each in BASES for stmt in statements((each.main,)))
    assert all(is_rooted(each.main) for each in BASES)
    kinds = {stmt.kind for each in BASES for stmt in statements((each.main,)) if isinstance(stmt, For)}
    assert kinds >= {"serial", "unrolled", "parallel"}


def test_a_case_of_a_campaign_keeps_the_passes_of_its_program():
    for seed, case in enumerate(make_cases(Plan("tir", nodes=6, passes_of="tvm"), range(8))):
        assert case.passes == make_program(seed, 6).passes
        assert parse(case.program) == make_program(seed, 6).module


def test_tvm_runs_what_is_made_and_agrees_with_the_interpreter_on_plain_programs(tir_judge):
    outcomes = [tir_judge.verdict(case).outcome for case in make_cases(Plan("tir", nodes=4), range(4))]
    assert Outcome.INVALID not in outcomes
    assert Outcome.UNSUPPORTED not in outcomes


def test_lowered_operators_are_sound_starts_and_some_programs_begin_with_one(tmp_path):
    starts = lowered()
    assert len(starts) >= 30
    assert all(is_sound(each, 1) for each in starts)
    (tmp_path / "one.tir.json").write_bytes(to_bytes(starts[0]))
    made = [each.module for each in programs(range(12), 6, tmp_path)]
    assert all(not problems(each) for each in made)
    assert {each.main.params for each in made} == {starts[0].main.params}
    with pytest.raises(UserError, match=r"holds no \.tir\.json file"):
        list(programs(range(1), 6, tmp_path / "none"))


def test_a_campaign_with_bounds_holds_none_of_these_programs():
    with pytest.raises(UserError, match="bound no TIR programs"):
        next(programs(range(1), 4, None, Budget(dim=3)))
    assert not language_of("tir").keeps_bounds


def test_statements_are_grown_among_buffers_without_dims():
    starts = [each for each in lowered() if any(not buffer.shape for buffer in each.main.buffers)]
    assert starts
    insert = next(each for each in all_mutators() if each.name == "insert a statement")
    made = [insert.mutate(RandomSource(f"scalars/{seed}"), each) for each in starts for seed in range(60)]
    assert all(each is None or not problems(each) for each in made)
