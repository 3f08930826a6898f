"""Relax programs by type: what the entries say is what TVM infers, and what programs are."""

import json
import textwrap
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.graphs.format import evaluate
from corpus.graphs.program import GraphProgram, graph_of_json, parse_program
from generators.language.profile import UNLIMITED, Budget, seconds_of
from generators.language.values import RandomSource
from generators.relax.forms import forms
from generators.relax.operator import (
    Argument,
    Asking,
    Call,
    Given,
    Json,
    Literal,
    Operator,
    Tensor,
    Type,
    Want,
    target_of,
    type_to_json,
)
from generators.relax.ops import operators, recognising
from generators.relax.programs import FORMS, POLICY, RelaxProgram, make_program
from generators.relax.watched import ONE_TO_ONE, Unsound, Watched, depths_of, is_close, outside
from generators.strategies import find_strategy
from oracles.numerics.rewrites import GRAPH_REWRITES
from oracles.worker.relax_reference.program import RULES, Evaluation

SAMPLES, MANY = 12, 60
"""Calls of each operator; many are some nine thousand in all."""
NAMES = tuple(each.name for each in operators())


@cache
def made_at(seed: int) -> RelaxProgram:
    return make_program(seed, 12)


def asking(seed: str) -> Asking:
    return Asking(
        RandomSource(seed),
        {"n": 3},
        (1, 2, 3, 4, 5, "n"),
        floats=("float32", "float16", "float64"),
        integers=("int64", "int32", "int8", "uint8"),
    )


def samples(operator: Operator, count: int) -> Iterator[tuple[Tensor, Call]]:
    for seed in range(count):
        found = operator.sample(asking(f"{operator.name}/{seed}"), tries=60)
        if found is not None:
            yield found


class Calls:
    """A document of many calls whose operands are inputs."""

    def __init__(self) -> None:
        self.inputs: list[Json] = [["sizes", "float32", ["n"]]]
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.bindings: list[Json] = []
        self.wanted: dict[str, Type] = {}

    def add(self, operator: Operator, call: Call) -> None:
        name = f"y{len(self.bindings)}"
        told = {"attributes": [call.attributes[0], dict(call.attributes[1])]} if call.attributes else {}
        self.bindings.append([name, operator.name, [self.spell(each) for each in call.args], told])
        if call.at is None:
            self.wanted[name] = call.result
        else:
            self.bindings.append([f"{name}_at", "getitem", [{"ref": name}, call.at], {}])
            self.wanted[f"{name}_at"] = target_of(call)

    def spell(self, argument: Argument) -> Json:
        if isinstance(argument, Literal):
            return argument.item
        if isinstance(argument, Given):
            name = f"c{len(self.constants)}"
            self.constants[name] = argument.array
            return {"ref": name}
        if isinstance(argument, Want):
            assert isinstance(argument.type, Tensor)
            name = f"x{len(self.inputs)}"
            self.inputs.append([name, argument.type.dtype, list(argument.type.shape)])
            return {"ref": name}
        return {"tuple": [self.spell(each) for each in argument.members]}

    def program(self) -> GraphProgram:
        graph = {"inputs": self.inputs, "bindings": self.bindings, "outputs": [self.bindings[-1][0]]}
        return GraphProgram("relax", graph_of_json(graph), self.constants, {}, {}, {})


def at_size(dims: Any, size: int) -> list[int]:
    return [evaluate(dim, {"n": size}) if isinstance(dim, str) else dim for dim in dims]


@pytest.mark.parametrize("family", sorted({each.family for each in operators()}))
@pytest.mark.parametrize("count", [SAMPLES, pytest.param(MANY, marks=pytest.mark.slow)])
def test_tvm_infers_the_types_that_the_solvers_promise(family, count, relax_judge):
    calls = Calls()
    for operator in operators():
        if operator.family == family:
            for _, call in samples(operator, count):
                calls.add(operator, call)
    answer = relax_judge.executor.describe(calls.program().to_bytes(), {})
    assert "error" not in answer, answer["error"]
    for name, wanted in calls.wanted.items():
        dtype, dims, _ = type_to_json(wanted)["tensor"]
        found_dtype, found_dims = answer["types"][name]
        assert (found_dtype, len(found_dims)) == (dtype, len(dims)), name
        assert all(at_size(found_dims, size) == at_size(dims, size) for size in (3, 5)), name


@pytest.mark.parametrize("name", NAMES)
def test_what_a_sampler_gives_the_recogniser_takes(name):
    (operator,) = (each for each in operators() if each.name == name)
    found = list(samples(operator, SAMPLES))
    assert len(found) >= SAMPLES // 3
    for target, call in found:
        assert operator.recognise(target)
        assert target_of(call) == target


