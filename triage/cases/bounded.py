"""A bound on what a case may cost crux's own process: opening, inlining, inference, comparing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from corpus.errors import UserError

LEAST_SECONDS = 20.0
SHARE = 4.0
"""How often the CPU time that one run may take; the runs themselves are the workers' and have their own
limit.
"""


@contextmanager
def bounded(timeout: float, name: str) -> Iterator[None]:
    """Raise `UserError` in the block once crux itself has computed for too long on one case.

    Only CPU time of this process counts, so a busy machine changes nothing. Outside of the main thread, where
    no signal arrives, nothing is bounded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds = max(LEAST_SECONDS, SHARE * timeout)

    def strike(number: int, frame: object) -> None:
        raise UserError(
            f"{name}: crux has computed for {seconds:g} seconds on it alone, and gives up; raise --timeout"
            " if it is meant to be as large"
        )

    earlier = signal.signal(signal.SIGPROF, strike)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, earlier)
