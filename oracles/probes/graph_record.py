"""Recording a run of a graph of another format than ONNX: every binding's value, and where it breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from corpus.graphs.program import GraphProgram
from corpus.values import Value
from oracles.probes.record import Recording
from oracles.run import Run
from oracles.sandbox.sandbox import Job

LOCAL = "function"
"""The operator of a binding whose value is a function."""

Rerun = Callable[[Job], tuple[Run, ...]]


def record_graph(program: GraphProgram, job: Job, rerun: Rerun) -> Recording:
    """The un-optimised run with every binding as an output; of one that breaks, the longest prefix."""
    known: dict[str, Value] = {**program.constants, **job.inputs}
    count = len(program.main.bindings)
    prefix = partial(_prefix, program, job, rerun)
    whole = prefix(count)
    if whole.is_ok:
        return Recording({**known, **_tensors(whole)}, None, True)
    works, fails, best = 0, count, None
    while fails - works > 1:
        middle = (works + fails) // 2
        run = prefix(middle)
        works, fails, best = (middle, fails, run) if run.is_ok else (works, middle, best)
    values = _tensors(best) if best is not None else {}
    return Recording({**known, **values}, program.main.bindings[works].name, True)


def recorded_outputs(program: GraphProgram, job: Job, run: Rerun) -> dict[str, Value]:
    """Every binding's value under the job's own configuration; empty where that does not run."""
    whole = _prefix(program, job, run, len(program.main.bindings))
    return _tensors(whole) if whole.is_ok else {}


def _prefix(program: GraphProgram, job: Job, rerun: Rerun, count: int) -> Run:
    bindings = program.main.bindings[:count]
    values = tuple(binding.name for binding in bindings if binding.op != LOCAL)
    main = replace(program.main, bindings=bindings, outputs=values)
    return rerun(replace(job, program=replace(program, main=main).to_bytes(), outputs=values))[0]


def _tensors(run: Run) -> dict[str, Value]:
    """The tensors of a run; a tuple's members take the names of the bindings that use them."""
    return {name: value for name, value in run.outputs.items() if isinstance(value, np.ndarray)}
