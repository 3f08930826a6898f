"""A golden reference: a graph's results against another implementation's, in float64 (`golden` for Relax).

What all of a compiler's ways agree on may still be wrong: they share the lowering of operators.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from corpus.case import Case
from corpus.values import Value
from oracles.backends import find_backend
from oracles.numerics.compare import compare
from oracles.optional import Asking, VariantRun, named
from oracles.probes.context import Context
from oracles.rules import mismatch
from oracles.verdict import Config, Run, Verdict

NAME = "golden"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the program by the backend's referee, where it has one for such programs."""
    graphs = find_backend(asking.target.backend).graphs_of(case.format)
    referee = graphs.referee if graphs is not None else ""
    if referee and find_backend(referee).graphs_of(case.format) is not None:
        yield VariantRun(named(NAME, Config(referee, backend=referee)))


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A difference that rounding does not explain; each result in the element type of the run's own."""
    baseline, *others = runs
    for other in others:
        if other.is_ok and baseline.is_ok:
            same = replace(other, outputs=_typed_as(baseline, other))
            verdict = mismatch.judge(case, (baseline, same), context)
            return None if verdict is None else _titled(verdict, baseline, same, context)
    return None


def _titled(verdict: Verdict, baseline: Run, other: Run, context: Context) -> Verdict:
    """Rewrite the verdict's text so that the reference's value is the expected one."""
    name = verdict.wrong.output if verdict.wrong else ""
    expected, actual = other.outputs.get(name), baseline.outputs.get(name)
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return verdict
    difference = compare(name, expected, actual, context.tolerance)
    if difference is None:
        return verdict
    title = f"wrong {difference.kind} of {difference} ({baseline.config.label} against {other.config.label})"
    return replace(verdict, title=title)


def _typed_as(baseline: Run, other: Run) -> dict[str, Value]:
    return {name: _typed(baseline.outputs.get(name), value) for name, value in other.outputs.items()}


def _typed(like: Value | None, value: Value) -> Value:
    """Floats in the type of the other result, which is the program's."""
    if not isinstance(like, np.ndarray) or not isinstance(value, np.ndarray):
        return value
    is_float = value.dtype == np.float64 and like.dtype.kind in "fV"
    with np.errstate(over="ignore"):
        return value.astype(like.dtype) if is_float else value
