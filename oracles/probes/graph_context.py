"""What rules may ask about a case that is a graph of another format than ONNX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import onnx

from corpus.graphs.program import GraphProgram
from corpus.values import Value
from oracles.naming.names import names_of_graph
from oracles.numerics.compare import Tolerance
from oracles.numerics.graph_left_open import left_open_by_graph
from oracles.numerics.graph_operators import RANDOM
from oracles.probes.context import Context
from oracles.probes.graph_noise import GraphNoise
from oracles.probes.truth import Truth
from oracles.run import Config, Phase, Run, Status
from oracles.sandbox.sandbox import Job


class GraphContext(Context):
    """One such case on its way through the rules.

    Its ONNX model is an empty one: what a rule knows of ONNX's operators has nothing to say here. `describe`
    asks the framework for the types, or why the program is ill-formed. The referee is the program in float64
    where the backend can do that (`double`); elsewhere a well-formed program counts as one that runs.
    """

    def __init__(
        self,
        program: GraphProgram,
        job: Job,
        *,
        describe: Callable[[bytes, Mapping[str, Value]], Mapping[str, Any]],
        double: Config | None,
        classify: Callable[[Run], str],
        tolerance: Tolerance,
        screen: Tolerance | None = None,
        rerun: Callable[[Job], tuple[Run, ...]],
        run_as: Callable[[Job], tuple[Run, ...]],
    ) -> None:
        super().__init__(
            onnx.ModelProto(),
            job,
            classify=classify,
            tolerance=tolerance,
            screen=screen,
            accept_invalid=False,
            rerun=rerun,
            ask_referee=self._ask,
        )
        self.program = program
        self._describe = describe
        self._double = double
        self._run_as = run_as

    @cached_property
    def complaint(self) -> str | None:
        """Why the framework itself finds the program ill-formed."""
        answer = self._describe(self.job.program, self.job.inputs)
        return str(answer["error"]) if "error" in answer else None

    @cached_property
    def names(self) -> frozenset[str]:
        return names_of_graph(self.program)

    @cached_property
    def is_random(self) -> bool:
        return any(RANDOM.search(binding.op) for binding in self.program.main.walk())

    @cached_property
    def noise(self) -> GraphNoise:
        return GraphNoise(self.program, self.job, self.rerun)

    @cached_property
    def own_truth(self) -> Truth | None:
        return next(self._truths(), None)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        return None

    def left_open(self, output: str) -> str:
        wanted = self.noise.ancestors(output)
        return left_open_by_graph(self.program, wanted, self.noise.recording.values)

    @cached_property
    def _untold(self) -> Iterator[Truth]:
        is_told = self.referee.is_ok and self.referee.outputs
        return iter([Truth("float64", self.referee.outputs)] if is_told else [])

    def _ask(self, job: Job) -> Run:
        well_formed = Run(Config("well-formed"), Status.OK, Phase.EXECUTE)
        if self._double is None:
            return well_formed
        run = self._run_as(replace(job, configs=(self._double,)))[0]
        return well_formed if self.classify(run) == "unsupported" else run
