"""Where a long hunt stands, and how it shows that: a screen on a terminal, lines in a pipe, JSON lines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from triage.console.foot import FOOT, clock, doing
from triage.console.output import is_live, printable, say, stderr_console, table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

PLAIN_SECONDS = 10.0


class Progress:
    """The place where a command tells its progress: lines to stderr, the status every ten seconds."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._next = self._start + PLAIN_SECONDS

    def is_due(self) -> bool:
        """Whether the last line of the status is ten seconds old, and another one may be printed now."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + PLAIN_SECONDS
        return True

    @property
    def seconds(self) -> float:
        """The seconds since its beginning."""
        return time.monotonic() - self._start

    def status(self, text: str) -> None:
        """Tell the present step; call it often, since it is shown only now and then."""
        if self.is_due():
            self.note(text)

    def note(self, text: str) -> None:
        """Print a line at once, which stays."""
        say(f"{clock(self.seconds)}  {text}")

    def show(self, now: HuntStatus) -> None:
        """Show the state of a hunt, if the last such line is ten seconds old."""
        self.status(now.line())


class FootLine(Progress):
    """The line at the foot of the terminal; notes scroll above it."""

    def status(self, text: str) -> None:
        """Say it in the line at the foot."""
        doing(text)


@contextmanager
def progress() -> Iterator[Progress]:
    """The progress display that fits stderr."""
    yield FootLine() if is_live(sys.stderr) else Progress()


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

    `rate` is in tests a second of fuzzing, `bugs` are counts by state, `blocks`
    those of the target's own code, 0 where it is not watched.
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
        return {**asdict(self), "bugs": dict(self.bugs)}

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


MOST_ARMS = 8


def picture(now: HuntStatus) -> RenderableType:
    """Draw a situation: what goes on, the figures, the arms with most tests, the last find."""
    from rich.console import Group
    from rich.text import Text

    end = f", {clock(now.left)} left" if now.left is not None else ""
    doing = now.doing if now.target in now.doing else f"{now.target}: {now.doing}"
    figures = [
        f"{now.tests:,} tests ({now.rate:,.0f}/s)",
        f"{now.valid_share:.1%} valid",
        f"coverage {now.coverage:,}",
        *([f"code blocks {now.blocks:,}"] if now.blocks else []),
        f"{now.failing:,} failing, {now.waiting:,} waiting",
        f"bugs {now.new:,} new, {now.known:,} known",
        f"CPU {clock(now.cpu)}, {now.memory / 2**20:,.0f} MB",
    ]
    last = f"{clock(now.last.ago)} ago {now.last.name} {now.last.what}: {now.last.title}" if now.last else ""
    lines = (f"{clock(now.elapsed)}{end}  {doing}", last or "no find yet")
    head, found = (Text(printable(text), no_wrap=True, overflow="ellipsis") for text in lines)
    head.stylize("bold")
    return Group(head, Text(", ".join(figures)), _arms(now), found)


def _arms(now: HuntStatus) -> RenderableType:
    """Show the tests of each strategy and mode, those with most tests first."""
    rows = [
        (
            each.name.replace("|", " "),
            f"{each.tests:,}",
            f"{each.share:.0%}",
            f"{1000 * each.cpu / each.tests:.1f}" if each.tests else "",
            f"{each.failures:,}",
            f"{each.earned:.1f}",
        )
        for each in sorted(now.arms, key=lambda each: -each.tests)[:MOST_ARMS]
    ]
    return table(("arm", "tests", "share", "CPU ms", "failing", "earned"), rows) if rows else ""


FRAME_SECONDS = 0.5


class JsonLines(Progress):
    """JSON lines to stderr: `{"note": …}` at once, a situation every ten seconds."""

    def status(self, text: str) -> None:
        """Nothing: the situation says it."""

    def note(self, text: str) -> None:
        """A line at once."""
        self._say({"note": text})

    def show(self, now: HuntStatus) -> None:
        """The situation, if the last one is ten seconds old."""
        if self.is_due():
            self._say(now.document())

    def _say(self, document: dict[str, Any]) -> None:
        say(json.dumps({"seconds": round(self.seconds, 1), **document}, ensure_ascii=False))


class LiveScreen(Progress):
    """Several lines at the foot of the terminal that are written over; notes scroll above them."""

    def __init__(self, live: Live, console: Console) -> None:
        super().__init__()
        self._live, self._console, self._drawn = live, console, 0.0

    def status(self, text: str) -> None:
        """Nothing: the situation says it."""

    def note(self, text: str) -> None:
        """Print a note above the screen, wrapped between words beside the time."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_row(Text(clock(self.seconds), "bold cyan"), Text(printable(text)))
        self._console.print(grid)

    def show(self, now: HuntStatus) -> None:
        """Draw the screen anew, twice a second at most."""
        if time.monotonic() - self._drawn >= FRAME_SECONDS:
            self._drawn = time.monotonic()
            self._live.update(picture(now), refresh=True)


@contextmanager
def display(as_json: bool) -> Iterator[Progress]:
    """The display that fits stderr."""
    if as_json:
        yield JsonLines()
        return
    if not is_live(sys.stderr):
        yield Progress()
        return
    from rich.live import Live

    console = stderr_console()
    with FOOT.resting(), Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveScreen(live, console)
