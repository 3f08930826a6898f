"""Programs of TVM's loop IR: sound by construction, sound after every mutation, the same for a seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus.errors import UserError
from corpus.target import Target
from corpus.tir.document import from_bytes, to_bytes
from corpus.tir.program import is_rooted, make_inputs, parse
from corpus.tir.scopes import problems
from corpus.tir.tree import Block, For, Module, Store
from corpus.tir.walk import statements
from generators.language.draws import Draws
from generators.mixture import Plan, make_cases
from generators.strategies.tir import programs
from generators.tir.lowered import lowered
from generators.tir.mutators import Mutator, all_mutators
from generators.tir.programs import grown, is_sound, make_program
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.tir.interpreter import interpret
from oracles.verdict import Outcome

SEEDS = range(60)
BASES = [make_program(seed, 8).module for seed in range(30)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_is_well_formed_and_defined_throughout(seed: int) -> None:
    program = make_program(seed, 8)
    assert problems(program.module) == []
    assert interpret(program.module, program.inputs).is_defined
    assert from_bytes(to_bytes(program.module)) == program.module


def test_most_programs_are_sound_before_anything_is_checked() -> None:
    drawn = [grown(Draws(f"sound/{seed}"), 8) for seed in range(100)]
    assert sum(is_sound(module, seed) for seed, module in enumerate(drawn)) >= 85


@pytest.mark.parametrize("mutator", all_mutators(), ids=lambda each: each.NAME)
def test_a_mutator_changes_programs_and_leaves_most_of_them_sound(mutator: Mutator) -> None:
    made = [(seed, mutator.mutate(Draws(f"{mutator.NAME}/{seed}"), each)) for seed, each in enumerate(BASES)]
    changed = [(seed, found) for seed, found in made if found is not None and found != BASES[seed]]
    assert changed
    assert sum(not problems(found) for _, found in changed) >= 0.7 * len(changed)
    assert sum(is_sound(found, seed) for seed, found in changed) >= 0.5 * len(changed)


def test_the_passes_of_a_program_suit_its_form() -> None:
    sequences = find_backend("tvm").sequences
    assert sequences is not None
    made = [make_program(seed, 6) for seed in SEEDS]
    assert any(program.passes for program in made)
    for program in made:
        facts = sequences.facts_of("tir", to_bytes(program.module))
        assert sequences.misplaced(program.passes, facts) == ""


def test_programs_come_as_loops_and_as_blocks_with_loops_of_several_kinds() -> None:
    modules = [make_program(seed, 10).module for seed in range(240)]
    assert any(isinstance(stmt, Block) for each in modules for stmt in statements((each.main,)))
    assert all(is_rooted(each.main) for each in modules)
    kinds = {stmt.kind for each in modules for stmt in statements((each.main,)) if isinstance(stmt, For)}
    assert kinds >= {"serial", "unrolled", "vectorized", "parallel"}


def test_a_seed_gives_the_same_case_however_python_hashes_its_strings() -> None:
    script = """
from generators.mixture import Plan, make_cases
print(*(case.case_id for case in make_cases(Plan("tir", nodes=6), range(24))))
"""
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(told) == 1


def test_a_case_of_a_campaign_keeps_the_passes_of_its_program() -> None:
    for seed, case in enumerate(make_cases(Plan("tir", nodes=6, passes_of="tvm"), range(8))):
        assert case.passes == make_program(seed, 6).passes
        assert parse(case.program) == make_program(seed, 6).module


def test_tvm_runs_what_is_made_and_agrees_with_the_interpreter_on_plain_programs() -> None:
    with Judge(Target("tvm"), format="tir") as judge:
        outcomes = [judge.verdict(case).outcome for case in make_cases(Plan("tir", nodes=4), range(4))]
    assert Outcome.INVALID not in outcomes
    assert Outcome.UNSUPPORTED not in outcomes


def test_a_program_stores_something() -> None:
    stored = [any(isinstance(stmt, Store) for stmt in statements((each.main,))) for each in BASES]
    assert all(stored)
    assert all(isinstance(each, Module) and make_inputs(each, 1) for each in BASES)


def test_lowered_operators_are_sound_starts_and_some_programs_begin_with_one(tmp_path: Path) -> None:
    starts = lowered()
    assert len(starts) >= 30
    assert all(is_sound(each, 1) for each in starts)
    (tmp_path / "one.tir.json").write_bytes(to_bytes(starts[0]))
    made = [each.module for each in programs(range(12), 6, tmp_path)]
    assert all(not problems(each) for each in made)
    assert {each.main.params for each in made} == {starts[0].main.params}
    with pytest.raises(UserError, match=r"holds no \.tir\.json file"):
        list(programs(range(1), 6, tmp_path / "none"))
