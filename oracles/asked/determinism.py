"""Determinism: the optimised program, run again on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator

from corpus.case import Case
from oracles.asked import Asking, Way, named

NAME = "determinism"
TIMES = 3


def ways(case: Case, asking: Asking) -> Iterator[Way]:
    """Several times over: memory is dirty from the second time on."""
    for time in range(TIMES):
        yield Way(named(NAME, asking.optimised, f"again ({time + 2})"))
