"""An optimiser that is wrong: onnxruntime's runs, but what its optimised sessions get is another program."""

import sysconfig
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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


STALE = """
import os, weakref
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", ORT_DISABLE_TELEMETRY="1")
import numpy as np
from onnxruntime.capi import onnxruntime_pybind11_state as core

plain, largest = core.InferenceSession.run, weakref.WeakKeyDictionary()


def run(session, names, feeds, options=None):
    found = plain(session, names, feeds, options)
    rows = max((np.shape(value)[0] for value in feeds.values() if np.ndim(value)), default=0)
    is_stale = largest.get(session, 0) > rows
    largest[session] = max(rows, largest.get(session, 0))
    return [value + 1 for value in found] if is_stale else found


core.InferenceSession.run = run
"""
"""onnxruntime whose sessions give wrong results after a run with more rows."""


def stale_environment(folder: Path) -> Path:
    """An interpreter with this one's packages whose sessions keep what is of the largest run."""
    venv.create(folder, with_pip=False)
    (place,) = folder.glob("lib/python*/site-packages")
    (place / "stale.pth").write_text(f"{sysconfig.get_path('purelib')}\nimport stale\n")
    (place / "stale.py").write_text(STALE)
    return folder / "bin" / "python"


def reversed_operands(node: onnx.NodeProto) -> None:
    node.input[:] = list(node.input)[::-1]
