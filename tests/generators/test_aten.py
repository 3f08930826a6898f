"""Operators of torch itself: each entry's programs run in eager torch with the types and ranges it says."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import onnx
import pytest

from corpus.onnx.check import checker_complaint
from generators.growth.fragments import new_scope
from generators.growth.grow import Program, finish
from generators.growth.steps import apply
from generators.language.profile import draw_profile
from generators.language.values import RandomSource
from generators.mixture import Plan, make_cases
from generators.seeds import BLOCK
from generators.strategies.aten import COMPANIONS
from oracles.operators import all_operators, aten_operators
from oracles.relation.operator import Operator
from oracles.relation.program import DoesNotFit, DTypeFamily
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config
from oracles.worker.onnx import DOMAIN
from tests.generators.agreement import is_within, value_agrees

SHORT = {operator.name.rpartition(".")[2]: operator for operator in aten_operators()}


def programs_of(operator: Operator) -> Iterator[Program]:
    """A program of this one operator for each element type that it takes."""
    for dtype in operator.dtypes:
        for number in itertools.count():
            draws = RandomSource(f"{operator.name}/{dtype}/{number}")
            profile = draw_profile(draws)
            dims = tuple(dim for dim in profile.dims if dim)
            realms = frozenset({DTypeFamily.ATEN, DTypeFamily.NARROW})
            scope = new_scope(draws, replace(profile, extreme=0.0, shared=0.0, dims=dims, realms=realms))
            try:
                focus = scope.create(dtype, scope.shape(draws.pick(operator.ranks)), operator.domain)
            except DoesNotFit:
                continue
            if apply(scope, operator, focus):
                yield finish(scope)
                break
            if number > 300:
                break


def job_of(program: Program) -> Job:
    return Job(program.model.SerializeToString(), program.inputs, (Config("eager"),))


@pytest.mark.parametrize("operator", aten_operators(), ids=lambda operator: operator.name.rpartition(".")[2])
def test_an_entry_runs_in_eager_torch_with_each_type_and_as_its_rules_say(operator, torch_sandbox):
    programs = list(programs_of(operator))
    assert len(programs) >= 0.7 * len(operator.dtypes)
    for program in programs:
        (run,) = torch_sandbox.run(job_of(program))
        assert run.is_ok, run.message
        for name, value in run.outputs.items():
            assert value_agrees(value, program.types[name])
            assert is_within(value, program.ranges[name])


def test_there_are_many_and_none_is_in_a_program_of_another_target():
    assert len(SHORT) > 150
    assert not {operator.name for operator in aten_operators()} & {one.name for one in all_operators()}
    for case in make_cases(Plan(nodes=4), range(4 * BLOCK)):
        model = onnx.ModelProto.FromString(case.program)
        assert all(node.domain != DOMAIN for node in model.graph.node)


def test_a_mixture_for_torch_is_mostly_of_them_and_the_checker_accepts_it():
    holding, checked = 0, 0
    for case in make_cases(Plan(nodes=4, dialect="aten"), range(4 * BLOCK)):
        model = onnx.ModelProto.FromString(case.program)
        names = {node.op_type for node in model.graph.node if node.domain == DOMAIN}
        holding += bool(names)
        assert case.settings or names <= set(SHORT)  # a disruptive one may hold an operator that is none
        if names and not case.settings and checked < 8:
            checked += 1
            assert checker_complaint(model) is None
            assert {each.domain: each.version for each in model.opset_import}[DOMAIN] == 1
    assert holding > 2.5 * BLOCK
    assert checked == 8


def test_companions_are_operators_of_onnx():
    assert {operator.name for operator in all_operators()} >= COMPANIONS
