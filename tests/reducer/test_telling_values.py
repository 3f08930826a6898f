"""A wrong node whose NaN shows only further down is left alone, by other values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from oracles.judge import Judge
from oracles.run import Run
from oracles.sandbox.sandbox import Job
from reducer.api import reduce_case
from reducer.options import Options
from tests.reducer.driving import ORT, case_of, model_of


@pytest.fixture
def swapping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    """A judge whose optimiser swaps the operands of Pow."""
    with Judge(ORT) as judge:
        run = judge.executor.run

        def wrongly(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
            plain = judge.configs[0]
            programs = [job.program if config == plain else swapped(job.program) for config in job.configs]
            jobs = [
                replace(job, configs=(config,), program=program)
                for config, program in zip(job.configs, programs, strict=True)
            ]
            return tuple(each for one in jobs for each in run(one, fresh=fresh))

        monkeypatch.setattr(judge.executor, "run", wrongly)
        yield judge


def swapped(program: bytes) -> bytes:
    model = onnx.load_from_string(program)
    for node in model.graph.node:
        if node.op_type == "Pow":
            node.input[0], node.input[1] = node.input[1], node.input[0]
    changed: bytes = model.SerializeToString()
    return changed


def test_a_wrong_node_whose_nan_shows_further_down_stands_alone(swapping: Judge, tmp_path: Path) -> None:
    text = (
        "g (float[1] a, float[1] b, float[1] z) => (float[1] y)"
        " { p = Pow(a, b) r = Reciprocal(p) n = Neg(r) y = Mul(n, z) }"
    )
    given = {"a": np.float32([1]), "b": np.float32([0]), "z": np.float32([0])}
    case = case_of(model_of(text), given)
    assert str(swapping.verdict(case).symptom) == "mismatch | compare | nan | optimised"
    reduce_case(case, tmp_path / "out", Options(target=ORT), judge=swapping)
    (node,) = onnx.load(tmp_path / "out" / "model.onnx").graph.node
    assert node.op_type == "Pow"
