"""Programs of several functions: statements that moved into one, sizes that only a caller knows."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from corpus.case import Case
from corpus.target import Target
from corpus.tir.program import from_bytes, to_bytes
from corpus.tir.scopes import problems
from corpus.tir.script import print_text
from corpus.tir.tree import Evaluate, Function, Module, Store
from corpus.tir.values import Buffer, BufferRef, Call, Const, Var
from corpus.tir.walk import called_functions, expressions
from generators.language.values import RandomSource
from generators.tir.calls import outlined, with_open_sizes
from generators.tir.programs import grown, is_sound
from generators.tir.ranged import inputs_of
from oracles.judge import Judge
from oracles.tir.interpreter import interpret
from reducer.moves.tir.body import inline_calls
from reducer.subject.tir_subject import TirSubject

SEEDS = range(80)


@cache
def grown_at(seed: int) -> Module:
    return grown(RandomSource(f"calls/{seed}"), 8, seed=seed)


def with_calls(seed: int) -> Module | None:
    return outlined(RandomSource(f"outlined/{seed}"), grown_at(seed))


def once_called(module: Module) -> bool:
    calls = [each for each in expressions(module.main.body) if isinstance(each, Call)]
    return sum(each.callee.startswith("@") for each in calls) == 1


def same(one: Module, two: Module, seed: int) -> bool:
    inputs = inputs_of(one, seed)
    a, b = (interpret(each, inputs, trials=0) for each in (one, two))
    return bool(a.reason) or all(
        np.array_equal(a.outputs[key], b.outputs[key], equal_nan=True) for key in a.outputs
    )


MADE = {seed: made for seed in SEEDS if (made := with_calls(seed)) is not None}


def test_a_statement_in_a_function_that_is_called_once_does_the_same():
    once = {seed: each for seed, each in MADE.items() if once_called(each)}
    assert len(once) >= 20
    assert all(problems(each) == [] and same(grown_at(seed), each, seed) for seed, each in once.items())


def test_most_functions_that_are_called_again_with_other_sizes_are_sound():
    again = {seed: each for seed, each in MADE.items() if not once_called(each)}
    assert sum(is_sound(each, seed) for seed, each in again.items()) >= 0.5 * len(again) >= 15


def test_open_sizes_change_what_is_written_and_not_what_is_done():
    opened = {
        seed: found
        for seed in SEEDS
        if (found := with_open_sizes(RandomSource(f"open/{seed}"), grown_at(seed), seed)) != grown_at(seed)
    }
    assert len(opened) >= 20
    assert all(problems(each) == [] and same(grown_at(seed), each, seed) for seed, each in opened.items())


def test_documents_and_text_hold_calls_and_open_sizes():
    tvm = pytest.importorskip("tvm")
    from oracles.worker.tvm.tir.build import build_module
    from oracles.worker.tvm.tir.read import read_module

    for seed, made in [*MADE.items()][:5]:
        module = with_open_sizes(RandomSource(f"open/{seed}"), made, seed)
        assert from_bytes(to_bytes(module)) == module
        document = json.loads(to_bytes(module))
        built = build_module(document)
        assert read_module(built) == document
        text = print_text(module).split("@I.ir_module", 1)[1]
        tvm.ir.assert_structural_equal(tvm.script.from_source(f"@I.ir_module{text}"), built)


def test_tvm_runs_functions_that_are_called_as_the_interpreter_does():
    sound = [(seed, each) for seed, each in MADE.items() if is_sound(each, seed)][:12]
    cases = [Case("tir", to_bytes(each), inputs_of(each, seed)) for seed, each in sound]
    with Judge(Target("tvm"), format="tir") as judge:
        rest = [
            judge.verdict(each) for each, look in zip(cases, judge.look(cases), strict=True) if look is None
        ]
    assert len(rest) <= 0.35 * len(cases), [each.title for each in rest]  # TVM fails on some of all programs
    assert not [each.title for each in rest if "mismatch" in each.outcome]


def test_a_call_with_operands_of_other_types_is_ill_formed():
    module = next(iter(MADE.values()))
    (name,) = called_functions(module.main)
    helper = module.functions[name]
    more = replace(helper, params=(*helper.params, Var("more")))
    (problem,) = problems(Module({**module.functions, name: more}))
    assert "operands of other types" in problem


@pytest.mark.parametrize("operands", [0, 1])
def test_a_call_of_a_function_with_buffers_is_not_modelled_and_not_inlined(operands):
    buffer = Buffer("A", (Const(4),), "float32")
    helper = Function((buffer,), (Store("A", (Const(0),), Const(1.0, "float32")),))
    given = (Call("buffer_data", (BufferRef("A"),), "handle"),) * operands
    main = Function((buffer,), (Evaluate(Call("@helper", given, "void")),))
    module = Module({"main": main, "helper": helper})
    inputs = {"A": np.zeros(4, np.float32)}
    assert not interpret(module, inputs).is_modelled
    subject = TirSubject.of(Case("tir", to_bytes(module), inputs), module)
    assert not list(inline_calls(subject))
