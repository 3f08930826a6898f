"""A bound on what a case may cost: opening, inlining, inference, every run of it, comparing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from corpus.allowance import OutOfTime, allowed
from corpus.errors import UserError
from oracles.run import Limits


@contextmanager
def bounded(timeout: float, name: str, times: int = 1) -> Iterator[None]:
    """Raise `UserError` in the block once a case has taken the CPU time of `times` whole checks.

    Only CPU time counts, so a busy machine changes nothing. Outside of the main thread crux's own part is
    not bounded.
    """
    seconds = times * Limits(cpu_seconds=timeout).check_seconds
    try:
        with allowed(seconds):
            yield
    except OutOfTime:
        raise UserError(
            f"{name}: has taken the {seconds:g} CPU seconds that a whole check may, and crux gives up; raise"
            " --timeout if it is meant to be as large"
        ) from None
