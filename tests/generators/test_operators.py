"""What every operator's entry promises, checked for each entry that is found."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import shape_inference

from corpus.target import Target
from generators.growth.fragments import new_scope
from generators.growth.grow import Program, finish
from generators.growth.steps import apply
from generators.language.profile import draw_profile
from generators.language.values import RandomSource
from oracles.backends import find_backend
from oracles.operators import all_operators, find_operator
from oracles.relation.operator import Operator
from oracles.relation.program import LAST_OPSET, MAX_RANK, ONNX_REALMS
from oracles.relation.types import ANYTHING, BOOL, I64, DType, Range
from oracles.sandbox.sandbox import Job
from tests.generators.agreement import inference_agrees, is_within, spelt, value_agrees

OPERATORS = pytest.mark.parametrize("operator", all_operators(), ids=lambda operator: operator.name)

STANDARD = pytest.mark.parametrize(
    "operator",
    [operator for operator in all_operators() if operator.is_standard],
    ids=lambda operator: operator.name,
)

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]


def programs_of(operator: Operator, wanted: int = 12, *, hazards: bool = True) -> Iterator[Program]:
    """Programs of this one operator on fresh operands of each type that it takes."""
    for number in itertools.count():
        draws = RandomSource(f"{operator.name}/{number}")
        profile = draw_profile(draws)
        if not hazards:
            profile = replace(
                profile, extreme=0.0, shared=0.0, dims=tuple(dim for dim in profile.dims if dim)
            )
        scope = new_scope(draws, replace(profile, realms=ONNX_REALMS))
        dtype = draws.pick(operator.dtypes_at(LAST_OPSET))
        rank = draws.pick(operator.ranks)
        if not operator.takes(dtype, rank, scope.opset):
            continue
        focus = scope.create(dtype, scope.shape(rank), operator.domain, as_input=number % 2 == 0)
        if apply(scope, operator, focus):
            wanted -= 1
            yield finish(scope)
        if not wanted or number > 6000:
            return


def test_at_least_sixty_operators_of_every_usual_family_are_found():
    names = {operator.name for operator in all_operators()}
    assert len(names) >= 60
    assert {"Add", "Where", "ReduceSum", "Conv", "MaxPool", "MatMul", "Softmax", "Reshape", "Gather"} <= names
    assert {"QuantizeLinear", "Cast", "Pad", "LSTM", "Resize"} <= names


@STANDARD
def test_an_entry_names_an_operator_of_onnx_within_its_opsets(operator):
    schema = onnx.defs.get_schema(operator.name, operator.until)
    assert schema.since_version <= operator.until
    assert onnx.defs.get_schema(operator.name, operator.since) is not None
    allowed = {text for constraint in schema.type_constraints for text in constraint.allowed_type_strs}
    if operator.is_source:
        return
    allowed |= {parameter.type_str for parameter in schema.inputs}
    taken = [dtype for dtype in DType if operator.takes(dtype, operator.ranks[0], operator.until)]
    assert {spelt(dtype) for dtype in taken} <= allowed


@OPERATORS
def test_the_checker_accepts_what_its_sampler_makes_and_infers_the_same_types(operator):
    programs = list(programs_of(operator))
    assert len(programs) == 12
    for program in programs:
        onnx.checker.check_model(program.model, full_check=True)
        bare = onnx.ModelProto()
        bare.CopyFrom(program.model)
        names = [output.name for output in bare.graph.output]
        del bare.graph.output[:]
        bare.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        inferred = shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True)
        for info in inferred.graph.output:
            assert inference_agrees(info.type, program.types[info.name])


@OPERATORS
def test_the_backend_has_a_kernel_for_every_type(operator, ort_sandbox):
    """By onnxruntime's own table; what has no kernel at all is written out by its function body."""
    domain, _, name = operator.name.rpartition(".")
    rows = [row for row in ort_sandbox.ask("tables") if row[:3] == [domain, name, "CPUExecutionProvider"]]
    for opset in range(operator.since, operator.until + 1) if rows else ():
        version = opset if operator.is_standard else 1
        kernels = [row[5] for row in rows if row[3] <= version <= row[4]]
        # A condition can have one type only, which kernels therefore do not name.
        known = {"tensor(bool)", *(text for types in kernels for found in types.values() for text in found)}
        if not any({"T", "T1"} & set(types) for types in kernels):
            continue  # a kernel that names no type for its first operand
        for dtype in operator.dtypes_at(opset):
            # Half floats without a kernel of their own are cast to floats and back.
            assert spelt(DType.F32 if dtype is DType.F16 else dtype) in known, (opset, dtype.name)


@OPERATORS
def test_its_results_are_as_its_rules_say(operator, ort_sandbox):
    """Shape, element type and range of every result, by an un-optimised run; and everything is finite.

    Without hazards: those lead into the backend's own bugs.
    """
    crashed = 0
    for program in programs_of(operator, hazards=False):
        job = Job(program.model.SerializeToString(), program.inputs, UNOPTIMISED)
        (run,) = ort_sandbox.run(job)
        if run.signal:
            crashed += 1  # a find of its own, and no word about the rules
            continue
        assert run.is_ok, run.message
        for name, value in run.outputs.items():
            assert value_agrees(value, program.types[name])
            assert is_within(value, program.ranges[name])
    assert crashed <= 6


def test_a_divisor_is_never_zero_but_may_be_minus_one_under_the_least_integer():
    """The hazards of integers are drawn for Div as for any operator; only zero is kept out."""
    least, divisors = set(), set()
    for program in programs_of(find_operator("Div"), 400):
        node = program.model.graph.node[-1]
        values = {
            tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in program.model.graph.initializer
        }
        values |= dict(program.inputs)
        if node.input[1] in values and values[node.input[1]].dtype.kind == "i":
            divisors.update(values[node.input[1]].reshape(-1).tolist())
            dividend = values.get(node.input[0], np.zeros(0))
            least.update(dividend[dividend == np.iinfo(values[node.input[1]].dtype).min].tolist())
    assert 0 not in divisors
    assert -1 in divisors
    assert least


def test_bounds_of_the_types_hold_their_hazards():
    assert Range(-1, 1).is_within(ANYTHING)
    assert not Range(-1, 1).is_within(Range(-2, 2, 0.5))
    assert Range(0.5, 1).is_within(Range(-2, 2, 0.5))
    assert find_operator("Relu").takes(DType.I8, MAX_RANK, 14)
    assert not find_operator("Relu").takes(DType.I8, MAX_RANK, 13)
    assert not find_operator("Not").takes(I64, 1, LAST_OPSET)
    assert find_operator("Not").takes(BOOL, 1, LAST_OPSET)
