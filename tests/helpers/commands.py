"""crux as a process of its own, and waiting for what a process does."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from triage.cli import run

ROOT = Path(__file__).parents[2]


def crux(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command line in a folder, in this process: one of its own takes a second to start."""
    out, err, given = (
        io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8", write_through=True) for text in ("", "", stdin)
    )
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", environment(folder)["XDG_STATE_HOME"])
        patch.setattr(sys, "stdin", given)
        code = run(arguments)
    return subprocess.CompletedProcess(arguments, code, *map(written, (out, err)))


def written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def crux_apart(folder: Path, *arguments: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, after some Python of the test's."""
    return completed(command(*arguments, setup=setup), cwd=folder, env=environment(folder))


def completed(command: Sequence[str | Path], **settings: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, at its end; `settings` as `subprocess.run` has them."""
    return subprocess.run(command, capture_output=True, text=True, **settings)


def command(*arguments: str, setup: str = "") -> list[str]:
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{setup}\nfrom triage.cli import main\nmain()"
    return [sys.executable, "-c", start, *arguments]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state")}


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


def hear_interrupts() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def on_a_terminal(*command: str, cwd: Path, **environment: str) -> tuple[str, float]:
    """What a command writes to a terminal, and its longest silence."""
    number, terminal = pty.fork()
    if number == 0:
        os.chdir(cwd)
        os.environ.pop("NO_COLOR", None)
        os.environ.update({"TERM": "xterm", **environment})
        os.execv(command[0], command)
    text, silences, last = b"", [0.0], time.monotonic()
    while True:
        try:
            more = os.read(terminal, 1 << 16)
        except OSError:  # it has ended
            break
        silences.append(time.monotonic() - last)
        last, text = time.monotonic(), text + more
    os.waitpid(number, 0)
    os.close(terminal)
    return text.decode(errors="replace"), max(silences)


def waited_for(condition: Callable[[], object], seconds: float = 600.0) -> bool:
    """Whether a condition came to hold; the limit is for what hangs, not for what is slow."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(holds)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def processes_with(word: str, of: str = "cmdline") -> list[int]:
    """The processes among whose words this is; or among whose variables, of `environ`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # another user's, or gone
            if word.encode() in (folder / of).read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
