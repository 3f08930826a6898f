"""What several backends share in the worker: Python 3.8 syntax, numpy and the framework only."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

ROUNDS, SECONDS = 50, 0.1
"""A timed program runs so often before its last run, or until it has taken so many CPU seconds; but once."""


def rounds(settings: dict[str, Any], enter: Callable[[str], None]) -> Iterator[None]:
    """Yield for each run before the last, with the setting `warm`; each is an execution of its own."""
    start = time.thread_time()
    for _ in range(ROUNDS if settings.get("warm") else 0):
        yield
        enter("executed")
        if time.thread_time() > start + SECONDS:
            return
