"""How fast programs grow, how diverse they are and how well they run; printed, never asserted."""

import os
import time
from collections.abc import Iterable

import numpy as np
import onnx
import pytest
from onnx import shape_inference

from corpus.onnx.check import checker_complaint
from corpus.target import Target
from corpus.values import Value
from generators.growth.grow import Program
from generators.language.profile import UNLIMITED, Counts, count
from generators.strategies import find_strategy, strategies
from oracles.backends import find_backend
from oracles.relation.types import TensorType
from oracles.sandbox.sandbox import Job, Sandbox
from tests.bench.nnsmith import made, needs_nnsmith
from tests.generators.agreement import numbers

pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]


def counted(programs: list[Program]) -> Counts:
    counts = Counts()
    for program in programs:
        counts |= count(program.model, program.types)
    return counts


@pytest.mark.parametrize("nodes", [5, 10, 20])
@pytest.mark.parametrize("strategy", [name for name in strategies() if name != "smt"])
def test_programs_per_cpu_second(strategy, nodes, say):
    find = find_strategy(strategy)
    list(find(range(20), nodes, None, UNLIMITED))
    start = time.process_time()
    programs = list(find(range(500), nodes, None, UNLIMITED))
    cases = [program.as_case(seed) for seed, program in enumerate(programs)]
    seconds = time.process_time() - start
    facts = counted(programs).facts()
    say(f"\n{strategy}, {nodes} nodes: {len(cases) / seconds:.0f} cases per CPU-second; {facts}")


def with_every_value(model: onnx.ModelProto) -> bytes:
    """The model with each inner value as an output too."""
    shown = {info.name for info in model.graph.output}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in model.graph.node:
        names = [name for name in node.output if name and name not in shown]
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    text: bytes = copy.SerializeToString()
    return text


def is_finite(value: Value) -> bool:
    return bool(np.isfinite(numbers(value)).all())


_NAMES = (
    "Add Sub Mul Div Pow Mod And BitwiseAnd Or BitwiseOr Xor Equal Less LessOrEqual Greater GreaterOrEqual "
    "Max Min BitShift Log Tan Tanh Cos Cosh Sin Sinh Acos Acosh Asin Asinh Atan Atanh Exp Erf Sqrt "
    "Reciprocal Sigmoid Floor Ceil Round Abs Sign Neg Not BitwiseNot Identity IsNaN IsInf"
)
HIRFUZZ = frozenset(_NAMES.split())
"""The paper's 58 operators (§4.2.1), as far as ONNX has them."""


def shares(programs: list[Program]) -> str:
    """Accepted by the checker, loaded and run un-optimised, all intermediates finite."""
    accepted = ran = finite = 0
    with Sandbox("ort") as sandbox:
        for program in programs:
            accepted += checker_complaint(program.model) is None
            (run,) = sandbox.run(Job(with_every_value(program.model), program.inputs, UNOPTIMISED))
            ran += run.is_ok
            finite += run.is_ok and all(map(is_finite, run.outputs.values()))
    return f"checker {accepted}, run {ran}, finite {finite} of {len(programs)}"


@needs_nnsmith
@pytest.mark.parametrize("nodes", [10, 20])
def test_beside_nnsmith(nodes, say, tmp_path):
    """The same number of models with the same number of ONNX nodes, by the same measures in the same run."""
    models = int(os.environ.get("CRUX_NNSMITH_MODELS", "500"))
    theirs, moments = made(tmp_path, nodes=nodes, models=models)
    found = of_models(program.model for program in theirs)
    say(f"\nNNSmith, {nodes}: {len(theirs) / moments[-1]:.1f} a CPU-second; {found.facts()}")
    say(f"\nNNSmith, {nodes}: {shares(theirs)}")
    size = round(
        sum(each.op_type != "Constant" for one in theirs for each in one.model.graph.node) / len(theirs)
    )
    for strategy in ("random", "coverage"):
        start = time.process_time()
        ours = list(find_strategy(strategy)(range(len(theirs)), size, None, UNLIMITED))
        rate = len(ours) / (time.process_time() - start)
        facts = of_models(program.model for program in ours).facts()
        say(f"\n{strategy}, {size}: {rate:.0f} models per CPU-second; {facts}")
        say(f"\n{strategy}, {size}: {shares(ours)}")


# The counts of any generator's models, from the models alone: types are inferred anew


def of_models(models: Iterable[onnx.ModelProto]) -> Counts:
    counts = Counts()
    for model in models:
        counts |= count(model, _types(model))
    return counts


def _types(model: onnx.ModelProto) -> dict[str, TensorType]:
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    infos = (*graph.value_info, *graph.input, *graph.output)
    found = {info.name: _type(info.type.tensor_type) for info in infos}
    weights = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            weights[node.output[0]] = node.attribute[0].t
    typed = {name: TensorType(each.data_type, tuple(each.dims)) for name, each in weights.items()}
    return found | typed


def _type(tensor: onnx.TypeProto.Tensor) -> TensorType:
    """Dims that are not known are -1; what is no tensor has the element type 0."""
    dims = (dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
    return TensorType(tensor.elem_type, tuple(dims))
