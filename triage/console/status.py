"""Where a long hunt stands: what a screen, a plain line, a JSON line and a page are made of."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from triage.console.foot import FOOT, clock, doing
from triage.console.output import is_live, say

PLAIN_SECONDS = 10.0


class Progress(Protocol):
    """The place where a command tells its progress."""

    def status(self, text: str) -> None:
        """Tell the present step; call it often, since it is shown only now and then."""

    def note(self, text: str) -> None:
        """Something that happened: shown always, and stays."""


class PlainLines:
    """Lines to stderr: notes at once, the status every ten seconds."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._next = self._start + PLAIN_SECONDS

    def status(self, text: str) -> None:
        """Print how far it has come, if the last such line is ten seconds old."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_SECONDS
            self.note(text)

    def note(self, text: str) -> None:
        """Print a line at once."""
        say(f"{clock(time.monotonic() - self._start)}  {text}")


class FootLine(PlainLines):
    """The line at the foot of the terminal; notes scroll above it."""

    def status(self, text: str) -> None:
        """Say it in the line at the foot."""
        doing(text)


@contextmanager
def progress() -> Iterator[Progress]:
    """The progress display that fits stderr."""
    yield FootLine() if is_live(sys.stderr) else PlainLines()


TALKING = ("mcp", "wrap")
"""Commands that leave the terminal to others."""


@contextmanager
def waits_named(command: str) -> Iterator[None]:
    """Within a command, show on a terminal what it is doing whenever it writes nothing for long."""
    if command in TALKING or not is_live(sys.stderr):
        yield
        return
    with FOOT.shown(command):
        yield


def tally_text(tests: int, failures: int, seconds: float) -> str:
    """Say how many tests there were, how fast, and how many fail."""
    rate = tests / seconds if seconds > 0 else 0.0
    failing = f"{failures} failing" if failures else "none failing"
    return f"{tests:,} tests ({rate:.0f}/s), {failing}"


@dataclass(frozen=True, slots=True)
class StrategyStats:
    """A strategy with a mode: its tests, their share of all, what they cost and found.

    `earned` counts symptoms, each by the part that the arm had in it; `cpu` is in seconds.
    """

    name: str
    tests: int
    share: float
    cpu: float
    failures: int
    earned: float


@dataclass(frozen=True, slots=True)
class LatestFinding:
    """The last failure of which something was learned: its name and title, how many seconds ago that was.

    `what` says what it is: `new`, `another face of C0003`, `explained by C0003`, `looks like C0003`.
    """

    name: str
    title: str
    ago: float
    what: str = ""


@dataclass(frozen=True, slots=True)
class HuntStatus:
    """A hunt at one moment. Seconds are of the wall, but `cpu`; `left` is None without an end.

    `explained` and `faces` count the failures of this run that a bug explains, and that follow from one.
    `rate` is in tests a second over the last half minute of fuzzing, `bugs` are counts by state, `blocks`
    those of the target's own code, 0 where it is not watched. `parts` are the shares of CPU time of what the
    hunt does.
    """

    target: str
    doing: str
    elapsed: float
    left: float | None
    tests: int
    valid: int
    rate: float
    coverage: int
    blocks: int
    failing: int
    waiting: int
    bugs: Mapping[str, int]
    cpu: float
    memory: int
    arms: tuple[StrategyStats, ...] = ()
    last: LatestFinding | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    explained: int = 0
    faces: int = 0

    @property
    def valid_share(self) -> float:
        """The share of tests whose program was valid."""
        return self.valid / self.tests if self.tests else 1.0

    @property
    def new(self) -> int:
        """Bugs that nobody knows yet."""
        return sum(count for state, count in self.bugs.items() if state in NEW)

    @property
    def known(self) -> int:
        """Bugs that are known issues."""
        return self.bugs.get("known", 0)

    def document(self) -> dict[str, Any]:
        """The situation as JSON has it."""
        return {**asdict(self), "bugs": dict(self.bugs), "parts": dict(self.parts)}

    def line(self) -> str:
        """All that matters in one line."""
        parts = [
            f"{self.doing}: {self.tests:,} tests ({self.rate:.0f}/s)",
            f"{self.valid_share:.0%} valid",
            f"coverage {self.coverage:,}",
            f"{self.failing} failing",
            f"bugs {self.new} new, {self.known} known",
        ]
        if self.last:
            what = f", {self.last.what}," if self.last.what else ""
            parts.append(f"last {self.last.name}{what} {clock(self.last.ago)} ago")
        if self.left is not None:
            parts.append(f"{clock(self.left)} left")
        return ", ".join(parts)


NEW = ("regressed", "ready", "new", "not reduced")
"""The states of bugs that nobody knows yet, as lists of bugs name them."""
