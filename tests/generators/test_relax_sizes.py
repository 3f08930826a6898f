"""Relax programs in which one function of symbolic dims runs with several sizes."""

import json
import tracemalloc
from typing import Any

import numpy as np

from corpus.graphs.program import parse_program
from generators.language.profile import UNLIMITED, Budget
from generators.relax.programs import RelaxProgram
from generators.relax.watched import outside
from generators.strategies import find_strategy
from oracles.worker.relax_reference.program import Evaluation

FUNCTION = "whole"


def made_by(strategy: str, count: int, budget: Budget = UNLIMITED) -> list[RelaxProgram]:
    """Those programs of a strategy that run one function with several sizes."""
    made: list[Any] = [*find_strategy(strategy)(range(count), 10, None, budget)]
    return [each for each in made if FUNCTION in each.program.functions]


def sizes_of(made: RelaxProgram) -> list[list[tuple[int, ...]]]:
    """The shapes of the operands of each call."""
    shapes = {item.name: tuple(item.shape) for item in made.program.main.inputs}
    calls = [each for each in made.program.main.bindings if FUNCTION in each.calls]
    return [[shapes[item["ref"]] for item in each.args[1:]] for each in calls]


def test_a_fifth_of_programs_runs_one_function_with_several_sizes():
    found = made_by("relax", 150)
    assert 20 <= len(found) <= 45
    for made in found:
        calls = sizes_of(made)
        assert 2 <= len(calls) <= 4
        assert len({str(shapes) for shapes in calls}) > 1
        function = made.program.functions[FUNCTION]
        assert any(isinstance(dim, str) for item in function.inputs for dim in item.shape)
    met = {dim for made in found for shapes in sizes_of(made) for shape in shapes for dim in shape}
    assert {1, 7, 16, 17} <= met
    assert max(met) > 30


def test_each_call_is_defined_and_gives_what_the_function_gives_alone():
    for made in made_by("relax", 60):
        document = json.loads(made.program.to_bytes())
        assert (
            parse_program(made.program.to_bytes(), "relax", "program").to_bytes() == made.program.to_bytes()
        )
        results = Evaluation(document, outside).main(made.inputs)
        main, function = made.program.main, document["functions"][FUNCTION]
        calls = [each for each in main.bindings if FUNCTION in each.calls]
        alone = []
        for call in calls:
            given = [made.inputs[item["ref"]] for item in call.args[1:]]
            names = [item[0] for item in function["inputs"]]
            feeds = dict(zip(names, given, strict=True))
            alone += Evaluation({**document, "main": function}, outside).main(feeds)
        for one, other in zip(results, alone, strict=True):
            np.testing.assert_array_equal(one, other)
            assert np.isfinite(np.asarray(one, np.float64)).all()


def test_a_seed_gives_the_same_sizes_and_a_budget_leaves_them_out():
    one, other = (made_by("relax", 30) for _ in range(2))
    assert [each.program.to_bytes() for each in one] == [each.program.to_bytes() for each in other]
    assert made_by("relax", 30, Budget(dim=8)) == []


def test_an_operand_of_too_many_elements_is_not_drawn():
    tracemalloc.start()
    try:
        made: list[Any] = [*find_strategy("relax")([8_301_623], 10, None, UNLIMITED)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert all(array.size <= 20_000 for each in made for array in each.inputs.values())
    assert peak < 100 << 20  # it took 20 GB: an operand of 127 x 127 x 33 x 127 was tried
