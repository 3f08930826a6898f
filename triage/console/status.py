"""Where a long hunt stands, and how it shows that: a screen on a terminal, lines in a pipe, JSON lines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from triage.console.foot import FOOT, clock, doing
from triage.console.output import is_live, printable, say, stderr_console

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

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
        """Print how far it has come, if the last such line is ten seconds old."""
        if self.is_due():
            self.note(text)

    def note(self, text: str) -> None:
        """Print a line at once."""
        say(f"{clock(self.seconds)}  {text}")


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


WIDE = 132
"""From this many columns on the parts stand side by side."""
MOST_ARMS, MOST_ARMS_WIDE = 6, 8
Cells = tuple[str, ...]


def picture(now: HuntStatus, width: int) -> RenderableType:
    """Draw a situation for a terminal of `width` columns."""
    from rich.console import Group
    from rich.table import Table

    if width < WIDE:
        return Group(_head(now, width), _numbers(now, width), _arms(now, MOST_ARMS), _last(now, width))
    side = Table.grid(padding=(0, 4))
    side.add_column(ratio=2)
    side.add_column(ratio=3)
    left = Group(_numbers(now, width * 2 // 5), _parts(now))
    side.add_row(left, _arms(now, MOST_ARMS_WIDE))
    side.expand = True
    return Group(_head(now, width), side, _last(now, width))


def _head(now: HuntStatus, width: int) -> RenderableType:
    """Show the present step, the progress, and a bar."""
    from rich.console import Group
    from rich.text import Text

    end = f" of {clock(now.elapsed + now.left)}, {clock(now.left)} left" if now.left is not None else ""
    time = f"{clock(now.elapsed)}{end}"
    what = now.doing if now.target in now.doing else f"{now.target}: {now.doing}"
    room = width - len(time) - 2
    what = printable(what if len(what) <= room else what[: max(room - 1, 0)] + "…")
    head = Text.assemble((what.ljust(room), "bold"), "  ", (time, "cyan"), no_wrap=True)
    if now.left is None:
        return head
    full = round(width * now.elapsed / max(now.elapsed + now.left, 1e-9))
    return Group(
        head, Text.assemble(("━" * full, "cyan"), ("━" * (width - full), "bright_black"), no_wrap=True)
    )


def _numbers(now: HuntStatus, width: int) -> Table:
    """Return two columns of figures."""
    found = [
        ("tests", f"{now.tests:,}"),
        ("tests/s", f"{now.rate:,.0f}"),
        ("valid", f"{now.valid_share:.1%}"),
        ("coverage", f"{now.coverage:,}"),
        ("failing", f"{now.failing:,}"),
        ("waiting", f"{now.waiting:,}"),
        ("bugs, new", f"{now.new:,}"),
        ("bugs, known", f"{now.known:,}"),
        ("explained", f"{now.explained:,}"),
        ("faces", f"{now.faces:,}"),
        ("CPU", clock(now.cpu)),
        ("memory", f"{now.memory / 2**20:,.0f} MB"),
    ]
    if now.blocks:
        found.append(("code blocks", f"{now.blocks:,}"))
    return _grid(found, columns=2 if width < 64 else 3, width=width)


def _grid(found: list[tuple[str, str]], columns: int, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    each = width // columns
    for _ in range(columns):
        grid.add_column(width=min(12, each // 2))
        grid.add_column(width=each - min(12, each // 2) - 2, overflow="ellipsis", no_wrap=True)
    for at in range(0, len(found), columns):
        row: list[Text] = []
        for name, value in found[at : at + columns]:
            style = "bold green" if name == "bugs, new" and value != "0" else "bold"
            row += [Text(name, "bright_black"), Text(value, style)]
        grid.add_row(*row)
    return grid


def _arms(now: HuntStatus, most: int) -> RenderableType:
    """Show the tests of each strategy and mode, those with most tests first."""
    arms = sorted(now.arms, key=lambda each: -each.tests)[:most]
    rows = [
        (
            each.name.replace("|", " "),
            f"{each.tests:,}",
            f"{each.share:.0%}",
            f"{1000 * each.cpu / each.tests:.1f}" if each.tests else "",
            f"{each.failures:,}",
            f"{each.earned:.1f}",
        )
        for each in arms
    ]
    return _table(("arm", "tests", "share", "CPU ms", "failing", "earned"), rows)


def _parts(now: HuntStatus) -> RenderableType:
    whole = sum(now.parts.values()) or 1.0
    rows = [
        (name, f"{cpu / whole:.0%}") for name, cpu in sorted(now.parts.items(), key=lambda each: -each[1])
    ]
    return _table(("CPU goes to", ""), rows)


def _table(columns: Cells, rows: Iterable[Cells]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bright_black")
    for at, column in enumerate(columns):
        made.add_column(column, justify="right" if at else "left", no_wrap=True)
    filled = False
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
        filled = True
    return made if filled else Text("")


def _last(now: HuntStatus, width: int) -> Text:
    """The failure of which something was learned last, and what: in one line."""
    from rich.text import Text

    if now.last is None:
        return Text("no find yet", "bright_black")
    head = f"{clock(now.last.ago)} ago {now.last.name} "
    what = f"{now.last.what}: " if now.last.what else ""
    room = max(width - len(head) - len(what), 0)
    title = printable(now.last.title)
    title = title if len(title) <= room else title[: max(room - 1, 0)] + "…"
    return Text.assemble((head, "bright_black"), (what, "bold"), title, no_wrap=True)


FRAME_SECONDS = 0.5


class Display(Progress, Protocol):
    """Progress that can show a whole situation."""

    def show(self, now: HuntStatus) -> None:
        """Show the state of the hunt; call it often, since it draws only now and then."""


class PlainDisplay(PlainLines):
    """A line now and then."""

    def show(self, now: HuntStatus) -> None:
        """Print the situation in a line, if the last such line is ten seconds old."""
        self.status(now.line())


class JsonLines(PlainLines):
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


class LiveScreen:
    """Several lines at the foot of the terminal that are written over; notes scroll above them."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live, self._console = live, console
        self._start = time.monotonic()
        self._drawn = 0.0
        self._doing = ""

    def status(self, text: str) -> None:
        """Note a detail, such as the progress of a reduction, for the next drawing."""
        self._doing = text

    def note(self, text: str) -> None:
        """Print a note above the screen, wrapped between words beside the time."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_row(Text(clock(time.monotonic() - self._start), "bold cyan"), Text(printable(text)))
        self._console.print(grid)

    def show(self, now: HuntStatus) -> None:
        """Draw the screen anew, twice a second at most."""
        if time.monotonic() - self._drawn >= FRAME_SECONDS:
            self._drawn = time.monotonic()
            self._live.update(picture(now, self._console.width), refresh=True)


@contextmanager
def display(as_json: bool) -> Iterator[Display]:
    """The display that fits stderr."""
    if as_json:
        yield JsonLines()
        return
    if not is_live(sys.stderr):
        yield PlainDisplay()
        return
    from rich.live import Live

    console = stderr_console()
    with FOOT.resting(), Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveScreen(live, console)
