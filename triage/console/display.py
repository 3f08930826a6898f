"""How a hunt shows where it is: a screen on a terminal, lines in a pipe, JSON lines with `--json`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from triage.console.output import is_plain, is_terminal, printable, say, stderr_console
from triage.console.progress import PLAIN_SECONDS, PlainLines, Progress, clock
from triage.console.screen import picture
from triage.console.situation import Situation

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

FRAME_SECONDS = 0.5


class Display(Progress, Protocol):
    """Progress that can show a whole situation."""

    def show(self, now: Situation) -> None:
        """Show the state of the hunt; call it often, since it draws only now and then."""


class PlainDisplay(PlainLines):
    """A line now and then."""

    def show(self, now: Situation) -> None:
        """Print the situation in a line, if the last such line is ten seconds old."""
        self.status(now.line())


class JsonLines:
    """JSON lines to stderr: `{"note": …}` at once, a situation every ten seconds."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._next = self._start + PLAIN_SECONDS

    def status(self, text: str) -> None:
        """Nothing: the situation says it."""

    def note(self, text: str) -> None:
        """A line at once."""
        self._say({"seconds": round(time.monotonic() - self._start, 1), "note": text})

    def show(self, now: Situation) -> None:
        """The situation, if the last one is ten seconds old."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_SECONDS
            self._say({"seconds": round(time.monotonic() - self._start, 1), **now.document()})

    def _say(self, document: dict[str, object]) -> None:
        say(json.dumps(document, ensure_ascii=False))


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

    def show(self, now: Situation) -> None:
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
    if not is_terminal(sys.stderr) or is_plain():
        yield PlainDisplay()
        return
    from rich.live import Live

    console = stderr_console()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveScreen(live, console)
