"""A zygote and its workers as crux sees them: started, asked, reaped."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from corpus.errors import UserError
from corpus.processes import compiled
from oracles.extras import EXTRAS, how_to_install
from oracles.native.watching import Watch
from oracles.sandbox import worker
from oracles.sandbox.container.start import SHOWS, start
from oracles.sandbox.scratch import Scratch
from oracles.verdict import Limits

SOURCE = Path(__file__).with_name("crash_handler.c")


@cache
def guard() -> tuple[Path | None, str]:
    """The built allocator that shows misuse of memory, or None and why there is none."""
    return compiled(SOURCE.with_name("guard.c"))


@cache
def crash_handler() -> tuple[Path | None, str]:
    """The built library, or None and why there is none."""
    library, reason = compiled(SOURCE)
    return library, f"{reason}: crashes are told by Python's faulthandler alone" if reason else ""


START_SECONDS = 180.0


class SandboxError(Exception):
    """The sandbox itself does not work: our own failure, never a verdict."""


class ZygoteDied(Exception):
    """The zygote has gone, and its workers with it; a new one can be started."""


TELL_SECONDS = 2.0
"""How long a wait may be of which nobody is told."""

LISTENERS: list[Callable[[str], None]] = []
"""Who is told, while a run lasts, which configuration is in which phase."""


def tell(text: str) -> None:
    """Tell whoever listens what is waited for."""
    for listener in LISTENERS:
        listener(text)


TICKS = os.sysconf("SC_CLK_TCK")
IDLE_SHARE = 0.02
"""A process that used less of a CPU than this while it was waited for sleeps."""


@dataclass
class Worker:
    """A worker process: its socket and the memory files that outlive it.

    `pid` is its number among the sandbox's processes, `ticks` asks for the CPU time that it and its children
    have taken, `cpu_seconds` is what it last reported; `lost` says that its device answers it no more. It
    has the program and the inputs `kept`.
    """

    pid: int
    channel: socket.socket
    stderr: int
    evidence: int
    trace: int
    ticks: Callable[[], int] = lambda: 0
    tests: int = 0
    ticket: str = ""
    cpu_seconds: float = 0.0
    lost: bool = False
    kept: tuple[Any, Any] = (None, None)

    def wait_for_reply(self, seconds: float, cpu_seconds: float, label: str = "") -> None:
        """Until there is something to read; raises `TimeoutError` after so long of doing hardly anything.

        On a busy machine a process that computes gets little: its CPU limit ends it, not this one. Only one
        that has got rid of its limit and takes over twice that much CPU is out of time as well.
        """
        poll = select.poll()
        poll.register(self.channel, select.POLLIN)
        used = int(self.cpu_seconds * TICKS)
        marks = [used]
        while not self._answers(poll, seconds, label):
            before, used = used, self.ticks()
            if (used - before) / TICKS < IDLE_SHARE * seconds:
                raise TimeoutError
            if any(used - mark > 2 * cpu_seconds * TICKS for mark in marks):
                raise TimeoutError
            marks.append(used)  # the first one is the worker's own word

    def _answers(self, poll: select.poll, seconds: float, label: str) -> bool:
        """Whether there is something to read after so long; who listens is told what is waited for."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if poll.poll(1000 * min(left, TELL_SECONDS)):
                return True
            phase = worker.MARKER.unpack(os.pread(self.evidence, worker.MARKER.size, 0))[2]
            tell(f"{label}: {worker.PHASES[min(phase, len(worker.PHASES) - 1)]}")
        return bool(poll.poll(0))

    def close(self) -> None:
        """End the process and close what it held."""
        self.channel.close()
        for descriptor in (self.stderr, self.evidence, self.trace):
            os.close(descriptor)


@dataclass(frozen=True)
class End:
    """The end of a worker: the status of `wait`, the last signal that it was sent, its total CPU time."""

    status: int
    last: int
    cpu_seconds: float


def _needed(backend_file: str, library: Path | None, watch: Watch | None) -> list[str]:
    """The files that a worker reads of crux's own."""
    oracles = Path(worker.__file__).parents[1]
    packages = [
        str(oracles),
        str(oracles.parent / "corpus"),
    ]  # the latter for trees that the reference interprets
    needed = [*packages, backend_file, *([str(library)] if library else [])]
    return [*needed, str(watch.handler)] if watch else needed


