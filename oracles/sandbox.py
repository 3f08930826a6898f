"""Running programs where they can do no harm: workers under a zygote, limits, and what a death leaves behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import ml_dtypes
import numpy as np

from corpus.case import ExternalFile
from corpus.errors import UserError
from corpus.values import Value
from oracles import worker
from oracles.backends import find_backend
from oracles.run import Config, Limits, Phase, Run, Status


class SandboxError(Exception):
    """The sandbox itself does not work: our own failure, never a verdict."""


@dataclass(frozen=True)
class Job:
    """One program to run under several configs, all on the same inputs.

    `outputs` names the outputs wanted (None: all). With `collect_log` the backend's log comes back too.
    """

    program: bytes
    inputs: Mapping[str, Value]
    configs: tuple[Config, ...]
    external: tuple[ExternalFile, ...] = ()
    outputs: tuple[str, ...] | None = None
    collect_log: bool = False


@dataclass
class Worker:
    """A worker process as seen from here: its socket and the memory files that outlive it."""

    pid: int
    channel: socket.socket
    stderr: int
    evidence: int
    trace: int
    tests: int = 0

    def close(self) -> None:
        self.channel.close()
        for descriptor in (self.stderr, self.evidence, self.trace):
            os.close(descriptor)


@dataclass(frozen=True)
class Death:
    """How a worker ended, read from what it left."""

    config: int
    phase: Phase
    signal: int
    exit_code: int
    cpu_seconds: float
    stderr: str
    evidence: str
    trace: str
    is_hang: bool = False
    garbled: str = ""


@dataclass
class Zygote:
    """The process that forks workers, started at need."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    facts: Mapping[str, Any] = field(default_factory=dict)


class Sandbox:
    """A context manager that runs jobs; used by one thread at a time, any number of them side by side."""

    def __init__(
        self, backend: str, *, python: str | None = None, limits: Limits = Limits(), renew_after: int = 300
    ) -> None:
        self.backend_file = backend if backend.endswith(".py") else find_backend(backend).__file__
        self.python = python or sys.executable
        self.limits = limits
        self.renew_after = renew_after
        self._zygote: Zygote | None = None
        self._worker: Worker | None = None
        self._scratch = Path(tempfile.mkdtemp(prefix="tensorcrux-"))

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process and remove the scratch directory."""
        if self._worker:
            self._worker.close()
            self._worker = None
        if self._zygote:
            self._stop_zygote()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def run(self, job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        """Run every config, in order; `fresh` in a new process. After a death the rest run in a new one."""
        runs: list[Run] = []
        if fresh:
            self._retire()
        while len(runs) < len(job.configs):
            runs += self._run_some(job, len(runs), runs)
        if fresh:
            self._retire()
        return tuple(runs)

    # Requests

    def _run_some(self, job: Job, start: int, earlier: Sequence[Run]) -> list[Run]:
        """Runs from config `start` on, until all are done or the worker dies (its death is the last run)."""
        target = self._ready_worker()
        target.tests += 1
        runs: list[Run] = []
        problem = ""
        try:
            self._send(target, job, start)
            for config in job.configs[start:]:
                target.channel.settimeout(self.limits.wall_seconds)
                header, body = worker.receive(target.channel, self.limits.memory_bytes)
                runs.append(decode_run(config, header, body, runs))
        except TimeoutError:
            problem = "timeout"
        except (EOFError, ConnectionError):
            problem = "death"
        except (worker.Garbled, KeyError, ValueError, TypeError) as error:
            problem = f"garbled: {error}"
        if problem:
            death = self._bury(problem)
            config = job.configs[start + len(runs)]
            runs.append(run_of_death(config, death))
        elif target.tests >= self.renew_after or any(run.status is Status.OUT_OF_MEMORY for run in runs):
            self._retire()
        return runs

    def _send(self, target: Worker, job: Job, start: int) -> None:
        buffers: list[Any] = []
        header: dict[str, Any] = {"op": "run", "outputs": job.outputs, "log": job.collect_log}
        if job.external:
            header["path"] = str(self._lay_out(job))
        else:
            buffers.append(job.program)
            header["size"] = len(job.program)
        header["inputs"] = [
            [name, worker.encode(to_wire(value), buffers)] for name, value in job.inputs.items()
        ]
        header["configs"] = [
            [index, {**dict(config.settings), "log": job.collect_log}]
            for index, config in enumerate(job.configs)
            if index >= start
        ]
        target.channel.settimeout(self.limits.wall_seconds)
        worker.send(target.channel, header, buffers)

    def _lay_out(self, job: Job) -> Path:
        """The program and its external data as files in the scratch directory."""
        folder = self._scratch / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for external in job.external:
            place = folder / external.location
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(external.path, place)
            except OSError:
                shutil.copyfile(external.path, place)
        (folder / "model.onnx").write_bytes(job.program)
        return folder / "model.onnx"

    # Processes

    def _ready_worker(self) -> Worker:
        if self._worker is None:
            self._worker = self._fork()
        return self._worker

    def _fork(self) -> Worker:
        zygote = self._ready_zygote()
        ours, theirs = socket.socketpair()
        memory = [os.memfd_create(name) for name in ("stderr", "evidence", "trace")]
        fcntl.fcntl(memory[0], fcntl.F_SETFL, fcntl.fcntl(memory[0], fcntl.F_GETFL) | os.O_APPEND)
        os.ftruncate(memory[1], 4096)
        with theirs:
            worker.send_descriptors(zygote.control, b"F", [theirs.fileno(), *memory])
        reply, _ = worker.receive(zygote.control)
        return Worker(int(reply["pid"]), ours, *memory)

    def _retire(self) -> None:
        """Let the worker go."""
        if self._worker:
            self._worker.channel.close()
            self._reap(self._worker, [[0, 2.0]])
            self._worker.close()
            self._worker = None

    def _reap(self, target: Worker, steps: list[list[float]]) -> Mapping[str, Any]:
        zygote = self._ready_zygote()
        zygote.control.sendall(b"R")
        worker.send(zygote.control, {"pid": target.pid, "steps": steps})
        return worker.receive(zygote.control)[0]

    def _bury(self, problem: str) -> Death:
        """End the worker, whatever state it is in, and read what it left."""
        target = self._worker
        assert target is not None
        is_hang = problem == "timeout"
        steps = [[signal.SIGPROF, 1.0]] if is_hang else [[0, 2.0]]
        end = self._reap(target, steps)
        config, phase, used = worker.MARKER.unpack(os.pread(target.evidence, worker.MARKER.size, 0))
        status = int(end["status"])
        death = Death(
            config=config,
            phase=Phase(worker.PHASES[phase]),
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
            cpu_seconds=max(0.0, end["cpu"] - used),
            stderr=read_all(target.stderr),
            evidence=read_all(target.evidence, 4096),
            trace=read_all(target.trace),
            is_hang=is_hang,
            garbled=problem if problem.startswith("garbled") else "",
        )
        target.close()
        self._worker = None
        return death

    def _ready_zygote(self) -> Zygote:
        if self._zygote is None:
            self._zygote = self._start_zygote()
        return self._zygote

    def _start_zygote(self) -> Zygote:
        ours, theirs = socket.socketpair()
        command = [
            *(self.python, "-I", worker.__file__, "--backend", self.backend_file),
            *("--control", str(theirs.fileno()), "--memory", str(self.limits.memory_bytes)),
            *("--cpu", str(self.limits.cpu_seconds)),
        ]
        log = tempfile.TemporaryFile()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd=self._scratch,
            )
        except OSError as error:
            raise UserError(f"{self.python}: cannot be started: {error.strerror}") from error
        theirs.close()
        try:
            facts, _ = worker.receive(ours)
        except (EOFError, ConnectionError) as error:
            log.seek(0)
            text = log.read().decode("utf-8", "replace").strip()
            raise SandboxError(f"{self.python}: the backend does not start: {text[-2000:]}") from error
        return Zygote(process, ours, facts)

    def _stop_zygote(self) -> None:
        assert self._zygote is not None
        self._zygote.control.close()
        try:
            self._zygote.process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._zygote.process.kill()
            self._zygote.process.wait()
        self._zygote = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the interpreter said of itself: `version` of the framework, `python`, `numpy`."""
        return self._ready_zygote().facts


