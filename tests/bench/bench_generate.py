"""NNSmith's models beside ours: how fast they are made, how diverse they are, how well they run.

The same number of models with the same number of ONNX nodes, by the same measures in the same run.
"""

import os
import time

import numpy as np
import pytest

from corpus.target import Target
from generators.growth.grow import Program
from generators.language.profile import UNLIMITED, Counts, count
from generators.strategies import find_strategy
from oracles.judge import Judge
from oracles.numerics.input_noise import static_dims, tensor_types
from oracles.probes.record import record_whole
from oracles.relation.types import TensorType
from tests.bench.nnsmith import made, needs_nnsmith
from tests.generators.agreement import numbers

pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]


@needs_nnsmith
@pytest.mark.parametrize("nodes", [10, 20])
def test_beside_nnsmith(nodes, say, tmp_path):
    theirs, moments = made(tmp_path, nodes=nodes, models=int(os.environ.get("CRUX_NNSMITH_MODELS", "500")))
    say(f"\nNNSmith, {nodes}: {len(theirs) / moments[-1]:.1f} models per CPU-second; {facts(theirs)}")
    size = round(sum(len(operators(each)) for each in theirs) / len(theirs))
    for strategy in ("random", "coverage"):
        start = time.process_time()
        ours = list(find_strategy(strategy)(range(len(theirs)), size, None, UNLIMITED))
        rate = len(ours) / (time.process_time() - start)
        say(f"\n{strategy}, {size}: {rate:.0f} models per CPU-second; {facts(ours)}")


def operators(program: Program) -> list[str]:
    return [node.op_type for node in program.model.graph.node if node.op_type != "Constant"]


def facts(programs: list[Program]) -> str:
    """How many kinds of things they hold, and how many run un-optimised, with all values finite."""
    counts, ran, finite = Counts(), 0, 0
    with Judge(Target("ort")) as judge:
        for program in programs:
            known = tensor_types(program.model, program.inputs).items()
            types = {name: TensorType(each.elem_type, static_dims(each) or ()) for name, each in known}
            counts |= count(program.model, types)
            values = record_whole(judge.executor, program.as_case(0))
            ran += values is not None
            finite += values is not None and all(np.isfinite(numbers(each)).all() for each in values.values())
    return f"{counts.facts()}; run {ran}, finite {finite} of {len(programs)}"
