"""What a rule may ask about the case before it: each answer is computed at most once, and only when asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import onnx
from corpus.formats.onnx import checker_complaint

from oracles.backends import Backend
from oracles.compare import Difference, Tolerance, distance
from oracles.names import names_of
from oracles.run import Run
from oracles.sandbox import Job
from oracles.sensitivity import Noise
from oracles.value_types import type_complaint


class Context:
    """One case on its way through the rules.

    `rerun` runs other programs in the backend's un-optimised configuration; `ask_referee` runs the case
    itself in an independent implementation. Both cost time, so only a suspicious case gets so far.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        job: Job,
        *,
        backend: Backend,
        tolerance: Tolerance,
        accept_invalid: bool,
        rerun: Callable[[Job], tuple[Run, ...]],
        ask_referee: Callable[[Job], Run],
    ) -> None:
        self.model = model
        self.job = job
        self.tolerance = tolerance
        self.notes: list[str] = []
        self._backend = backend
        self._accept_invalid = accept_invalid
        self._rerun = rerun
        self._ask_referee = ask_referee

    def classify(self, run: Run) -> str:
        """What the backend knows about its own message: `unsupported`, `out-of-memory`, `invalid-input`, ``."""
        return self._backend.classify(run)

    @cached_property
    def complaint(self) -> str | None:
        """Why the checker rejects the model; None when it does not, or when invalid models are accepted."""
        if self._accept_invalid:
            return None
        return checker_complaint(self.model) or type_complaint(self.model)

    @cached_property
    def names(self) -> frozenset[str]:
        return names_of(self.model)

    @cached_property
    def referee(self) -> Run:
        """The run of an independent implementation (the reference evaluator, or onnxruntime for that one)."""
        return self._ask_referee(self.job)

    @cached_property
    def noise(self) -> Noise:
        return Noise(self.model, self.job, self._rerun)

    def wrong_side(self, baseline: Run, other: Run, difference: Difference) -> tuple[str, tuple[str, ...]]:
        """Which side the referee contradicts, and a note when it cannot tell; then the optimised is presumed."""
        name = difference.output
        values = [run.outputs.get(name) for run in (self.referee, baseline, other)]
        if not self.referee.is_ok or any(value is None or isinstance(value, list) for value in values):
            return "optimised", ("wrong side presumed: the reference does not run it",)
        reference, expected, actual = values
        if not reference.shape == expected.shape == actual.shape:
            is_other = reference.shape == actual.shape != expected.shape
            return ("un-optimised" if is_other else "optimised"), ()
        differs = distance(expected, actual) > 0
        to_baseline = distance(reference, expected)[differs]
        to_other = distance(reference, actual)[differs]
        return ("un-optimised" if (to_other < 0.1 * to_baseline).mean() > 0.5 else "optimised"), ()
