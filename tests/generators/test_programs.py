"""What holds for every program that grows."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from corpus.errors import UserError
from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import free_names
from corpus.pattern import FOLDER, load_patterns
from corpus.target import Target
from generators.growth.grow import grow
from generators.language.profile import UNLIMITED, Counts, count, draw_profile
from generators.language.values import RandomSource
from generators.patterns import recipe_of
from generators.strategies import find_strategy
from generators.strategies.functions import Form, wrap_nodes
from oracles.backends import find_backend
from oracles.probes.record import Firing
from oracles.relation.program import MAX_ELEMENTS, DTypeFamily
from oracles.sandbox.sandbox import Job
from tests.generators.agreement import numbers, value_agrees

SEEDS = range(200)


def test_a_program_is_connected_unless_it_leans_to_extremes_and_every_input_is_used():
    for seed in SEEDS:
        graph = grow(seed, 12).model.graph
        groups: list[set[str]] = []
        for node in graph.node:
            if node.op_type != "Constant":
                names = {name for name in (*free_names(node), *node.output) if name}
                met = [each for each in groups if each & names]
                groups = [*(each for each in groups if each not in met), names.union(*met)]
        assert {info.name for info in graph.input} <= set[str]().union(*groups)
        assert len(groups) == 1 or draw_profile(RandomSource(f"{seed}/12")).extreme


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


# Programs around patterns: each holds one, still fires its pass, and is valid


def test_passes_fire_on_programs_around_patterns_that_run(ort_sandbox):
    programs = list(find_strategy("patterns")(range(60), 10, None, UNLIMITED))
    passes: Counter[str] = Counter()
    ran = placed = fired = 0
    with Firing(Target("ort")) as firing:
        config = find_backend("ort").configs(Target("ort"))[:1]
        for seed, program in enumerate(programs):
            case = program.as_case(seed)
            found = firing.passes(case.program)
            passes.update(found)
            placed += len(program.fires)
            fired += sum(name in found or firing.fires(case.program, name) for name in program.fires)
            ran += ort_sandbox.run(Job(case.program, case.inputs, config))[0].is_ok
    assert placed > len(programs)
    assert fired > 0.88 * placed
    assert len(passes) > 20
    assert ran >= 0.95 * len(programs)


def test_shipped_patterns_make_sixty_passes_fire_and_each_is_there_once():
    shipped = list(load_patterns(FOLDER))
    assert len({pattern.fires for pattern in shipped}) >= 60
    assert len({pattern.digest for pattern in shipped}) == len(shipped)
    assert all(recipe_of(pattern) for pattern in shipped)


def test_a_folder_without_usable_patterns_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no patterns"):
        next(find_strategy("patterns")(range(1), 5, tmp_path, UNLIMITED))


# A program keeps its results when some of its nodes go behind a call

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]


@pytest.mark.parametrize("form", list(Form))
def test_every_form_is_valid_and_gives_equal_results(form, ort_sandbox):
    for seed in range(12):
        program = grow(seed, 6, frozenset(DTypeFamily))
        nodes = program.model.graph.node
        first = next(at for at, node in enumerate(nodes) if node.op_type != "Constant")
        wrapped = wrap_nodes(program.model, first + 1, len(nodes) - 1, form)
        assert checker_complaint(wrapped) is None
        jobs = (program.model, wrapped)
        runs = [ort_sandbox.run(Job(one.SerializeToString(), program.inputs, UNOPTIMISED))[0] for one in jobs]
        assert all(run.is_ok for run in runs), runs[1].message
        for name, value in runs[0].outputs.items():
            np.testing.assert_array_equal(value, runs[1].outputs[name])