@pytest.mark.parametrize("name", ["full", "full_like", "zeros", "ones_like"])
def test_a_filled_tensor_may_be_a_scalar_or_of_any_size(name):
    (operator,) = (each for each in operators() if each.name == f"relax.{name}")
    assert 0 in {target.rank for target, _ in samples(operator, SAMPLES)}
    assert operator.recognise(Tensor("float32", ("n", 2)))


def test_the_reference_has_a_rule_for_every_operator():
    assert [name for name in NAMES if name not in RULES] == []
    assert len(NAMES) == len(set(NAMES)) >= 175


def test_every_form_has_a_weight():
    assert set(forms()) == set(FORMS)


def test_tvm_finds_the_programs_well_formed(relax_judge):
    for seed in range(60):
        program = made_at(seed)
        assert "error" not in relax_judge.executor.describe(program.program.to_bytes(), program.inputs), seed


def test_a_seed_gives_the_same_program_and_its_document_is_read_back():
    for seed in range(40):
        program = made_at(seed)
        text = program.program.to_bytes()
        assert make_program(seed, 12).program.to_bytes() == text
        assert parse_program(text, "relax", "program").to_bytes() == text


def test_programs_hold_what_types_allow():
    held = {op for seed in range(150) for op in made_at(seed).counts().op_types}
    assert {"if", "function", "call", "getitem", "match_cast", "relax.call_tir", "relax.nonzero"} <= held
    programs = [made_at(seed).program for seed in range(150)]
    assert any(len(program.functions) > 1 for program in programs)
    assert any(program.opaque for program in programs)
    assert any("returns" in graph.facts for each in programs for graph in each.functions.values())
    assert any(isinstance(dim, str) for each in programs for item in each.main.inputs for dim in item.shape)


def test_values_are_finite_and_no_integer_wraps():
    for seed in range(60):
        program = made_at(seed)
        for value in Counting(json.loads(program.program.to_bytes())).main(program.inputs):
            assert np.isfinite(np.asarray(value, np.float64)).all()


@pytest.mark.parametrize("op", ["relax.divide", "relax.floor_divide", "relax.floor_mod", "relax.mod"])
def test_no_function_divides_an_integer_by_zero_with_what_it_is_called_with(op):
    body = {"inputs": [["p", "int32", []]], "bindings": [["r", op, [{"ref": "p"}, {"ref": "p"}], {}]]}
    functions = {"f": {**body, "outputs": ["r"]}}
    document = {"functions": functions, "opaque": {}, "constants": {}, "main": {"facts": {}}, "facts": {}}
    call = ["call", [{"function": "f"}, {"ref": "x"}], {}]
    run = Watched(document, np.inf)
    assert run.value("y", *call, {"x": np.array(3, "int32")}, {}) in (0, 1)
    with pytest.raises(Unsound, match="divided by zero"):
        run.value("y", *call, {"x": np.array(0, "int32")}, {})


def test_what_recognisers_say_is_kept_and_is_what_they_say():
    """The memory of answers is bounded, and no program hangs on it."""
    types = {Tensor(dtype, shape) for dtype in ("float32", "bool") for shape in ((), (2,), (1, 3, 4, 4))}
    for told in types:
        assert recognising(told) == tuple(each for each in operators() if each.recognise(told))
    assert recognising.cache_info().maxsize == recognising.cache_parameters()["maxsize"] < 10_000
    kept = [make_program(seed, 8).program.to_bytes() for seed in range(12)]
    recognising.cache_clear()
    assert [make_program(seed, 8).program.to_bytes() for seed in reversed(range(12))] == kept[::-1]


@pytest.mark.parametrize("name", ["relax", "relax_mutate", "relax_patterns"])
def test_a_budget_bounds_every_chain_of_operators(name):
    deepest, free = 0, 0
    for budget in (UNLIMITED, Budget(depth=3)):
        for made in find_strategy(name)(range(12), 8, None, budget):
            program = made.program  # type: ignore[union-attr]
            for graph in (program.main, *program.functions.values()):
                depth = max(depths_of(graph.bindings, {}).values(), default=0)
                deepest, free = (
                    (deepest, max(free, depth)) if budget == UNLIMITED else (max(deepest, depth), free)
                )
    assert deepest == 3 < free


def test_a_budget_of_time_counts_what_a_recursion_runs():
    """Estimated anew: every operator that the run meets, in functions as often as they are called."""
    most = 2e-4
    for seed in range(30):
        made = make_program(seed, 12, POLICY, Budget(seconds=most))
        run = Counting(json.loads(made.program.to_bytes()))
        run.main(made.inputs)
        assert seconds_of(0, 0, run.met) <= most


class Counting(Evaluation):
    """A run that counts the operators that it meets."""

    met = 0

    def __init__(self, document: Any) -> None:
        super().__init__(document, outside)

    def value(self, name: str, op: str, *rest: Any) -> Any:
        self.met += op not in ONE_TO_ONE
        return super().value(name, op, *rest)


