"""What every operator's entry promises, checked for each entry that is found."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from corpus.onnx.check import checker_complaint
from corpus.onnx.types import inferred_types
from corpus.target import Target
from generators.feedback import BLOCK
from generators.growth.grow import Program, finish
from generators.growth.steps import new_scope, place
from generators.language.profile import draw_profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from generators.mixture import Plan, make_cases
from oracles.backends import find_backend
from oracles.operators import all_operators, arithmetic, arithmetic_of, aten_operators
from oracles.relation.arithmetic import UNKNOWN, Nonfinite, Rounding
from oracles.relation.operator import Operator
from oracles.relation.program import (
    MAX_ELEMENTS,
    ONNX_REALMS,
    Call,
    DoesNotFit,
    DTypeFamily,
    volume,
)
from oracles.relation.types import DType, TensorType
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config
from oracles.worker.onnx import DOMAIN
from tests.generators.agreement import inference_agrees, is_within, value_agrees

OPERATORS = pytest.mark.parametrize("operator", all_operators(), ids=lambda operator: operator.name)
BACKWARDS = pytest.mark.parametrize(
    "operator", [each for each in all_operators() if each.inverse], ids=lambda operator: operator.name
)

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]


def scope_of(
    operator: Operator,
    number: int | str,
    *,
    hazards: bool = True,
    realms: frozenset[DTypeFamily] = ONNX_REALMS,
) -> Scope:
    draws = RandomSource(f"back/{operator.name}/{number}")
    profile = draw_profile(draws)
    opset = draws.between(operator.since, operator.until)
    if not hazards:
        profile = replace(profile, extreme=0.0, shared=0.0, dims=tuple(dim for dim in profile.dims if dim))
    return new_scope(draws, replace(profile, opset=opset, realms=realms))


def sampled(operator: Operator, scope: Scope, dtype: DType | None = None) -> Call | None:
    dtype, rank = dtype or scope.draws.pick(operator.dtypes_at(scope.opset)), scope.draws.pick(operator.ranks)
    if not operator.takes(dtype, rank, scope.opset):
        return None
    try:
        return operator.sample(scope, scope.create(dtype, scope.shape(rank), operator.domain))
    except DoesNotFit:
        return None


def is_placed(operator: Operator, scope: Scope, dtype: DType | None = None) -> bool:
    call = sampled(operator, scope, dtype)
    return call is not None and place(scope, operator, call) is not None


def programs_of(operator: Operator, wanted: int = 12, *, hazards: bool = True) -> list[Program]:
    """Programs of this one operator on fresh operands of the types that it takes."""
    scopes = (scope_of(operator, number, hazards=hazards) for number in range(6000))
    placed = (scope for scope in scopes if is_placed(operator, scope))
    return [finish(scope) for scope in itertools.islice(placed, wanted)]


@OPERATORS
def test_onnx_infers_of_what_its_sampler_makes_the_same_types(operator):
    """With hazards, which lead a run into the backend's own bugs."""
    programs = programs_of(operator)
    assert len(programs) == 12
    for program in programs:
        check_with_onnx(program)


def check_with_onnx(program: Program) -> None:
    assert checker_complaint(program.model) is None
    for name, inferred in inferred_types(program.model).items():
        assert name not in program.types or inference_agrees(inferred, program.types[name])


@OPERATORS
def test_its_results_are_as_its_rules_say(operator, ort_sandbox):
    """Shape, element type and range of every result, of calls that are sampled and that are solved."""
    found = [*solved(operator)]
    assert len(found) >= 6 or operator.inverse is None
    crashed = 0
    for program in (*programs_of(operator, hazards=False), *found):
        check_with_onnx(program)
        job = Job(program.model.SerializeToString(), program.inputs, UNOPTIMISED)
        (run,) = ort_sandbox.run(job)
        if run.signal:
            crashed += 1  # a find of its own, and no word about the rules
            continue
        assert run.is_ok, run.message
        for name, value in run.outputs.items():
            assert value_agrees(value, program.types[name])
            assert is_within(value, program.ranges[name])
    assert crashed <= 12


