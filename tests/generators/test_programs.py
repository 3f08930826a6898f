"""What holds for every program that grows."""

from collections import Counter, defaultdict

import numpy as np
import onnx
import pytest

from corpus.onnx.graph import free_names
from generators import make_case, make_model
from generators.growth.fragments import FRAGMENTS, Steps, new_scope
from generators.growth.grow import finish, grow
from generators.language.profile import Counts, count, draw_profile
from generators.language.values import RandomSource
from oracles.relation.program import MAX_ELEMENTS, DoesNotFit
from oracles.relation.types import F32, Range
from tests.generators.agreement import numbers, value_agrees

SEEDS = range(200)


@pytest.mark.parametrize("nodes", [1, 5, 10, 40])
def test_a_program_has_as_many_nodes_as_were_asked_for(nodes):
    for seed in range(10):
        operators = [node.op_type for node in make_model(seed, nodes).graph.node]
        assert len(operators) - operators.count("Constant") == nodes


def test_other_seeds_give_other_programs():
    assert len({make_case(seed, 10).case_id for seed in SEEDS}) == len(SEEDS)


def test_a_program_is_connected_and_every_input_is_used():
    for seed in SEEDS:
        graph = grow(seed, 12).model.graph
        roots: dict[str, str] = {}

        def root(name: str, roots: dict[str, str] = roots) -> str:
            while roots.get(name, name) != name:
                name = roots[name]
            return name

        used = set()
        for node in graph.node:
            names = [name for name in (*sorted(free_names(node)), *node.output) if name]
            used.update(free_names(node))
            for name in names:
                roots[root(name)] = root(names[0])
        assert {info.name for info in graph.input} <= used
        parts = {root(name) for node in graph.node for name in node.output if node.op_type != "Constant"}
        assert len(parts) == 1


def test_inputs_fit_the_model_and_are_finite():
    for seed in SEEDS:
        program = grow(seed, 10)
        assert {info.name for info in program.model.graph.input} == set(program.inputs)
        for name, value in program.inputs.items():
            assert value_agrees(value, program.types[name])
            assert np.isfinite(numbers(value)).all()
            assert numbers(value).size <= MAX_ELEMENTS


def test_hazards_come_up_with_every_kind_of_operand():
    """Zero-sized dims, rank 0 and 1, least integers, inner values as outputs: each in some programs."""
    seen: Counter[str] = Counter()
    for seed in range(400):
        program = grow(seed, 10)
        consumed = {name for node in program.model.graph.node for name in node.input}
        seen["shared"] += any(info.name in consumed for info in program.model.graph.output)
        for value in program.inputs.values():
            if not isinstance(value, np.ndarray):
                continue
            seen["empty"] += 0 in value.shape
            seen["rank 0"] += value.ndim == 0
            seen["rank 1"] += value.ndim == 1
            if value.size and value.dtype.kind == "i":
                seen["least"] += bool((value == np.iinfo(value.dtype).min).any())
            if value.dtype.kind == "f":
                seen["negative zero"] += bool((np.signbit(value) & (value == 0)).any())
    assert all(
        seen[name] >= 5 for name in ("shared", "empty", "rank 0", "rank 1", "least", "negative zero")
    ), seen


def test_five_hundred_programs_hold_most_operators_with_two_tuples_of_types_each():
    counts = Counts()
    for seed in range(500):
        program = grow(seed, 10)
        counts |= count(program.model, program.types)
    types = defaultdict(set)
    for name, *rest in counts.op_dtype:
        types[name].add(tuple(rest))
    assert counts.models == 500
    assert len(counts.op_types) >= 120
    assert sum(len(tuples) >= 2 for tuples in types.values()) >= 100


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda fragment: fragment.define.__name__)
def test_a_composite_is_placed_whole_and_valid(fragment):
    placed = 0
    for number in range(30):
        draws = RandomSource(f"composite/{number}")
        scope = new_scope(draws, draw_profile(draws))
        focus = scope.create(F32, (2, 3, 4), Range(-2, 2), as_input=True)
        try:
            result = fragment.define(Steps(scope, fragment.nodes), focus)
        except DoesNotFit:
            continue
        placed += 1
        assert result.dtype is F32
        assert 2 <= len(scope.nodes) <= fragment.nodes
        onnx.checker.check_model(finish(scope).model, full_check=True)
    assert placed >= 10
