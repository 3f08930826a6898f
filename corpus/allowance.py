"""CPU time that a whole check may take, wherever it is spent: in crux's own process, and in others for it.

Whoever lets another process work says so by `take`; what this thread computes itself counts by itself. In
the main thread a timer strikes when nothing is left, so that no walk over a stranger's program goes on.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

AGAIN_SECONDS = 0.2
"""How soon the timer strikes again, for code that took the first strike for something else."""
RESERVE_SECONDS = 1.0
"""What no other process gets, so that crux can say what came of it."""


class OutOfTime(Exception):
    """The allowance is spent; `runs` are those of the job under way that had ended by then."""

    def __init__(self, runs: tuple[Any, ...] = ()) -> None:
        super().__init__("the CPU time for the whole check is spent")
        self.runs = runs


@dataclass
class Allowance:
    """So many CPU seconds, counted from its making; what it takes an outer one is charged for as well."""

    seconds: float
    outer: Allowance | None = None
    _others: float = 0.0
    _began: float = field(default_factory=time.thread_time)
    _around: tuple[Allowance, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._around = (self, *(self.outer._around if self.outer else ()))

    @property
    def left(self) -> float:
        """CPU seconds that are left of it and of those around it; negative when it is overdrawn."""
        now = time.thread_time()
        return min(each.seconds - each._others - (now - each._began) for each in self._around)

    def take(self, seconds: float) -> None:
        """Count what another process took."""
        for each in self._around:
            each._others += max(0.0, seconds)  # a worker's own word


_CURRENT: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def allowance() -> Allowance | None:
    """The allowance under which this thread works; None where nothing bounds it."""
    return _CURRENT.get()


def left_of(seconds: float) -> float:
    """So many seconds for another process, or what is left for one; raises `OutOfTime` if nothing is."""
    current = _CURRENT.get()
    if current is None:
        return seconds
    if current.left <= RESERVE_SECONDS:
        raise OutOfTime
    return min(seconds, current.left - RESERVE_SECONDS)


def is_short_of(seconds: float) -> bool:
    """Whether other processes cannot have this many seconds more."""
    current = _CURRENT.get()
    return current is not None and current.left - RESERVE_SECONDS < seconds


def take(seconds: float) -> None:
    """Count what another process took for this thread; nothing where nothing bounds it."""
    if current := _CURRENT.get():
        current.take(seconds)


def extend(seconds: float) -> None:
    """Let what bounds this thread last so much longer; nothing where nothing bounds it."""
    if current := _CURRENT.get():
        for each in current._around:
            each.seconds += seconds


@contextmanager
def allowed(seconds: float) -> Iterator[Allowance]:
    """Let the block take this many CPU seconds in all; raises `OutOfTime` in it once they are spent.

    Within another allowance it cannot take more than that one has left.
    """
    outer = _CURRENT.get()
    mine = Allowance(seconds, outer)
    token = _CURRENT.set(mine)
    try:
        with _timer(mine):
            yield mine
    finally:
        _CURRENT.reset(token)


@contextmanager
def _timer(mine: Allowance) -> Iterator[None]:
    """Strike when nothing is left; outside of the main thread, where no signal arrives, never."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def strike(number: int, frame: object) -> None:
        if mine.left > 0:  # what other threads took is not this one's
            _set(mine.left)
        else:
            raise OutOfTime

    earlier = signal.signal(signal.SIGPROF, strike)
    _set(mine.left)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, earlier)
        if mine.outer is not None:
            _set(mine.outer.left)


def _set(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01), AGAIN_SECONDS)
