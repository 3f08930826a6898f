"""The first tensor in topological order at which two ways to run a program part.

Only what can be seen tells: tensors are made outputs, which keeps optimisers from merging nodes across them.
So all of them are asked for in one run first; where that hides the difference, one at a time by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from corpus.onnx.graph import free_names, outer_names, producers
from corpus.values import Value
from oracles.numerics.compare import distance
from oracles.sandbox.sandbox import Job
from oracles.verdict import Located, Run

Differs = Callable[[str, Value, Value], bool]
"""Whether the two values of a tensor, by its name, differ by more than rounding."""


@dataclass(frozen=True)
class Divergence:
    """The place where values first differ: the node, its tensor, and that tensor's two values.

    `together` says that every other tensor could be seen in the same run: the node's inputs were equal.
    """

    node: onnx.NodeProto
    name: str
    expected: Value
    actual: Value
    together: bool = False

    @property
    def error(self) -> float:
        """The greatest distance of the two values; infinite if their shapes differ."""
        if not isinstance(self.expected, np.ndarray) or not isinstance(self.actual, np.ndarray):
            return float("inf")
        if self.expected.shape != self.actual.shape or self.expected.dtype != self.actual.dtype:
            return float("inf")
        return float(distance(self.expected, self.actual).max(initial=0.0))

    def located(self, model: onnx.ModelProto) -> Located:
        """The same for a verdict, in the names of the model."""
        name = self.node.name or self.name
        return Located(self.name, name, self.node.op_type, self.error, self.right_until(model))

    def right_until(self, model: onnx.ModelProto) -> tuple[str, ...]:
        """The tensors that flow into the node and are right, computed ones first, weights left out."""
        weights = {tensor.name for tensor in model.graph.initializer}
        makers = producers(model.graph)
        read = [name for name in (*self.node.input, *sorted(free_names(self.node))) if name not in weights]
        return tuple(dict.fromkeys(sorted(filter(None, read), key=lambda name: name not in makers)))


@dataclass(frozen=True)
class FirstDivergence:
    """Runs one program with other outputs, in the one configuration of `job`, against recorded values."""

    model: onnx.ModelProto
    job: Job
    run: Callable[[Job], tuple[Run, ...]]
    values: Mapping[str, Value]
    differs: Differs

    def first(self, output: str, ancestors: set[str]) -> Divergence | None:
        """The first of the tensors that `output` is computed from to differ; None where none tells."""
        names = self._visible(ancestors)
        found = self._of(names)
        return replace(found, together=True) if found is not None else self._bisected(names, output)

    def _visible(self, ancestors: set[str]) -> list[str]:
        """The recorded tensors among those, in topological order."""
        outer = outer_names(self.model.graph)
        return [
            name
            for node in self.model.graph.node
            for name in node.output
            if name in ancestors and name in self.values and name not in outer
        ]

    def _of(self, names: Sequence[str]) -> Divergence | None:
        """The first of several tensors that differs while all of them are outputs."""
        seen, makers = self._seen(names), producers(self.model.graph)
        for name in names if seen else ():
            expected, actual = self.values[name], seen.get(name)
            if self.differs(name, expected, actual):
                return Divergence(makers[name], name, expected, actual)
        return None

    def _seen(self, names: Sequence[str]) -> Mapping[str, Value]:
        """The values of several tensors while all of them are outputs; none where that does not run."""
        program = onnx.ModelProto()
        program.CopyFrom(self.model)
        del program.graph.output[:], program.graph.value_info[:]
        program.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        run = self.run(replace(self.job, program=program.SerializeToString(), outputs=None))[0]
        return run.outputs if run.is_ok else {}

    def _bisected(self, names: Sequence[str], output: str) -> Divergence | None:
        """Once values part they stay apart as a rule, so that halving finds a first one."""
        if output not in names:
            return None
        good, bad, found = -1, names.index(output), None
        while bad - good > 1:
            middle = (good + bad) // 2
            at = self._of([names[middle]])
            if at is not None:
                bad, found = middle, at
            else:
                good = middle
        return found or self._of([output])