# The laws of recognisers and solvers, for every entry that is found


def wanted_types(operator: Operator, scope: Scope) -> Iterator[TensorType]:
    """Any type, and what the operator's own sampler leads to."""
    for _ in range(6):
        yield TensorType(scope.draws.pick(tuple(DType)), scope.shape(scope.draws.below(6)))
    call = sampled(operator, scope)
    if call is not None:
        yield operator.infer(call)[0]


def solved(operator: Operator, wanted_programs: int = 12) -> Iterator[Program]:
    """Programs of one node that the solver found, on operands without hazards."""
    for number in range(600):
        scope = scope_of(operator, number, hazards=False)
        for wanted in list(wanted_types(operator, scope))[::-1]:
            if not operator.recognises(wanted, scope.opset) or volume(wanted.shape) > MAX_ELEMENTS:
                continue
            mark = scope.mark()
            if place(scope, operator, operator.solve(scope, wanted)):
                yield finish(scope)
                wanted_programs -= 1
                break
            scope.restore(mark)
        if not wanted_programs:
            return


@BACKWARDS
def test_what_is_recognised_is_solved(operator):
    found = 0
    for number in range(3000):
        scope = scope_of(operator, number)
        for wanted in wanted_types(operator, scope):
            if volume(wanted.shape) <= MAX_ELEMENTS and operator.recognises(wanted, scope.opset):
                call = operator.solve(scope, wanted)
                assert operator.infer(call)[0] == wanted
                assert all(volume(operand.shape) <= MAX_ELEMENTS for operand in call.present)
                found += 1
        if found >= 100 or (number > 150 and found >= 10):
            break
    assert found >= 10


@BACKWARDS
def test_what_is_sampled_is_recognised(operator):
    found = 0
    for number in range(3000):
        scope = scope_of(operator, number)
        call = sampled(operator, scope)
        if call is not None:
            wanted = operator.infer(call)[0]
            assert volume(wanted.shape) > MAX_ELEMENTS or operator.recognises(wanted, scope.opset), wanted
            found += 1
        if found == 60:
            break
    assert found >= 10


# Operators of torch itself: each entry's programs run in eager torch with the types and ranges it says

EAGER = (Config("eager"),)


def aten_programs_of(operator: Operator) -> Iterator[Program]:
    """A program of this one operator for each element type that it takes."""
    realms = frozenset({DTypeFamily.ATEN, DTypeFamily.NARROW})
    for dtype in operator.dtypes:
        scopes = (
            scope_of(operator, f"{dtype}/{number}", hazards=False, realms=realms) for number in range(300)
        )
        placed = (scope for scope in scopes if is_placed(operator, scope, dtype))
        yield from map(finish, itertools.islice(placed, 1))


@pytest.mark.parametrize("operator", aten_operators(), ids=lambda operator: operator.name.rpartition(".")[2])
def test_an_entry_runs_in_eager_torch_with_each_type_and_as_its_rules_say(operator, torch_sandbox):
    programs = list(aten_programs_of(operator))
    assert len(programs) >= 0.7 * len(operator.dtypes)
    for program in programs:
        (run,) = torch_sandbox.run(Job(program.model.SerializeToString(), program.inputs, EAGER))
        assert run.is_ok, run.message
        for name, value in run.outputs.items():
            assert value_agrees(value, program.types[name])
            assert is_within(value, program.ranges[name])


def test_none_is_in_a_program_of_another_target():
    assert not {operator.name for operator in aten_operators()} & {one.name for one in all_operators()}
    for case in make_cases(Plan(nodes=4), range(4 * BLOCK)):
        model = onnx.ModelProto.FromString(case.program)
        assert all(node.domain != DOMAIN for node in model.graph.node)


def test_a_mixture_for_torch_is_mostly_of_them():
    holding = 0
    for case in make_cases(Plan(nodes=4, dialect="aten"), range(4 * BLOCK)):
        nodes = onnx.ModelProto.FromString(case.program).graph.node
        holding += any(node.domain == DOMAIN for node in nodes)
    assert holding > 2.5 * BLOCK


