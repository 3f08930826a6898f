"""The true results of a program: what independent implementations compute in float64.

A truth decides nothing alone: it can be wrong itself, and a program may depend on the width of its floats. It
counts where it lies about as near to one of two differing results as they lie to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import onnx

from corpus.onnx.weights import with_weights
from corpus.values import Value
from oracles.numerics.float64_model import inputs_in_double, program_in_double
from oracles.run import Run
from oracles.sandbox.sandbox import Job

LARGEST = 64 << 20
"""Bytes of a program and its weights above which no copy of it is made in float64."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Outputs in float64 by name, and who says so; `is_own` where that is the un-optimised backend itself."""

    source: str
    outputs: Mapping[str, Value]
    is_own: bool = False


def truths(
    model: onnx.ModelProto,
    job: Job,
    referee: Callable[[Job], Run],
    own: Callable[[Job], Run] | None = None,
) -> Iterator[Truth]:
    """Yield the program's float64 results from each implementation that can run it."""
    is_small = len(job.program) + sum(file.size for file in job.external) <= LARGEST
    wide = program_in_double(with_weights(model, job.external)) if is_small else None
    if wide is None:
        return
    inputs = inputs_in_double(job.inputs)
    wide_job = replace(job, program=wide.SerializeToString(), inputs=inputs, external=())
    for ask in (referee, own):
        run = ask(wide_job) if ask is not None else None
        if run is not None and run.is_ok:
            yield Truth(f"{run.config.label} in float64", run.outputs, ask is own)
