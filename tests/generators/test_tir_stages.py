"""Chains of blocks, and schedules over them: a scheduled program computes what the unscheduled one does."""

import ast

import pytest

from corpus.case import Case
from corpus.target import Target
from corpus.tir.program import marks, to_bytes
from corpus.tir.scopes import is_well_formed
from corpus.tir.tree import Attr, Axis, Block, For, Function, Module, Store
from corpus.tir.values import Buffer, Const, Range, Region, Var
from corpus.tir.walk import statements
from generators.language.values import RandomSource
from generators.tir.blocks import rooted
from generators.tir.programs import is_sound, make_program
from generators.tir.ranged import has_extremes, inputs_of
from generators.tir.stages import _STEPS, drawn_schedule, staged
from oracles.tir.interpreter import interpret
from oracles.verdict import Outcome
from oracles.worker.tvm.passes import BLOCKS, PLAIN_LOOPS, misplaced, pass_of
from oracles.worker.tvm.sequences import OPTIONS, PREFIX, PRIMITIVES
from reducer.api import reduce_case
from reducer.course import Options

DRAWN = [(seed, RandomSource(f"stages/{seed}")) for seed in range(60)]
MODULES = [(seed, draws, staged(draws, "main", extreme=has_extremes(seed))) for seed, draws in DRAWN]
SOUND = [each for each in MODULES if is_sound(each[2], each[0])]


def test_chains_are_well_formed_and_nearly_all_defined():
    assert all(is_well_formed(module) for _, _, module in MODULES)
    assert len(SOUND) >= 0.9 * len(MODULES)
    blocks = [
        each for _, _, module in SOUND for each in statements((module.main,)) if isinstance(each, Block)
    ]
    assert any(each.init is not None for each in blocks)


def test_every_primitive_is_drawn_and_its_step_has_a_text():
    assert set(_STEPS) == set(PRIMITIVES)
    steps = {step for _, draws, module in SOUND for step in drawn_schedule(draws, module)}
    assert len({step.split(":")[0] for step in steps}) == len(PRIMITIVES)
    for step in steps:
        ast.parse(pass_of(step).code)
    assert misplaced(("s_tir.schedule.split:block0:0:4",), PLAIN_LOOPS)
    for unknown in ("split:block0:0:4:4", "split:block0", "split:block0:0:x", "undo:block0", "fuse:a.b:0"):
        assert misplaced((PREFIX + unknown,)) == f"there is no pass {PREFIX}{unknown}"


def test_lanes_of_a_schedule_are_taken_before_memory_is_planned():
    """As TVM's pipelines do; what it says of another order is no failure."""
    lowered = ("s_tir.LowerInitBlock", "s_tir.ConvertBlocksToOpaque", "s_tir.LowerOpaqueBlock")
    steps = (PREFIX + "vectorize:block0:0", *lowered, "tirx.FlattenBuffer")
    assert "lanes" in misplaced((*steps, "tirx.StorageRewrite"), BLOCKS)
    assert not misplaced((*steps, "tirx.VectorizeLoop", "tirx.StorageRewrite"), BLOCKS)


def test_a_loop_says_what_tvms_passes_want_of_it_first():
    i, zero = Var("i"), Const(0)
    across = For(i, zero, Const(2), "vectorized", (Store("A", (i, zero), zero),))
    doubled = Attr(zero, "double_buffer_scope", Const(1), (Store("A", (zero, i), zero),))
    for loop, told, first, then in (
        (across, "lanes crossed", "tirx.FlattenBuffer", "tirx.VectorizeLoop"),
        (
            For(i, Const(1), Const(1), "serial", (doubled,)),
            "doubled shifted",
            "s_tir.CanonicalizeLoop",
            "s_tir.InjectDoubleBuffer",
        ),
    ):
        facts = marks(Module({"main": Function((Buffer("A", (Const(2), Const(2)), "int32"),), (loop,))}))
        assert facts == {*told.split()}
        assert misplaced((then,), PLAIN_LOOPS | facts)
        assert not misplaced((first, then), PLAIN_LOOPS | facts)


def test_tvm_computes_what_the_interpreter_does_with_a_schedule_and_without(tir_judge):
    """Half of the chains are scheduled; what is not clean together gets a verdict, and no value is wrong."""
    cases = []
    for place, (seed, draws, module) in enumerate(SOUND[:32]):
        steps = [each for each in drawn_schedule(draws, module) if "reindex" not in each and place % 2]
        cases.append(Case("tir", to_bytes(module), inputs_of(module, seed)).with_passes(tuple(steps)))
    looks = tir_judge.look(cases)
    rest = [tir_judge.verdict(case) for case, look in zip(cases, looks, strict=True) if look is None]
    assert len(rest) <= 4, [each.title for each in rest]
    assert not [each.title for each in rest if each.outcome is Outcome.MISMATCH]


def test_a_step_of_operands_that_a_block_does_not_have_is_left_out(tir_judge):
    v, i, one = Var("v"), Var("i"), Const(1)
    axis, region = Axis(v, Range(Const(0), Const(4)), "spatial", i), Region("A", (Range(v, one),))
    block = Block("block0", (axis,), (), (region,), (Store("A", (v,), v),))
    loop = For(i, Const(0), Const(4), "serial", (block,))
    module = rooted(Module({"main": Function((Buffer("A", (Const(4),), "int32"),), (loop,))}))
    case = Case("tir", to_bytes(module), inputs_of(module, 0)).with_passes((PREFIX + "reindex:block0",))
    assert tir_judge.verdict(case).outcome is Outcome.PASS


def test_programs_start_as_chains_and_are_scheduled():
    made = [make_program(seed, 8) for seed in range(60)]
    scheduled = [each for each in made if any(name.startswith(PREFIX) for name in each.passes)]
    assert len(scheduled) >= 6
    assert all(interpret(each.module, each.inputs, trials=0).is_defined for each in scheduled)


@pytest.mark.slow
def test_a_wrong_result_of_a_schedule_is_reduced_to_the_steps_that_it_takes(tmp_path):
    """TVM 0.27: what `blockize` leaves of a block, `reindex` reads wrongly."""
    seed = 1020
    module = staged(RandomSource(f"st/{seed}"), "main", extreme=has_extremes(seed))
    steps = [
        "parallel:block0:0",
        "blockize:block0:0",
        "split:block0:0:4",
        "reindex:block0",
        "unroll:block0:0",
    ]
    case = Case("tir", to_bytes(module), inputs_of(module, seed), Target("tvm"))
    case = case.with_passes(tuple(PREFIX + step for step in steps))
    result = reduce_case(case, tmp_path / "out", Options(target=case.target))
    assert result.verdict.outcome is Outcome.MISMATCH
    assert len(result.case.passes) <= 2


def test_no_program_asks_the_simplifier_to_throw_after_some_steps():
    """That is what the option is documented to do; 0 is no bound."""
    assert OPTIONS["tirx.RemoveNoOp.max_simplification_steps"] == (0,)