def test_no_comparison_of_a_program_is_left_to_rounding():
    """`gelu_tanh` of -6 is 0 in float32 and -8.5e-11 in float64: neither is what a test may hold TVM to."""
    assert is_close(np.zeros(3), np.array([1.0, -8.5e-11, 2.0]))
    assert not is_close(np.zeros(3), np.array([1.0, 0.0, 0.001]))
    assert not is_close(np.arange(3), np.arange(3) + 1)
    for seed in range(30):
        made = made_at(seed)
        Compared(json.loads(made.program.to_bytes()), outside).main(made.inputs)


class Compared(Evaluation):
    """A run in which no two floats that are compared differ by rounding alone."""

    def value(self, name: str, op: str, args: Any, kwargs: Any, known: Any, sizes: Any) -> Any:
        if op in ("relax.less", "relax.equal", "relax.greater_equal"):
            assert not is_close(*(self.argument(each, known, sizes) for each in args))
        return super().value(name, op, args, kwargs, known, sizes)


@pytest.mark.parametrize("name", ["relax", "relax_mutate"])
def test_a_budget_bounds_every_dim(name):
    for made in find_strategy(name)(range(10), 10, None, Budget(dim=3)):
        graphs = (made.program.main, *made.program.functions.values())  # type: ignore[union-attr]
        dims = [dim for graph in graphs for item in graph.inputs for dim in item.shape]
        assert all(dim <= 3 for dim in dims if isinstance(dim, int))


@pytest.mark.slow
def test_a_budget_of_memory_makes_programs_smaller():
    free, bound = (
        sum(
            value.nbytes
            for seed in range(10)
            for value in make_program(seed, 12, POLICY, budget).inputs.values()
        )
        for budget in (UNLIMITED, Budget(memory=200))
    )
    assert bound < free


def test_two_policies_grow_from_one_seed_apart():
    other = replace(POLICY, name="other")
    assert make_program(1, 8).program.to_bytes() != make_program(1, 8, other).program.to_bytes()


def example() -> str:
    """The policy of docs/relax.md."""
    text = (Path(__file__).parents[2] / "docs" / "relax.md").read_text()
    return text.split("```python\n")[1].split("```")[0]


def test_the_documented_policy_makes_what_it_says(tmp_path):
    path = tmp_path / "nhwc.py"
    path.write_text(textwrap.dedent(example()))
    for made in find_strategy(f"{path}", trust=True)(range(20), 5, None, UNLIMITED):
        main = made.program.main  # type: ignore[union-attr]
        convolutions = [each for each in main.bindings if each.op == "relax.nn.conv2d"]
        assert convolutions
        assert all(each.kwargs["attributes"][1]["data_layout"] == "NHWC" for each in convolutions)
        assert any(item.shape[:1] == ("n",) for item in main.inputs)


REWRITTEN = 40


@pytest.mark.parametrize("what", tuple(GRAPH_REWRITES))
def test_a_rewritten_program_is_well_formed_and_gives_the_same(what, relax_judge):
    done = 0
    for seed in range(REWRITTEN):
        made = made_at(seed)
        answer = relax_judge.executor.describe(made.program.to_bytes(), made.inputs)["types"]
        inputs = {item.name: (item.dtype, item.shape) for item in made.program.main.inputs}
        types = {**inputs, **{name: (each[0], tuple(each[1] or "?")) for name, each in answer.items()}}
        static = {
            name: (dtype, tuple(dim for dim in dims if isinstance(dim, int)))
            for name, (dtype, dims) in types.items()
            if dtype and all(isinstance(dim, int) for dim in dims)
        }
        program = GRAPH_REWRITES[what](made.program, static)
        if program is None:
            continue
        done += 1
        assert "error" not in relax_judge.executor.describe(program.to_bytes(), made.inputs), seed
        before, after = (
            Counting(json.loads(each.to_bytes())).main(made.inputs) for each in (made.program, program)
        )
        for left, right in zip(before, after, strict=True):
            np.testing.assert_array_equal(left, right)
    assert done > REWRITTEN // 3


def test_forms_that_are_seldom_come_up_in_three_hundred_programs():
    names = ("match_cast", "relax.call_tir_inplace", "recursion", "mutual recursion")
    held = dict.fromkeys((*names, "relax.unique", "relax.dynamic_strided_slice"), 0)
    for seed in range(300):
        program = made_at(seed).program
        graphs = {"": program.main, **program.functions}
        found = {each.op for graph in graphs.values() for each in graph.walk()}
        calls = {name: {f for each in graph.walk() for f in each.calls} for name, graph in graphs.items()}
        found |= {"recursion" for name in program.functions if name in calls[name]}
        pairs = ((one, other) for one in program.functions for other in calls[one] & program.functions.keys())
        found |= {"mutual recursion" for one, other in pairs if one != other and one in calls[other]}
        for op in held.keys() & found:
            held[op] += 1
    assert held["match_cast"] > 100
    assert min(held.values()) >= 3, held


# Programs in which one function of symbolic dims runs with several sizes

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
