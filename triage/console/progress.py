"""How a long command shows where it is: a live line on a terminal, a plain line now and then in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from triage.console.output import is_plain, is_quiet, is_terminal, printable, say, stderr_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

PLAIN_SECONDS = 10.0
FRAMES_PER_SECOND = 4.0


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


class LiveLine:
    """A line at the foot of the terminal that is written over; notes scroll above it."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live, self._console = live, console
        self._start = self._drawn = time.monotonic()

    def status(self, text: str) -> None:
        """Write over the line at the foot, a few times a second at most."""
        if time.monotonic() - self._drawn >= 1 / FRAMES_PER_SECOND:
            self._drawn = time.monotonic()
            self._live.update(self._line(text), refresh=True)

    def note(self, text: str) -> None:
        """Print a line above the one at the foot."""
        self._console.print(self._line(text))

    def _line(self, text: str) -> Text:
        from rich.text import Text

        elapsed = clock(time.monotonic() - self._start)
        return Text.assemble((elapsed, "bold cyan"), "  ", printable(text), overflow="ellipsis", no_wrap=True)


@contextmanager
def progress() -> Iterator[Progress]:
    """The progress display that fits stderr."""
    if not is_terminal(sys.stderr) or is_plain() or is_quiet():
        yield PlainLines()
        return
    from rich.live import Live

    console = stderr_console()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveLine(live, console)


def clock(seconds: float) -> str:
    """Minutes and seconds: 1:07; from an hour on hours, too: 2:01:07."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def tally_text(tests: int, failures: int, seconds: float) -> str:
    """Say how many tests there were, how fast, and how many fail."""
    rate = tests / seconds if seconds > 0 else 0.0
    failing = f"{failures} failing" if failures else "none failing"
    return f"{tests:,} tests ({rate:.0f}/s), {failing}"
