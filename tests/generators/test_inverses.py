"""The laws of recognisers and solvers, for every entry that is found."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from corpus.onnx.check import checker_complaint
from corpus.onnx.types import inferred_types
from corpus.target import Target
from generators.growth.fragments import new_scope
from generators.growth.grow import Program, finish
from generators.growth.steps import place
from generators.language.profile import draw_profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from oracles.backends import find_backend
from oracles.operators import all_operators, find_operator
from oracles.relation.open_checks import volume
from oracles.relation.operator import Operator
from oracles.relation.program import MAX_ELEMENTS, ONNX_REALMS, Call, DoesNotFit
from oracles.relation.types import BOOL, F32, I64, U8, DType, TensorType
from oracles.sandbox.sandbox import Job
from tests.generators.agreement import inference_agrees, value_agrees

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]
OPERATORS = pytest.mark.parametrize("operator", all_operators(), ids=lambda operator: operator.name)


def scope_of(operator: Operator, number: int, *, hazards: bool = True) -> Scope:
    draws = RandomSource(f"back/{operator.name}/{number}")
    profile = draw_profile(draws)
    opset = draws.between(operator.since, operator.until)
    if not hazards:
        profile = replace(profile, extreme=0.0, shared=0.0, dims=tuple(dim for dim in profile.dims if dim))
    return new_scope(draws, replace(profile, opset=opset, realms=ONNX_REALMS))


def sampled(operator: Operator, scope: Scope) -> Call | None:
    dtype, rank = scope.draws.pick(operator.dtypes_at(scope.opset)), scope.draws.pick(operator.ranks)
    if not operator.takes(dtype, rank, scope.opset):
        return None
    try:
        return operator.sample(scope, scope.create(dtype, scope.shape(rank), operator.domain))
    except DoesNotFit:
        return None


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


@OPERATORS
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


@OPERATORS
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


@OPERATORS
def test_onnx_and_a_run_agree_with_what_was_solved(operator, ort_sandbox):
    """The type that onnx infers where it infers one, and the type that the un-optimised backend returns."""
    found = 0
    for program in solved(operator):
        assert checker_complaint(program.model) is None
        inferred = inferred_types(program.model)
        run = ort_sandbox.run(Job(program.model.SerializeToString(), program.inputs, UNOPTIMISED))[0]
        if run.signal:
            continue  # a crash of the un-optimised backend is a find of its own, and no word about the types
        assert run.is_ok, run.message
        for name, value in run.outputs.items():
            own = program.types[name]
            assert value_agrees(value, own)
            if name in inferred:
                assert inference_agrees(inferred[name], own)
        found += 1
    assert found >= 6


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Not", TensorType(F32, (2,))),
        ("Less", TensorType(F32, (2,))),
        ("MatMul", TensorType(F32, (2, 0))),
        ("Unsqueeze", TensorType(F32, (2, 3))),
        ("GlobalMaxPool", TensorType(F32, (1, 2, 3, 1))),
        ("Size", TensorType(I64, (1,))),
        ("DepthToSpace", TensorType(F32, (1, 1, 3, 2))),
        ("Conv", TensorType(F32, (2, 3))),
        ("LSTM", TensorType(F32, (3, 3, 1, 2))),
        ("QuantizeLinear", TensorType(BOOL, ())),
        ("ArgMax", TensorType(U8, (1,))),
    ],
)
def test_what_no_call_can_give_is_not_recognised(name, wanted):
    operator = find_operator(name)
    assert not any(operator.recognises(wanted, opset) for opset in range(operator.since, operator.until + 1))
