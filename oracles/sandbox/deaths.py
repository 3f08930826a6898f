"""What the end of a worker says: a crash, a hang or too much memory, and where."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from oracles.run import Config, Frame, Phase, Run, Status
from oracles.sandbox import worker
from oracles.sandbox.native_frames import frames_of, parse_evidence
from oracles.sandbox.processes import End, SandboxError, Worker

CPU_SIGNALS = (signal.SIGPROF, signal.SIGXCPU)


@dataclass(frozen=True)
class Remains:
    """The remains of a dead worker: its test, config and phase, the CPU time before, and three texts."""

    test: int
    config: int
    phase: Phase
    cpu_before: float
    stderr: str
    evidence: str
    trace: str


def read_remains(target: Worker) -> Remains:
    """Read the remains of a dead worker from its memory files."""
    test, config, phase, used = worker.MARKER.unpack(os.pread(target.evidence, worker.MARKER.size, 0))
    return Remains(
        test=test,
        config=config,
        phase=Phase(worker.PHASES[min(phase, len(worker.PHASES) - 1)]),
        cpu_before=used,
        stderr=read_text(target.stderr),
        evidence=read_text(target.evidence, worker.MARKER_SIZE),
        trace=read_text(target.trace),
    )


def read_text(descriptor: int, offset: int = 0) -> str:
    """Read what was written to a file from an offset on, as far as it is kept."""
    return os.pread(descriptor, worker.LOG_LIMIT, offset).decode("utf-8", "replace")


def run_of_death(config: Config, end: End, remains: Remains, *, waited: bool, garbled: str = "") -> Run:
    """Return the run that ended in a death; raises `SandboxError` where it was the worker itself that failed.

    `waited`: the wall limit was reached. `garbled`: why the worker's last message could not be read, if it
    was killed for that.
    """
    number = os.WTERMSIG(end.status) if os.WIFSIGNALED(end.status) else 0
    code = os.WEXITSTATUS(end.status) if os.WIFEXITED(end.status) else 0
    if code == worker.OWN_FAILURE and worker.OWN_WORDS in remains.trace:
        raise SandboxError(remains.trace.strip())
    status = status_of(number, remains.stderr, waited=waited, garbled=bool(garbled))
    if code == worker.STARVED:
        status = Status.OUT_OF_MEMORY
    evidence = parse_evidence(remains.evidence)
    frames = frames_of(evidence) if evidence else ()
    message = joined(headline(end, number, garbled), remains.stderr)
    return Run(
        config=config,
        status=status,
        phase=remains.phase,
        message=message,
        trace=joined(message, *map(str_of_frame, frames), remains.trace),
        signal=0 if garbled or status is Status.TIMEOUT else number,
        frames=frames,
        cpu_seconds=max(0.0, end.cpu_seconds - remains.cpu_before),
    )


def status_of(number: int, stderr: str, *, waited: bool, garbled: bool) -> Status:
    """A SIGKILL that we did not send is the kernel's, for memory; an uncaught `std::bad_alloc` is memory."""
    if waited or number in CPU_SIGNALS:
        return Status.TIMEOUT
    if garbled:
        return Status.CRASH
    if number == signal.SIGKILL or (number == signal.SIGABRT and worker.OUT_OF_MEMORY.search(stderr)):
        return Status.OUT_OF_MEMORY
    return Status.CRASH


def headline(end: End, number: int, garbled: str) -> str:
    """Return the first line of a death that no signal explains."""
    if garbled:
        return f"the process wrote what is no reply: {garbled}"
    return "" if number else f"the process exited with code {os.WEXITSTATUS(end.status)}"


def joined(*parts: str) -> str:
    """Return the parts that are not blank, a line each."""
    return "\n".join(part.strip() for part in parts if part.strip())


def str_of_frame(frame: Frame) -> str:
    """Return a native frame on one line."""
    return f"at {frame.library}+0x{frame.offset:x} {frame.function}"
