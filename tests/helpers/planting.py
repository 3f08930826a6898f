"""An optimiser that is wrong: onnxruntime's runs, but what its optimised sessions get is another program."""

import sysconfig
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from corpus.case import Case
from oracles.judge import Judge
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Run

Change = Callable[[onnx.NodeProto], None]


def plant_fault(judge: Judge, patch: pytest.MonkeyPatch, operator: str, change: Change) -> None:
    """Has the judge's optimised runs make something else of every node of an operator."""

    def change_all(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            if node.op_type == operator:
                change(node)

    plant_optimiser(judge, patch, change_all)


def plant_optimiser(
    judge: Judge, patch: pytest.MonkeyPatch, change: Callable[[onnx.ModelProto], None]
) -> None:
    """Has the judge's optimised runs, and what it shows of an optimised program, be of a changed model."""
    executor, plain = judge.executor, judge.configs[0].get("level")
    run, optimised = executor.run, executor.optimised

    def changed(program: bytes) -> bytes:
        model = onnx.load_from_string(program)
        change(model)
        return model.SerializeToString()

    def wrongly(job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        wrong = replace(job, program=changed(job.program))
        jobs = [
            replace(job if config.get("level") == plain else wrong, configs=(config,))
            for config in job.configs
        ]
        return tuple(each for one in jobs for each in run(one, fresh=fresh))

    def wrongly_optimised(case: Case | Job, config: Config) -> onnx.ModelProto | None:
        return optimised(replace(case, program=changed(case.program)), config)

    patch.setattr(executor, "run", wrongly)
    patch.setattr(executor, "optimised", wrongly_optimised)


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
