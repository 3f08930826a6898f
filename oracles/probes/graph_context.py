"""What rules may ask about a case that is a graph of another format than ONNX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from corpus.graphs.program import GraphProgram
from corpus.values import Value
from oracles.language import Opened
from oracles.naming.names import names_of_graph
from oracles.numerics.compare import Tolerance
from oracles.numerics.floor_quotients import FloorQuotient, floor_quotient
from oracles.numerics.graph_operators import RANDOM, left_open_by_graph
from oracles.probes.context import Context, Truth
from oracles.probes.graph_noise import GraphNoise
from oracles.probes.graph_record import recorded_outputs
from oracles.run import Config, Phase, Run, Status
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job


def open_graph(
    opened: Opened, executor: Executor, *, tolerance: Tolerance, screen: Tolerance, accept_invalid: bool
) -> GraphContext:
    """Open a graph for the rules, with the backend's way to compute it in float64."""
    case, graphs = opened.case, executor.backend.graphs_of(opened.case.format)
    double = Config("float64", graphs.double) if graphs is not None and graphs.double else None
    if graphs is not None and graphs.referee:
        double = Config("float64", backend=graphs.referee)
    job = Job(case.program, case.inputs, executor.configs[:1], format=case.format, passes=case.passes)
    job = replace(job, loads_only=case.loads_only)
    return GraphContext(case.parsed, job, executor, double=double, tolerance=tolerance, screen=screen)


class GraphContext(Context):
    """One such case on its way through the rules.

    The framework itself is asked for the types, or why the program is ill-formed. The referee is the program
    in float64 if the backend can do that (`double`); else a well-formed program counts as one that runs.
    """

    def __init__(
        self,
        program: GraphProgram,
        job: Job,
        executor: Executor,
        *,
        double: Config | None,
        tolerance: Tolerance,
        screen: Tolerance,
    ) -> None:
        super().__init__(job, executor, tolerance=tolerance, screen=screen)
        self.program = program
        self._double = double

    @cached_property
    def complaint(self) -> str | None:
        """The framework's reason for calling the program ill-formed; None if it is well-formed."""
        answer = self.executor.describe(self.job.program, self.job.inputs)
        return str(answer["error"]) if "error" in answer else None

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the program."""
        return names_of_graph(self.program)

    @cached_property
    def is_random(self) -> bool:
        """Whether an operator by its name draws random numbers."""
        return any(RANDOM.search(binding.op) for binding in self.program.main.walk())

    @cached_property
    def noise(self) -> GraphNoise:
        """The effect of rounding on the program's results."""
        return GraphNoise(self.program, self.job, self.rerun)

    @cached_property
    def own_truth(self) -> Truth | None:
        """The program in float64 by its own framework; None if it cannot be had."""
        return next(self._truths(), None)

    def left_open(self, output: str) -> str:
        """Say why the program leaves this output open; empty if it does not."""
        wanted = self.noise.ancestors(output)
        return left_open_by_graph(self.program, wanted, self.noise.recording.values)

    @cached_property
    def floor_quotients(self) -> tuple[FloorQuotient, ...]:
        """The bindings of the main graph that give the floor of a quotient, in order."""
        return tuple(filter(None, map(floor_quotient, self.program.main.bindings)))

    def recorded_as(self, config: Config) -> Mapping[str, Value]:
        """What flows in and every binding's tensor under a configuration; none if that fails."""
        job = replace(self.job, configs=(config,))
        found = recorded_outputs(self.program, job, self.executor.run)
        return {**self.program.constants, **self.job.inputs, **found} if found else {}

    @cached_property
    def recorded_in_double(self) -> Mapping[str, Value]:
        """What flows in and every binding's tensor in float64; none if the backend cannot do that."""
        return self.recorded_as(self._double) if self._double is not None else {}

    @cached_property
    def _untold(self) -> Iterator[Truth]:
        is_told = self.referee.is_ok and self.referee.outputs
        return iter([Truth("float64", self.referee.outputs)] if is_told else [])

    def ask_referee(self, job: Job) -> Run:
        """The program in float64; a run that is well if the backend cannot do that."""
        well_formed = Run(Config("well-formed"), Status.OK, Phase.EXECUTE)
        if self._double is None:
            return well_formed
        run = self.executor.run(replace(job, configs=(self._double,)))[0]
        return well_formed if self.classify(run) == "unsupported" else run
