"""Determinism: the optimised program, run again on the same inputs."""

from collections.abc import Iterator

from corpus.case import Case
from oracles.optional import Asking, VariantRun, named

NAME = "determinism"
TIMES = 3


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Several times over: memory is dirty from the second time on."""
    for time in range(TIMES):
        yield VariantRun(named(NAME, asking.optimised, f"again ({time + 2})"))
