"""What a rule may ask about the case before it, and the first tensor at which two ways to run it part.

Each answer is computed at most once, and only when asked. A truth decides nothing alone: it can be wrong
itself, and a program may depend on the width of its floats. It counts where it lies about as near to one of
two differing results as they lie to each other.

Of a divergence only what can be seen tells: tensors are made outputs, which keeps optimisers from merging
nodes across them. So all of them are asked for in one run first; where that hides the difference, one at a
time by bisection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx

from corpus.onnx.graph import free_names, outer_names, producers
from corpus.onnx.model_file import with_weights
from corpus.values import Value
from oracles.numerics.compare import Difference, Tolerance, compare, distance
from oracles.numerics.input_noise import inputs_in_double, program_in_double
from oracles.probes.noise import Noise
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Located, Notes, Run

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
        program = deepcopy(self.model)
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


REPEATS = 4

INTERPRETER = "the interpreter"
"""The truth of a language of which we have an interpreter of our own."""

EXACT_LEVELS = ("basic",)
"""Levels at which no group of quantised nodes becomes one integer kernel: every quantisation rounds alone."""


class Context(ABC):
    """One case on its way through the rules; the kinds of programs have a class each.

    `tolerance` says which differences are plain, `screen` which get a closer look. `executor` runs
    other programs, and the case itself in an independent implementation. Both cost time, so only a suspicious
    case gets so far. `earlier` holds un-optimised runs of the same program made before those under judgement.
    """

    def __init__(self, job: Job, executor: Executor, *, tolerance: Tolerance, screen: Tolerance) -> None:
        self.job = job
        self.executor = executor
        self.tolerance = tolerance
        self.screen = screen
        self.notes = Notes()
        self.earlier: tuple[Run, ...] = ()
        self.plain: Run | None = None
        self._told: list[Truth] = []

    def classify(self, run: Run) -> str:
        """Classify the backend's own message: `unsupported`, `invalid-input` …, or nothing."""
        return self.executor.classify(run)

    def rerun(self, job: Job) -> tuple[Run, ...]:
        """Run another program in the backend's un-optimised configuration."""
        return self.executor.rerun(job)

    def run_as(self, job: Job, config: Config) -> Run:
        """Run another program under a configuration."""
        return self.executor.run(replace(job, configs=(config,)))[0]

    def ask_referee(self, job: Job) -> Run:
        """Run a program in an independent implementation."""
        return self.executor.ask_referee(job)

    @property
    @abstractmethod
    def complaint(self) -> str | None:
        """Say why the program is invalid; None if it is valid, or if invalid programs are accepted."""

    @property
    def contradiction(self) -> str:
        """Say which dim that the program names once has two sizes in the inputs; empty if none has."""
        return ""

    @property
    @abstractmethod
    def names(self) -> frozenset[str]:
        """The names in the program, which messages are made blind to."""

    @property
    @abstractmethod
    def is_random(self) -> bool:
        """Whether the program draws random numbers, so that two runs may differ."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The effect of rounding on the program's results."""

    @property
    def undefined(self) -> str:
        """Say what undefined thing the program does, by an interpreter of its language; empty if none."""
        return ""

    def excuse(self, run: Run) -> str:
        """Say what the program does itself that lets this run fail as it pleases; empty if nothing."""
        return self.undefined

    def contradicted_by_interpreter(self, run: Run) -> tuple[Difference, Value] | None:
        """The first output of a run that is another than an interpreter's, and what that gives."""
        return None

    @property
    def steps(self) -> float:
        """Bound the number of nodes that the program runs, with loops and calls; 0 if nothing tells."""
        return 0

    @property
    def nodes(self) -> Sequence[onnx.NodeProto]:
        """The nodes of an ONNX model's main graph; none of another program."""
        return ()

    @property
    def has_open_operators(self) -> bool:
        """Whether a specification leaves open what some operator gives on some operands."""
        return False

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape that inference gives a value on these inputs; None if it is not known."""
        return None

    def declared(self, name: str) -> onnx.TypeProto.Tensor | None:
        """The type that a value of the main graph must have; None if nothing says so."""
        return None

    def alone(self, node: onnx.NodeProto, name: str) -> tuple[onnx.ModelProto, Job] | None:
        """A node as a program of its own that gives `name`, on recorded operands; None if it cannot be."""
        return None

    def orders_nan(self, node: onnx.NodeProto) -> bool:
        """Whether what a node makes of NaN is no matter of the framework's own choice."""
        return True

    def as_defined(self, divergence: Divergence) -> Value:
        """What the operators that define this one give for its operands; None if none do."""
        return None

    def written_out(self) -> tuple[Job, Noise] | None:
        """The program with its functions inlined, and its noise; None if it calls none."""
        return None

    def left_open(self, output: str) -> str:
        """Say why the program leaves this output open, if the whole program tells; else empty."""
        return ""

    def divergence(self, config: Config, output: str) -> Divergence | None:
        """The first tensor before an output at which a configuration parts from the un-optimised run."""
        return None

    def wrong_segments(self, config: Config) -> Iterator[tuple[Difference, Divergence, Iterator[Truth]]]:
        """The tensors that a configuration computes wrongly from what flows into their segment.

        Each with its difference and the segment's results in float64.
        """
        return iter(())

    def located(self, divergence: Divergence) -> Located | None:
        """A parting for a verdict, in the names of the program; None if these are not known."""
        return None

    def is_refused_alone(self, config: Config) -> bool:
        """Whether the configuration lacks what some node of the main graph needs by itself, too."""
        return False

    @cached_property
    def referee(self) -> Run:
        """The run of an independent implementation (the reference evaluator, or onnxruntime for that one)."""
        return self.ask_referee(self.job)

    @property
    def own_truth(self) -> Truth | None:
        """Run the program in float64 on the un-optimised backend; None if the backend cannot."""
        return None

    def truths_of(self, divergence: Divergence) -> Iterator[Truth]:
        """Yield the referee's float64 results of the one node, on the values that flow into it."""
        return iter(())

    def truths_for(self, output: str) -> Iterator[Truth]:
        """Yield the program's float64 results: the referee's, then the un-optimised backend's.

        Skip the backend's own if every float before the output is float64 already: it would repeat the same
        arithmetic.
        """
        for truth in self._truths():
            if not truth.is_own or self.noise.widens(output):
                yield truth

    def _truths(self) -> Iterator[Truth]:
        yield from tuple(self._told)
        for truth in self._untold:
            self._told.append(truth)
            yield truth

    @property
    @abstractmethod
    def _untold(self) -> Iterator[Truth]:
        """The truths that were not computed yet; the same iterator each time."""

    @cached_property
    def repeats(self) -> tuple[Run, ...]:
        """More un-optimised runs on the same inputs, in one process: memory is dirty from the second on."""
        return self.earlier + self.more_runs()

    def more_runs(self) -> tuple[Run, ...]:
        """So many un-optimised runs of now."""
        return tuple(run for _ in range(REPEATS) for run in self.rerun(self.job))


def other_values(runs: tuple[Run, ...], context: Context) -> Iterator[tuple[str, Run]]:
    """Yield each output whose values differ from the own baseline's, with the run that gave them."""
    baseline = runs[0]
    if not baseline.is_ok or baseline.config.backend:
        return
    for run in (run for run in runs[1:] if run.is_ok):
        for output, value in baseline.outputs.items():
            found = compare(output, value, run.outputs.get(output), context.screen)
            if found is not None and found.kind == "value":
                yield output, run


def own(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs of the target itself: not a baseline that is another backend's."""
    return tuple(run for run in runs if not run.config.backend)


def side_of(run: Run, runs: tuple[Run, ...]) -> str:
    """`optimised` for a failure that optimisation brings about: the target's own baseline has none."""
    return "" if run is own(runs)[0] or runs[0].config.backend else "optimised"


def evidence(runs: tuple[Run, ...], decisive: Run) -> tuple[Run, ...]:
    """The runs that a verdict rests on: the baseline and the decisive one; all where that is the baseline."""
    return runs if decisive is runs[0] else (runs[0], decisive)