class Zygote:
    """The process that has the framework loaded and forks workers; it is waited for when it is first needed.

    `facts` holds what it said of itself: `version` of the framework, `python`, `numpy`, `containment`
    (namespace → "" or why it is not in force), `crash_handler` ("" or why there is none), `cpu` (seconds that
    importing and warming up took, without what was compiled by others).
    """

    _facts: Mapping[str, Any] | None = None

    def __init__(
        self,
        backend_file: str,
        python: str,
        limits: Limits,
        scratch: Scratch,
        *,
        shown: Sequence[str] = (),
        gpu: bool = False,
        watch: Watch | None = None,
        guarded: bool = False,
    ) -> None:
        self._control, theirs = socket.socketpair()
        self._python, self._name, (library, self._reason) = python, Path(backend_file).stem, crash_handler()
        command = [
            *(python, "-I", worker.__file__, "--backend", backend_file, "--control", f"{theirs.fileno():04}"),
            *("--work", str(scratch.work), "--handler", str(library or "")),
            *("--memory", str(limits.memory_bytes), "--cpu", str(limits.cpu_seconds)),
            *(("--breakpoints", watch.option()) if watch else ()),
        ]
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the zygote)
        try:
            self._program = start(
                command,
                scratch,
                theirs.fileno(),
                self._log,
                shown=[*_needed(backend_file, library, watch), *shown],
                preload=[str(found) for found in (guard()[0],) if guarded and found],
                memory_bytes=limits.memory_bytes,
                gpu=gpu,
                inherited=watch.descriptors if watch else (),
            )
        except UserError:
            self._close_ends()
            raise
        finally:
            theirs.close()

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the zygote says of itself once it is ready."""
        return self.wait()

    def wait(self) -> Mapping[str, Any]:
        """Until the zygote says that it is ready; raises `UserError` or `SandboxError` where it is not."""
        if self._facts is not None:
            return self._facts
        self._control.settimeout(START_SECONDS)
        tell(f"{self._name}: importing it, which takes longest the first time")
        try:
            facts = worker.receive(self._control)[0]
        except (EOFError, OSError, worker.Garbled) as error:
            self._end()
            self._log.seek(0)
            raise start_error(self._python, self._log.read().decode("utf-8", "replace")) from error
        self._control.settimeout(None)
        tell(f"{self._name}: running")
        reason = {"crash_handler": self._reason} if self._reason else {}
        self._facts = {**facts, **reason, "containment": self._program.layers()}
        return self._facts

    def fork(self) -> Worker:
        """A new worker of a process that was waited for; raises `ZygoteDied`."""
        ours, theirs = socket.socketpair()
        stderr, evidence, trace = memory = [os.memfd_create(name) for name in ("stderr", "evidence", "trace")]
        fcntl.fcntl(memory[0], fcntl.F_SETFL, os.O_RDWR | os.O_APPEND)
        os.ftruncate(memory[1], worker.MARKER_SIZE)
        os.lseek(memory[1], worker.MARKER_SIZE, os.SEEK_SET)
        born = Worker(0, ours, stderr, evidence, trace)
        born.ticks = lambda: self._ticks(born.pid)
        try:
            with theirs:
                worker.send_descriptors(self._control, b"F", [theirs.fileno(), *memory])
            born.pid = int(worker.receive(self._control)[0]["pid"])
        except (EOFError, OSError) as error:
            born.close()
            raise ZygoteDied from error
        return born

    def _ticks(self, pid: int) -> int:
        return int(self._ask(b"T", {"pid": pid})["ticks"])

    def reap(self, target: Worker, steps: Sequence[tuple[int, float]]) -> End:
        """Wait for a worker's end by steps of (signal or 0, seconds to wait), killing it at last."""
        header = self._ask(b"R", {"pid": target.pid, "steps": steps})
        return End(int(header["status"]), int(header["last"]), float(header["cpu"]))

    def cpu_seconds(self) -> float:
        """CPU time of the zygote and of the workers it has reaped."""
        return float(self._ask(b"C")["cpu"])

    def _ask(self, code: bytes, header: dict[str, Any] | None = None) -> Mapping[str, Any]:
        self.wait()
        try:
            self._control.sendall(code)
            if header is not None:
                worker.send(self._control, header)
            return worker.receive(self._control)[0]
        except (EOFError, OSError) as error:
            raise ZygoteDied from error

    def close(self) -> None:
        """End the process and close what it held."""
        self._end()
        self._log.close()

    def _close_ends(self) -> None:
        self._control.close()
        self._log.close()

    def _end(self) -> None:
        self._control.close()
        self._program.end(3.0)


SHOWN = f" where its files lie elsewhere name their folders in {SHOWS}"
MISSING = ("ModuleNotFoundError", "ImportError")


def start_error(python: str, text: str) -> Exception:
    """The error for a zygote that did not come up: a wrong Python is the user's mistake."""
    text = text.strip()
    kind, _, message = (text.splitlines() or [""])[-1].partition(": ")
    if kind in MISSING:
        module = message.rpartition("'")[0].rpartition("'")[2].partition(".")[0]
        how = how_to_install(module) if module in EXTRAS else "install it"
        return UserError(f"{python}: the framework cannot be imported there: {message}; {how}, or{SHOWN}")
    if "Traceback" not in text:
        return UserError(
            f"{python}: this is no Python from 3.8 on: {text.splitlines()[-1] if text else 'no answer'};"
            f" name another, or{SHOWN}"
        )
    return SandboxError(f"the worker under {python} does not start: {text[-4000:]}")
