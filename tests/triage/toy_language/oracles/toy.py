"""The toy language to the judge: numpy says what is right, and nothing rounds."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from corpus.values import Value
from oracles.abilities import Language, Opened
from oracles.numerics.compare import Difference, Tolerance, compare
from oracles.probes.context import Context, Truth
from oracles.probes.noise import Noise
from oracles.probes.record import Recording
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Phase, Run, Status
from tests.triage.toy_language.program import parse


class ToyNoise(Noise):
    """None at all: whole numbers and halves are exact."""

    @property
    def recording(self) -> Recording:
        """The inputs alone."""
        return Recording(self._job.inputs, None, True)

    def ancestors(self, name: str) -> set[str]:
        """It may hang on anything; nobody asks."""
        return {name}

    def unknown_before(self, name: str) -> str:
        """Every operator is known."""
        return ""

    def widens(self, name: str) -> bool:
        """Values are floats of 32 bits."""
        return True

    def beyond_noise(
        self,
        expected: Mapping[str, Value],
        actual: Mapping[str, Value],
        tolerance: Tolerance,
        *,
        steps: bool = True,
    ) -> Iterator[Difference]:
        """Every difference."""
        found = (compare(name, value, actual.get(name), tolerance) for name, value in expected.items())
        yield from filter(None, found)


class ToyContext(Context):
    """One toy program on its way through the rules."""

    complaint = None
    is_random = False

    names = frozenset(("x",))

    @cached_property
    def noise(self) -> ToyNoise:
        """None."""
        return ToyNoise(self.job, self.rerun)

    @cached_property
    def _untold(self) -> Iterator[Truth]:
        return iter([Truth("numpy", self.referee.outputs)])

    def ask_referee(self, job: Job) -> Run:
        """What numpy makes of the program."""
        outputs = parse(job.program).evaluate(job.inputs)
        return Run(Config("numpy"), Status.OK, Phase.EXECUTE, outputs=outputs)


def open_context(
    opened: Opened, executor: Any, *, tolerance: Any, screen: Any, accept_invalid: bool
) -> ToyContext:
    """Open a case for the rules."""
    case = opened.case
    job = Job(case.program, case.inputs, executor.configs[:1], format=case.format)
    return ToyContext(job, executor, tolerance=tolerance, screen=screen)


LANGUAGE = Language(
    open=open_context, names=lambda program: ToyContext.names, pattern=lambda program: " ".join(program.ops)
)