# Of whatever the generators draw and ONNX defines it is known how it rounds

MADE = sorted(operator.name for operator in (*all_operators(), *aten_operators()))
SCHEMAS = sorted(f"{each.domain}.{each.name}".lstrip(".") for each in onnx.defs.get_all_schemas())


def test_every_operator_that_is_made_or_that_onnx_defines_has_its_arithmetic():
    assert [name for name in MADE if not arithmetic()[name].is_known] == []
    missing = [name for name in SCHEMAS if name not in arithmetic()]
    assert not missing, "say how it rounds; UNKNOWN if nobody has looked"


def test_what_is_declared_is_an_operator_that_there_is():
    elsewhere = {name for name in arithmetic() if name.startswith("com.microsoft.")}
    assert arithmetic().keys() - elsewhere <= {*SCHEMAS, *MADE}


@pytest.mark.parametrize(
    ("node", "rounding"),
    [
        (helper.make_node("ScatterElements", ["x", "i", "u"], ["y"]), Rounding.NOTHING),
        (helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add"), Rounding.TERMS),
        (helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="mul"), Rounding.INSIDE),
        (helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="max"), Rounding.NOTHING),
        (helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="average"), Rounding.UNKNOWN),
        (helper.make_node("Upsample", ["x", "s"], ["y"], mode="linear"), Rounding.INSIDE),
        (helper.make_node("Add", ["x", "y"], ["z"], domain="somebody.s"), Rounding.UNKNOWN),
    ],
)
def test_attributes_decide_how_a_node_rounds(node, rounding):
    assert arithmetic_of(node).rounding is rounding


TWICE, ONCE, DATA = np.array([1, 1]), np.array([1, 0]), np.ones((2, 2), "float32")


@pytest.mark.parametrize(
    ("name", "operands", "attributes", "is_open"),
    [
        ("index_put", (DATA, TWICE, DATA), {}, True),
        ("index_put", (DATA, TWICE, DATA), {"accumulate": 1}, False),
        ("index_put", (DATA, TWICE, ONCE, DATA[0]), {}, False),
        ("index_put", (DATA, DATA > 0, DATA[0, 0]), {}, False),
        ("put", (DATA, np.array([0, -4]), DATA[0]), {}, True),
        ("scatter", (DATA, np.stack([TWICE, ONCE]), DATA), {"dim": 1}, True),
        ("scatter", (DATA, np.stack([ONCE, ONCE]), DATA), {"dim": 1}, False),
        ("scatter", (DATA, np.stack([TWICE, TWICE])), {"dim": 1, "value": 2.0}, False),
        ("max_unpool2d", (DATA[None], np.stack([TWICE, ONCE])[None]), {}, True),
        ("_to_copy", (DATA * 300,), {"dtype": 2}, True),
        ("_to_copy", (DATA,), {"dtype": 2}, False),
    ],
)
def test_of_what_torch_writes_only_two_values_in_one_place_are_left_open(name, operands, attributes, is_open):
    node = helper.make_node(name, ["x"] * len(operands), ["y"], domain=DOMAIN, **attributes)
    assert any(check(node, operands) for check in arithmetic_of(node).opens.values()) is is_open


def test_a_scatter_sums_no_more_terms_than_it_has_updates():
    elements = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add")
    slices = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")
    dims = ((5, 4), (3, 2), (3, 2))
    assert [arithmetic_of(node).terms(node, dims) for node in (elements, slices)] == [7, 4]  # type: ignore[misc]


def test_arithmetic_contradicts_itself_nowhere():
    for name, row in arithmetic().items():
        assert row.terms is None or row.is_sum or row.rounding is Rounding.INSIDE, name
        assert row.nonfinite is Nonfinite.OPEN or row.rounding is Rounding.NOTHING, name
        assert row.is_known or row == UNKNOWN, name
        assert not row.asks_dims or row.rounding is Rounding.NOTHING, name
