"""What isolation costs: tests per CPU-second, un-optimised against optimised, and a test on TVM.

Run with `pytest -s tests/bench/bench_sandbox.py`. All CPU time counts: this process's, the zygote's, the
workers'. Nothing is asserted of times.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from corpus.target import Target
from generators.mixture import Plan, make_cases
from generators.mutations.modes import Mode
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.sandbox.sandbox import Job, Sandbox

TESTS = 200
CONFIGS = find_backend("ort").configs(Target("ort"))[:2]
UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Softplus", "Erf", "Floor", "Identity")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


@dataclass(frozen=True)
class Sample:
    program: bytes
    inputs: Mapping[str, Any]


def make_sample(seed: int) -> Sample:
    """Ten nodes over tensors of one small shape."""
    choose = random.Random(seed)
    shape = [choose.randint(1, 4) for _ in range(choose.randint(1, 4))]
    names = ["x0", "x1", "w"]
    nodes = []
    for index in range(10):
        operator = choose.choice(UNARY + BINARY)
        operands = [choose.choice(names[-4:]) for _ in range(1 if operator in UNARY else 2)]
        nodes.append(helper.make_node(operator, operands, [f"t{index}"]))
        names.append(f"t{index}")
    values = np.random.default_rng(seed)
    weight = helper.make_tensor("w", TensorProto.FLOAT, shape, values.random(int(np.prod(shape)), np.float32))
    ends = [
        [helper.make_tensor_value_info(name, 1, shape) for name in part] for part in (names[:2], names[-2:])
    ]
    graph = helper.make_graph(nodes, "g", ends[0], ends[1], [weight])
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    inputs = {name: values.random(shape, np.float32) for name in names[:2]}
    return Sample(model.SerializeToString(), inputs)


def agree(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        value is right[name] or np.allclose(value, right[name], rtol=1e-2, atol=1e-3, equal_nan=True)
        for name, value in left.items()
    )


def sandboxed(sandbox: Sandbox, *, fresh: bool) -> Callable[[Sample], bool]:
    def test(sample: Sample) -> bool:
        plain, optimised = sandbox.run(Job(sample.program, sample.inputs, CONFIGS), fresh=fresh)
        return plain.is_ok and optimised.is_ok and agree(plain.outputs, optimised.outputs)

    return test


def in_process(sample: Sample) -> bool:
    levels = onnxruntime.GraphOptimizationLevel
    found = []
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.intra_op_num_threads = level, 1
        session = onnxruntime.InferenceSession(sample.program, options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_outputs()]
        found.append(dict(zip(names, session.run(names, sample.inputs), strict=True)))
    return agree(*found)


def measure(
    test: Callable[[Sample], bool], samples: Sequence[Sample], sandbox: Sandbox | None = None
) -> tuple[float, float]:
    """CPU and wall seconds for all samples; every one must agree, or it is not the same work."""
    clock = time.process_time
    cpu, wall = clock() + (sandbox.cpu_seconds() if sandbox else 0.0), time.perf_counter()
    for sample in samples:
        assert test(sample)
    wall = time.perf_counter() - wall
    return clock() + (sandbox.cpu_seconds() if sandbox else 0.0) - cpu, wall


@pytest.mark.bench
def test_isolation(say):
    samples = [make_sample(seed) for seed in range(TESTS)]
    rows: list[tuple[str, float, float]] = []
    with Sandbox("ort") as sandbox:
        measure(sandboxed(sandbox, fresh=False), samples[:20], sandbox)
        measure(in_process, samples[:20])
        rows += [("in-process", *measure(in_process, samples))]
        rows += [("persistent worker", *measure(sandboxed(sandbox, fresh=False), samples, sandbox))]
        rows += [("fork per test", *measure(sandboxed(sandbox, fresh=True), samples, sandbox))]
    say(f"\n{'':20}{'tests/CPU-s':>12}{'CPU ms/test':>13}{'wall ms/test':>14}{'of in-process':>15}")
    for name, cpu, wall in rows:
        spent = f"{1000 * cpu / TESTS:13.2f}{1000 * wall / TESTS:14.2f}{rows[0][1] / cpu:15.0%}"
        say(f"{name:20}{TESTS / cpu:12.0f}{spent}")


SEEDS = range(63_000_000, 63_000_040)
MODES = ["opt-level=0", "opt-level=0@run=off", "opt-level=3", "executor=compiled@opt-level=0"]


@pytest.mark.bench
@pytest.mark.parametrize("mode", MODES)
def test_cpu_time_of_a_test(mode, say):
    cases = list(make_cases(Plan("random", Mode.STRICT, nodes=5), SEEDS))
    with Judge(Target.parse(f"tvm@{mode}"), lower_levels=False) as judge:
        judge.runs(cases[0], judge.configs[1:2])
        before = judge.executor.cpu_seconds()
        runs = [judge.runs(case, judge.configs[1:2])[0] for case in cases]
        seconds = judge.executor.cpu_seconds() - before
    used = [run.cpu_seconds for run in runs if run.is_ok]
    say(f"\ntvm@{mode}: {len(cases) / seconds:.1f} tests per CPU-second, {len(used)} end well,", end="")
    say(f" {1000 * sum(used) / len(used):.0f} ms of CPU time each")
