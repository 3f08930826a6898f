"""An optimiser that is wrong: onnxruntime's runs, but what its optimised sessions get is another program."""

from collections.abc import Callable
from dataclasses import replace

import onnx
import pytest

from oracles.judge import Judge
from oracles.sandbox.sandbox import Job
from oracles.verdict import Run

Change = Callable[[onnx.NodeProto], None]


def plant_fault(judge: Judge, patch: pytest.MonkeyPatch, operator: str, change: Change) -> None:
    """Has the judge's optimised runs make something else of every node of an operator."""
    run = judge.executor.run

    def wrongly(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        plain = judge.configs[0]
        jobs = [
            replace(
                job,
                configs=(config,),
                program=job.program if config == plain else changed(job.program, operator, change),
            )
            for config in job.configs
        ]
        return tuple(each for one in jobs for each in run(one, fresh=fresh))

    patch.setattr(judge.executor, "run", wrongly)


def changed(program: bytes, operator: str, change: Change) -> bytes:
    model = onnx.load_from_string(program)
    for node in model.graph.node:
        if node.op_type == operator:
            change(node)
    return model.SerializeToString()


def reversed_operands(node: onnx.NodeProto) -> None:
    node.input[:] = list(node.input)[::-1]