def decode_run(config: Config, header: Mapping[str, Any], body: memoryview, earlier: Sequence[Run]) -> Run:
    """A run from its reply; outputs equal to the first good run's are that run's very objects."""
    decoder = worker.Decoder(body)
    first = next((run.outputs for run in earlier if run.is_ok), {})
    outputs = {
        name: first[name] if spec == "=" else from_wire(decoder.value(spec))
        for name, spec in header["outputs"]
    }
    return Run(
        config=config,
        status=Status(header["status"]),
        phase=Phase(header["phase"]),
        outputs=outputs,
        error=header.get("error", ""),
        message=header.get("message", ""),
        trace=header.get("trace", ""),
        cpu_seconds=header["cpu"],
        log=tuple(header.get("log", "").splitlines()),
    )


def run_of_death(config: Config, death: Death) -> Run:
    """What a dead worker amounts to."""
    status = Status.CRASH
    message = death.stderr.strip()
    if death.is_hang or death.signal in (signal.SIGPROF, signal.SIGXCPU):
        status = Status.TIMEOUT
    elif death.signal == signal.SIGKILL or "std::bad_alloc" in message:
        status = Status.OUT_OF_MEMORY
    elif not death.signal:
        message = f"the process exited with code {death.exit_code}\n{message}".strip()
    return Run(
        config=config,
        status=status,
        phase=death.phase,
        message=message,
        trace="\n".join(part for part in (message, death.trace.strip()) if part),
        signal=death.signal,
        cpu_seconds=death.cpu_seconds,
    )


def to_wire(value: Value) -> Any:
    """A value as the worker's protocol has it: ml_dtypes' arrays as (type name, bits)."""
    if value is None:
        return None
    if isinstance(value, list):
        return [to_wire(item) for item in value]
    name = value.dtype.name
    return (name, np.ascontiguousarray(value).view(worker.BITS[name])) if name in worker.BITS else value


def from_wire(value: Any) -> Any:
    """The reverse of `to_wire`; strings become numpy `U`."""
    if isinstance(value, list):
        return [from_wire(item) for item in value]
    if isinstance(value, tuple):
        return value[1].view(getattr(ml_dtypes, value[0]))
    return value.astype(str) if isinstance(value, np.ndarray) and value.dtype == object else value


def read_all(descriptor: int, offset: int = 0) -> str:
    return os.pread(descriptor, worker.LOG_LIMIT, offset).decode("utf-8", "replace")
