"""Running a `repro.py` in fresh processes before anybody is told that it shows a bug.

The script runs the model outside of the worker, but confined like one: limits, no network, and nothing to
write to but its own folder.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oracles.sandbox.container import kernel
from oracles.sandbox.container.start import command_in

TIMES = 3
SHOWS = 1
SAYS = "THE BUG SHOWS"
"""Beside the exit code, which a script that fails by itself has too."""
SAVE = "--save"
"""The option of the scripts that build a model of ONNX."""
GRACE_SECONDS = 30.0
ENDING_SECONDS = 1.0
QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1"} | {
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",  # which takes longer than the few kernels of a script
}


@dataclass(frozen=True)
class Proof:
    """How often the script showed the bug, what it printed the last time, and the model that it builds."""

    shown: int
    times: int
    text: str
    model: bytes

    @property
    def holds(self) -> bool:
        return self.shown == self.times


def prove(script: str, beside: Mapping[str, bytes | Path], python: str, seconds: float, memory: int) -> Proof:
    """Run the script `TIMES` times, each in a new process beside the files that it reads."""
    with tempfile.TemporaryDirectory(prefix="crux-repro-") as name:
        folder = Path(name) / "work"
        folder.mkdir()
        (folder / "repro.py").write_text(script)
        for inside, content in beside.items():
            _place(folder / inside, content)
        model = _saved_model(folder, python, seconds, memory) if SAVE in script else b""
        shown, text = 0, ""
        for _ in range(TIMES):
            code, text = _run(folder, python, [], seconds, memory)
            if code != SHOWS or SAYS not in text:
                break
            shown += 1
        return Proof(shown, TIMES, text.replace(f"{folder}/", ""), model)


def _place(path: Path, content: bytes | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.symlink_to(content.resolve())


def _saved_model(folder: Path, python: str, seconds: float, memory: int) -> bytes:
    path = folder / "saved.onnx"
    _run(folder, python, [SAVE, str(path)], seconds, memory)
    return path.read_bytes() if path.exists() else b""


def _run(folder: Path, python: str, arguments: list[str], seconds: float, memory: int) -> tuple[int, str]:
    """The script's exit code and text; -1 when it did not end in time."""

    python = python or sys.executable
    linked = [os.path.realpath(path) for path in folder.rglob("*") if path.is_symlink()]
    environment = {**QUIET, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        command_in(folder.parent, [python, "repro.py", *arguments], linked, environment),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=partial(_confine, memory),
    )
    try:
        text, _ = process.communicate(timeout=3 * seconds + GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return -1, "repro.py did not end in time"
    finally:
        _kill_all(process)
    return process.returncode, text.decode(errors="replace")


def _confine(memory: int) -> None:
    """The limits of the script, and its launcher's end with crux's."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    kernel.die_with_parent()


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the script's process group, and wait until it has ended.

    A kill is only a request: a child that is still being torn down may hold memory and files for a while. One
    that has ended, and that its new parent does not wait for, still counts: the wait has an end.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + ENDING_SECONDS
    while _is_group(process.pid) and time.monotonic() < deadline:
        time.sleep(0.005)


def _is_group(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
