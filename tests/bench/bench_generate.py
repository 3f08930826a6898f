"""How fast programs grow, how diverse they are and how well they run; printed, never asserted."""

import json
import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import shape_inference

from corpus.onnx.check import checker_complaint
from corpus.target import Target
from corpus.values import Value
from generators.growth.grow import Program
from generators.language.profile import UNLIMITED, Counts, count, qualified_name
from generators.strategies import find_strategy, strategies
from oracles.backends import find_backend
from oracles.sandbox.sandbox import Job, Sandbox
from tests.generators.agreement import numbers

NNSMITH = "CRUX_NNSMITH_PYTHON"
pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]


def counted(programs: list[Program]) -> Counts:
    counts = Counts()
    for program in programs:
        counts |= count(program.model, program.types)
    return counts


@pytest.mark.parametrize("nodes", [5, 10, 20])
@pytest.mark.parametrize("strategy", [name for name in strategies() if name != "smt"])
def test_programs_per_cpu_second(strategy, nodes, capsys):
    find = find_strategy(strategy)
    list(find(range(20), nodes, None, UNLIMITED))
    start = time.process_time()
    programs = list(find(range(500), nodes, None, UNLIMITED))
    cases = [program.as_case(seed) for seed, program in enumerate(programs)]
    seconds = time.process_time() - start
    with capsys.disabled():
        facts = counted(programs).facts()
        print(f"\n{strategy}, {nodes} nodes: {len(cases) / seconds:.0f} cases per CPU-second; {facts}")


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


def printed(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}")


_NAMES = (
    "Add Sub Mul Div Pow Mod And BitwiseAnd Or BitwiseOr Xor Equal Less LessOrEqual Greater GreaterOrEqual "
    "Max Min BitShift Log Tan Tanh Cos Cosh Sin Sinh Acos Acosh Asin Asinh Atan Atanh Exp Erf Sqrt "
    "Reciprocal Sigmoid Floor Ceil Round Abs Sign Neg Not BitwiseNot Identity IsNaN IsInf"
)
HIRFUZZ = frozenset(_NAMES.split())
"""The paper's 58 operators (§4.2.1), as far as ONNX has them."""


def of_nnsmith(folder: Path, nodes: int, models: int) -> tuple[float, list[Program]]:
    """CPU seconds and the models that its interpreter wrote."""
    script = Path(__file__).with_name("nnsmith_models.py")
    command = [os.environ[NNSMITH], str(script), str(folder), str(nodes), str(models), "120"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3000)
    seconds = float(json.loads(done.stdout.splitlines()[-1])["seconds"])
    found = []
    for path in sorted(folder.glob("*.onnx"), key=lambda one: int(one.stem)):
        with np.load(path.with_suffix(".npz")) as values:
            found.append(Program(onnx.load(path), dict(values), {}, {}))
    return seconds, found


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


@pytest.mark.parametrize("nodes", [10, 20])
def test_beside_nnsmith(nodes, capsys, tmp_path):
    """The same number of models with the same number of ONNX nodes, by the same measures in the same run."""
    if NNSMITH not in os.environ:
        pytest.skip(f"{NNSMITH} names no interpreter that has nnsmith")
    seconds, theirs = of_nnsmith(tmp_path, nodes, int(os.environ.get("CRUX_NNSMITH_MODELS", "500")))
    found = of_models(program.model for program in theirs)
    printed(capsys, f"NNSmith, {nodes}: {len(theirs) / seconds:.1f} models per CPU-second; {found.facts()}")
    printed(capsys, f"NNSmith, {nodes}: {shares(theirs)}")
    size = round(found.nodes / len(theirs))
    for strategy in ("random", "coverage"):
        start = time.process_time()
        ours = list(find_strategy(strategy)(range(len(theirs)), size, None, UNLIMITED))
        rate = len(ours) / (time.process_time() - start)
        facts = of_models(program.model for program in ours).facts()
        printed(capsys, f"{strategy}, {size}: {rate:.0f} models per CPU-second; {facts}")
        printed(capsys, f"{strategy}, {size}: {shares(ours)}")


# The same measures over any generator's models, from the models alone: types are inferred anew

Type = tuple[int, tuple[int, ...] | None]


@dataclass
class Diversity:
    """Distinct pieces of all models that were added; Constants are values, not nodes."""

    nodes: int = 0
    op_types: set[str] = field(default_factory=set)
    op_dtypes: set[tuple[object, ...]] = field(default_factory=set)
    op_ranks: set[tuple[object, ...]] = field(default_factory=set)
    edges: set[tuple[str, str]] = field(default_factory=set)
    edges_dtype_slot: set[tuple[object, ...]] = field(default_factory=set)
    op_instances: set[tuple[object, ...]] = field(default_factory=set)

    def add(self, model: onnx.ModelProto) -> None:
        types = _types(model)
        producer: dict[str, str] = {}
        for node in model.graph.node:
            if node.op_type == "Constant":
                continue
            name = qualified_name(node)
            operands = [types.get(one) for one in node.input if one]
            dtypes = tuple(one[0] if one else 0 for one in operands)
            shapes = tuple(one[1] if one else None for one in operands)
            results = tuple(types[one][0] if one in types else 0 for one in node.output)
            self.nodes += 1
            self.op_types.add(name)
            self.op_dtypes.add((name, dtypes, results))
            self.op_ranks.add((name, tuple(-1 if one is None else len(one) for one in shapes)))
            self.op_instances.add((name, dtypes, shapes, _attributes(node)))
            for slot, one in enumerate(node.input):
                if one in producer:
                    self.edges.add((producer[one], name))
                    self.edges_dtype_slot.add((producer[one], name, slot, types.get(one, (0, None))[0]))
            producer.update(dict.fromkeys(node.output, name))

    def facts(self) -> dict[str, int]:
        sizes = {name: len(value) for name, value in vars(self).items() if isinstance(value, set)}
        return {"nodes": self.nodes, **sizes}


def of_models(models: Iterable[onnx.ModelProto]) -> Diversity:
    found = Diversity()
    for model in models:
        found.add(model)
    return found


def _types(model: onnx.ModelProto) -> dict[str, Type]:
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    found: dict[str, Type] = {
        info.name: _type(info.type.tensor_type) for info in (*graph.value_info, *graph.input, *graph.output)
    }
    found |= {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            value = node.attribute[0].t
            found[node.output[0]] = value.data_type, tuple(value.dims)
    return found


def _type(tensor: onnx.TypeProto.Tensor) -> Type:
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    return tensor.elem_type, tuple(
        dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim
    )


def _attributes(node: onnx.NodeProto) -> tuple[tuple[str, str], ...]:
    """By value; tensors and graphs by their presence."""
    large = (onnx.AttributeProto.TENSOR, onnx.AttributeProto.GRAPH)
    return tuple(
        sorted(
            (one.name, "" if one.type in large else str(onnx.helper.get_attribute_value(one)))
            for one in node.attribute
        )
    )
