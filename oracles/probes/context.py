"""What a rule may ask about the case before it: each answer is computed at most once, and only when asked.

A truth decides nothing alone: it can be wrong itself, and a program may depend on the width of its floats. It
counts where it lies about as near to one of two differing results as they lie to each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import onnx

from corpus.onnx.model_file import with_weights
from corpus.values import Value
from oracles.numerics.compare import Difference, Tolerance, compare
from oracles.numerics.floor_quotients import FloorQuotient
from oracles.numerics.input_noise import inputs_in_double, program_in_double
from oracles.probes.divergence import Divergence
from oracles.probes.noise import Noise
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Located, Notes, Run

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

    @property
    def floor_quotients(self) -> Sequence[FloorQuotient]:
        """The results of the program that are floors of quotients, in order."""
        return ()

    def recorded_as(self, config: Config) -> Mapping[str, Value]:
        """What flows in and every result under a configuration; none where that is not told."""
        return {}

    @property
    def recorded_in_double(self) -> Mapping[str, Value]:
        """What flows in and every result in float64; none where nothing computes that."""
        return {}

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
