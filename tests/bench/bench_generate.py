"""How fast programs grow, how diverse they are and how well they run; printed, never asserted."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest

from corpus.formats.onnx import checker_complaint
from corpus.target import Target
from generators.budget import UNLIMITED
from generators.counts import Counts, count
from generators.grow import Program, grow
from generators.library import as_case
from generators.strategies import find_strategy, strategy_names
from oracles.backends import find_backend
from oracles.sandbox import Job, Sandbox

pytestmark = pytest.mark.bench

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]


def counted(programs: list[Program]) -> Counts:
    counts = Counts()
    for program in programs:
        counts |= count(program.model, program.types)
    return counts


@pytest.mark.parametrize("nodes", [5, 10, 20])
@pytest.mark.parametrize("strategy", strategy_names())
def test_programs_per_cpu_second(strategy: str, nodes: int, capsys: pytest.CaptureFixture[str]) -> None:
    find = find_strategy(strategy)
    list(find(range(20), nodes, None, UNLIMITED))
    start = time.process_time()
    programs = list(find(range(500), nodes, None, UNLIMITED))
    cases = [as_case(program, seed) for seed, program in enumerate(programs)]
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


def is_finite(value: object) -> bool:
    return not isinstance(value, np.ndarray) or bool(np.isfinite(value.astype(np.float64)).all())


@pytest.mark.parametrize("nodes", [10, 20])
def test_valid_and_finite_share(nodes: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Accepted by the checker, run un-optimised, all intermediates finite; and how many a CPU-second."""
    programs = [grow(seed, nodes) for seed in range(500)]
    accepted = sum(checker_complaint(program.model) is None for program in programs)
    ran = finite = 0
    seconds = 0.0
    with Sandbox("ort") as sandbox:
        for seed in range(500):
            start = time.process_time()
            program = grow(seed, nodes)
            (run,) = sandbox.run(Job(with_every_value(program.model), program.inputs, UNOPTIMISED))
            fine = run.is_ok and all(map(is_finite, run.outputs.values()))
            seconds += time.process_time() - start + run.cpu_seconds
            ran += run.is_ok
            finite += fine
            if not fine:
                with capsys.disabled():
                    print(f"\nseed {seed}: {run.message[:150]}")
    with capsys.disabled():
        print(f"\n{nodes} nodes: checker {accepted}, ran {ran}, finite {finite} of 500")
        print(f"{500 / seconds:.0f} verified programs per CPU-second")


@pytest.mark.parametrize("strategy", ["random", "coverage"])
def test_diversity_score(strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """HirFuzz's figure 6: every new piece of coverage is worth 1; 200 graphs of 100 operators."""
    facts = counted(list(find_strategy(strategy)(range(200), 100, None, UNLIMITED))).facts()
    score = facts["op_dtype"] + facts["op_shape"] + facts["op_edge"]
    with capsys.disabled():
        print(f"\n{strategy}: {score} = {facts}")
