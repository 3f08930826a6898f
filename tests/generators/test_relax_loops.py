"""PrimFuncs of loops within Relax programs: what passes take, and what the interpreter says."""

from functools import cache

import numpy as np
import pytest

from corpus.tir.scopes import problems
from corpus.tir.tree import Alloc, Block, Function, Module, Store
from corpus.tir.values import Buffer, Call, Const, Load
from corpus.tir.walk import walk
from generators.language.values import RandomSource
from generators.relax.forms.calls import is_sound
from generators.relax.operator import Tensor
from generators.relax.programs import Policy, make_program
from generators.relax.stages import primfunc
from generators.relax.watched import Unsound, interpreted
from oracles.backends.golden import run
from oracles.tir.interpreter import NotDefined, called, is_steady

LOOPS = Policy(name="loops", forms={"operator": 1.0, "loops": 4.0}, symbolic=0.0)
OPERANDS = [Tensor("float32", (4,)), Tensor("int64", (2, 3))]


@cache
def functions() -> list[Function]:
    drawn = (primfunc(RandomSource(f"{seed}"), OPERANDS, Tensor("float32", (3, 2))) for seed in range(40))
    return [each for each in drawn if is_sound(each)]


def test_most_draws_are_sound_functions_of_blocks_under_one_root():
    made = functions()
    assert len(made) >= 20
    for function in made:
        assert not problems(Module({"main": function}))
        (root,) = function.body
        assert isinstance(root, Block)
        assert all(any(isinstance(item, Block) for item in walk(stmt)) for stmt in root.body)
        assert not any(isinstance(item, Alloc) for item in walk(root))


def test_a_function_writes_all_of_its_result_and_nothing_that_it_is_given():
    for function in functions():
        stored = {item.buffer for item in walk(function.body) if isinstance(item, Store)}
        *given, result = function.params
        assert result.name in stored
        assert stored.isdisjoint(each.name for each in given)


def test_a_block_says_what_it_reads_and_writes():
    for function in functions():
        for block in (each for each in walk(function.body) if isinstance(each, Block) and each.writes):
            own = {each.name for each in block.allocs}
            told = {each.buffer for each in (*block.reads, *block.writes)}
            used = {item.buffer for item in walk(block.body) if isinstance(item, Load | Store)}
            assert used - own <= told


def test_reductions_and_blocks_of_any_statements_come():
    blocks = [item for each in functions() for item in walk(each) if isinstance(item, Block)]
    assert {axis.kind for block in blocks for axis in block.axes} == {"spatial", "reduce"}
    assert any(not block.axes and block.writes and len(block.body) > 1 for block in blocks)


def test_the_golden_reference_calls_what_the_generator_called():
    held = 0
    for seed in range(12):
        made = make_program(seed, 6, LOOPS)
        held += len(made.program.loops)
        document = made.program.to_bytes()
        found = run(document, dict(made.inputs), {}, None, lambda phase: None)
        assert all(np.isfinite(value).all() for value in found.values())
    assert held >= 12


def test_a_call_with_too_many_operands_is_not_known():
    function = functions()[0]
    with pytest.raises(NotDefined):
        called(function, [np.zeros((1,), np.float32)] * (len(function.params) + 1))


def test_a_result_that_rounding_decides_is_refused():
    """The floor of an operand that is a whole number but for rounding."""
    at = (Const(0),)
    a, r = (Buffer(name, (Const(1),), "float32") for name in "AR")
    floor = Function((a, r), (Store("R", at, Call("floor", (Load("A", at, "float32"),), "float32")),))
    near, far = np.array([3.0], np.float32), np.array([3.5], np.float32)
    assert is_steady(floor, [far], called(floor, [far]))
    assert not is_steady(floor, [near], called(floor, [near]))
    with pytest.raises(Unsound):
        interpreted(floor)(near)
