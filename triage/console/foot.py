"""The line at the foot of a terminal: what a command does and for how long, while it writes nothing else."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

FIRST_SECONDS, AGAIN_SECONDS, TICK_SECONDS = 1.5, 0.3, 0.25
LINE_AWAY = "\r\x1b[K"


def clock(seconds: float) -> str:
    """Minutes and seconds: 1:07; from an hour on hours, too: 2:01:07."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


class Foot:
    """A thread draws the line, a few times a second; whoever writes to the terminal calls `clear` before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phase = self._detail = ""
        self._is_drawn = False
        self._rests = 0
        self._start = self._due = 0.0
        self._ended: threading.Event | None = None

    @contextmanager
    def shown(self, phase: str) -> Iterator[None]:
        """Within it the line appears after a second and a half, and goes on between what is written."""
        if self._ended is not None:
            yield
            return
        self._phase, self._detail, self._start = phase, "", time.monotonic()
        self._due = self._start + FIRST_SECONDS
        self._ended = ended = threading.Event()
        threading.Thread(target=self._draw_until, args=(ended,), daemon=True).start()
        try:
            yield
        finally:
            ended.set()
            self._ended = None
            self.clear()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Within it nothing is drawn: something else draws."""
        self._rests += 1
        self.clear()
        try:
            yield
        finally:
            self._rests -= 1

    def say(self, phase: str) -> None:
        """What is done from now on."""
        self._phase, self._detail = phase, ""

    def add(self, detail: str) -> None:
        """What a worker does meanwhile."""
        self._detail = detail

    def clear(self) -> None:
        """Take the line away; it comes back a little later."""
        with self._lock:
            if self._is_drawn:
                _write(LINE_AWAY)
                self._is_drawn = False
                self._due = time.monotonic() + AGAIN_SECONDS

    def _draw_until(self, ended: threading.Event) -> None:
        while not ended.wait(TICK_SECONDS):
            _listen(self.add)
            with self._lock:
                is_idle = not (self._rests or _is_adding() or ended.is_set())
                if is_idle and time.monotonic() >= self._due:
                    _write(self._line())
                    self._is_drawn = True

    def _line(self) -> str:
        elapsed = clock(time.monotonic() - self._start)
        room = _width() - len(elapsed) - 3
        text = ", ".join(each for each in (self._phase, self._detail) if each)
        text = "".join(sign if sign.isprintable() else " " for sign in text)
        text = text if len(text) <= room else f"{text[: max(room - 1, 0)]}…"
        return f"{LINE_AWAY}\x1b[1;36m{elapsed}\x1b[0m  {text}"


FOOT = Foot()
"""The one of this process."""


def doing(phase: str) -> None:
    """Say what the command does from now on, how much of it is left where that is known."""
    FOOT.say(phase)


def _listen(listener: object) -> None:
    """Hear from now on in which phase a worker is, where workers were imported."""
    processes = sys.modules.get("oracles.sandbox.processes")
    listeners = getattr(processes, "LISTENERS", None)
    if listeners is not None and listener not in listeners:
        listeners.append(listener)


def _is_adding() -> bool:
    """Whether packages are being installed, which draws for itself."""
    extras = sys.modules.get("oracles.extras")
    return extras is not None and getattr(extras, "lock", None) is not None and extras.lock.locked()


def _width() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except (OSError, ValueError):
        return 80


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return
