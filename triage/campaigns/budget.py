"""What a hunt may use and has used: the clock, and the CPU time of all its processes."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oracles.sandbox.worker import processes, stat_of


def cpu_of_the_ended() -> float:
    """CPU seconds of the child processes that have ended, such as those of the scripts of reports."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of_all() -> float:
    """CPU seconds of this process and of all that descend from it, those that have ended included."""
    stats = {pid: fields for pid in processes() if (fields := stat_of(pid))}
    parents = {pid: int(fields[1]) for pid, fields in stats.items()}
    ticks = (sum(map(int, fields[11:15])) for pid, fields in stats.items() if _descends(pid, parents))
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def _descends(pid: int, parents: Mapping[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


LOOK_SECONDS = 0.5
"""Between two looks at what all processes have used."""

MARGIN = 1.25
"""How many times the expected time of a report must be left for it to begin."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a hunt: wall seconds, tests, CPU seconds, bytes of its store; 0 is no bound."""

    seconds: float
    tests: int = 0
    cpu: float = 0.0
    bytes: int = 0

    @property
    def span(self) -> float:
        """Seconds of the tighter bound: of CPU time where that is limited, else of the clock."""
        return min(self.seconds, self.cpu or self.seconds)


class Budget:
    """The time of one hunt, from now on. `elsewhere` tells its CPU seconds with testers on other machines."""

    def __init__(self, limits: Limits, elsewhere: Callable[[], float]) -> None:
        self.limits = limits
        self.start = time.monotonic()
        self._elsewhere = elsewhere
        self._before = cpu_of_all()
        self._cpu = self._next_look = 0.0

    def cpu_here(self) -> float:
        """CPU seconds of all its processes on this machine, as of half a second ago at most."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS
            self._cpu = max(self._cpu, cpu_of_all() - self._before)
        return self._cpu

    def cpu(self) -> float:
        """CPU seconds of the hunt: of all its processes here, or what its testers elsewhere say."""
        return max(self.cpu_here(), self._elsewhere())

    @property
    def clock(self) -> Callable[[], float]:
        """The clock that limits the hunt's work: that of its CPU time here, where that is limited."""
        return self.cpu_here if self.limits.cpu else time.monotonic

    @property
    def left(self) -> float:
        """Seconds until the deadline; no more than the CPU seconds that are left, if these are limited."""
        wall = self.limits.seconds - (time.monotonic() - self.start)
        return min(wall, self.limits.cpu - self.cpu()) if self.limits.cpu else wall

    def has_room_for(self, seconds: float) -> bool:
        """Whether work that is expected to take so long may begin: it must end within a limited CPU time."""
        self._next_look = 0.0
        return self.left > (MARGIN * seconds if self.limits.cpu else 0.0)


@dataclass
class Mean:
    """A mean that begins with a guess, which counts as one."""

    value: float
    count: int = 1
    total: float = 0.0

    def add(self, value: float) -> None:
        """Add a measured value."""
        self.total += value
        self.count += 1
        self.value += (value - self.value) / self.count
