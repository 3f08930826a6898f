"""Running programs where they can do no harm: isolated, limited, and told apart when they end badly."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from corpus.allowance import OutOfTime, is_short_of, left_of, take
from corpus.case import ExternalFile
from corpus.values import Value
from oracles.backends import find_backend
from oracles.extras import provide
from oracles.native.watching import Watch
from oracles.sandbox import worker
from oracles.sandbox.processes import SandboxError, Worker, Zygote, ZygoteDied
from oracles.sandbox.scratch import Scratch
from oracles.verdict import Config, Limits, Phase, Run, Status

LIMITS = Limits()
RENEW_AFTER = 300
SHARED = 60
"""A shared worker is renewed after this many jobs, if other jobs have a worker each."""
WAIT_STEPS = ((0, 2.0),)
MALFORMED = (
    *(LookupError, ValueError, TypeError, AttributeError, OverflowError),
    *(MemoryError, RecursionError),
)
HANG_STEPS = ((int(signal.SIGPROF), 2.0),)
FAIR_SHARE = 0.5
"""Of its limit, what a run must have been given to be called a hang."""

WORTH_KEEPING = 1 << 20
"""Bytes of a program that a worker keeps for the next job, which may be the same one in other ways."""


@dataclass(frozen=True)
class Job:
    """One program to run under several configs, all on the same inputs.

    `format` is that of the program. `outputs` names the outputs wanted (None: all). With `collect_log` the
    backend's log comes back too. `passes` are the case's own sequence, for a backend that runs such. Jobs
    that are `shared` may run in one process after the other. With `loads_only` nothing is executed. `poison`
    is the byte that fills fresh memory in a guarded sandbox, from the phase `poisoned_from` on. One that is
    `quick` leaves out further runs between closed pages that a backend makes. `earlier` are the shapes of
    inputs in runs of what is compiled before the one that counts.
    """

    program: bytes
    inputs: Mapping[str, Value]
    configs: tuple[Config, ...]
    external: tuple[ExternalFile, ...] = ()
    outputs: tuple[str, ...] | None = None
    collect_log: bool = False
    format: str = "onnx"
    passes: tuple[str, ...] = ()
    shared: bool = False
    loads_only: bool = False
    poison: int = 0
    poisoned_from: Phase = Phase.EXECUTE
    quick: bool = False
    earlier: tuple[Mapping[str, tuple[int, ...]], ...] = ()


TRIES = 2


class DiedBefore(Exception):
    """The worker died between two jobs."""


class Sandbox:
    """A context manager that runs jobs; used by one thread at a time, any number of them side by side.

    `backend` is a name, or the path of a backend's file; `python` another interpreter to run it under. The
    worker that runs the jobs is renewed after `renew_after` of them. `shown` are files and folders that it
    may read beside the interpreter's and the system's; with `gpu` the GPUs are there. With `watch` the
    framework's code tells which blocks each job met. A `guarded` one shows what a job does to memory that is
    not its own, where C can be compiled.
    """

    def __init__(
        self,
        backend: str,
        *,
        python: str | None = None,
        limits: Limits = LIMITS,
        renew_after: int = RENEW_AFTER,
        shown: Sequence[str] = (),
        gpu: bool = False,
        watch: Watch | None = None,
        guarded: bool = False,
    ) -> None:
        own = None if backend.endswith(".py") else find_backend(backend)
        self.backend_file = os.path.abspath(own.file if own else backend)
        self._packages = (own.package,) if own and not python else ()
        self.python = os.path.abspath(python) if python and os.sep in python else python or sys.executable
        self.limits = limits
        self.renew_after = renew_after
        self.gpu = gpu
        self._shown = tuple(shown)
        self.watch = watch
        self.guarded = guarded
        self._scratch = Scratch()
        self._zygote: Zygote | None = None
        self._worker: Worker | None = None
        self._cpu_of_the_dead = 0.0

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process and remove the scratch directory."""
        if self._worker:
            self._worker.close()
            self._worker = None
        if self._zygote:
            self._zygote.close()
            self._zygote = None
        self._scratch.close()

    def run(self, job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        """Run every config, in order; `fresh` in a new process. After a death the rest run in a new one.

        Raises `OutOfTime` with the runs so far if the whole check may take no more.
        """
        runs: list[Run] = []
        tries = 0
        try:
            while len(runs) < len(job.configs):
                tries += 1
                try:
                    laid_out = self._lay_out(job)
                    target = self._borrow(fresh=fresh, shared=job.shared)
                    runs += self._rest_of(job, len(runs), target, laid_out, fresh=fresh)
                    tries = 0
                except (ZygoteDied, DiedBefore) as error:  # nothing is known of the program: once more
                    self._must_be_tried_again(error, tries)
        except OutOfTime as error:
            self._forget_zygote()
            raise OutOfTime((*runs, *error.runs)) from None
        except BaseException:
            # An interruption in mid-conversation: what the processes would say next is of this job.
            self._forget_zygote()
            raise
        return tuple(runs)

    def ask(self, question: str, *arguments: Any) -> Any:
        """Call a function of the backend's worker half, such as `tables`, in the worker."""
        wall = self._wall_seconds()
        started = time.monotonic()
        try:
            target = self._borrow(fresh=False)
            started = time.monotonic()
            target.channel.settimeout(wall)
            worker.send(target.channel, {"op": question, "arguments": arguments})
            return worker.receive(target.channel)[0]["answer"]
        except (EOFError, OSError, worker.Garbled, ZygoteDied) as error:
            self._forget_zygote()
            raise SandboxError(f"the worker does not answer {question!r}") from error
        finally:
            take((time.monotonic() - started) * self.limits.cpu_seconds / self.limits.wall_seconds)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the worker says of itself; see `Zygote`."""
        return self.zygote().facts

    @property
    def start_seconds(self) -> float:
        """CPU seconds that starting the framework took; 0 before it has been started."""
        return float(self.facts["cpu"]) if self._zygote else 0.0

    def cpu_seconds(self) -> float:
        """CPU time that all processes of this sandbox have used; the living worker's as of its last reply."""
        living = self._worker.cpu_seconds if self._worker else 0.0
        return self._cpu_of_the_dead + living + (self._zygote.cpu_seconds() if self._zygote else 0.0)

    def _wall_seconds(self) -> float:
        """The seconds to wait for a worker: less than the limit if the check has little CPU left."""
        limits = self.limits
        return limits.wall_seconds * left_of(limits.cpu_seconds) / limits.cpu_seconds

    # One worker's part of a job

    def _must_be_tried_again(self, error: ZygoteDied | DiedBefore, tries: int) -> None:
        """Raise `SandboxError` where the zygote died, or the worker before it had the job, a second time."""
        if isinstance(error, ZygoteDied):
            self._forget_zygote()
        if tries == TRIES:
            raise SandboxError("the sandbox's own process dies again and again") from error

    def _rest_of(
        self, job: Job, start: int, target: Worker, laid_out: Mapping[str, str], *, fresh: bool
    ) -> list[Run]:
        """Runs from config `start` on, until all are done or the worker dies (its death is the last run)."""
        target.tests += 1
        runs: list[Run] = []
        garbled = ""
        waited = False
        try:
            target.channel.settimeout(self._wall_seconds())
            self._send(target, job, start, laid_out)
            for index, config in enumerate(job.configs[start:], start):
                target.wait_for_reply(self._wall_seconds(), self.limits.cpu_seconds, config.label)
                runs.append(self._receive(target, config, index, runs))
                if target.lost:
                    break
        except TimeoutError:
            waited = True
        except (EOFError, ConnectionError):
            pass
        except worker.Garbled as error:
            garbled = str(error)
        if self.watch:
            self.watch.collect()
        if start + len(runs) < len(job.configs) and not target.lost:
            dead = self._bury(target, job.configs[start + len(runs)], waited=waited, garbled=garbled)
            self._must_be_given_its_time(dead, runs)
            runs.append(replace(dead, log=tuple(dead.message.splitlines())) if job.collect_log else dead)
        else:
            starved = any(run.status is Status.OUT_OF_MEMORY for run in runs)
            most = max(self.renew_after, SHARED) if job.shared else self.renew_after
            self._give_back(target, is_done=fresh or starved or target.lost or target.tests >= most)
        return runs

    def _must_be_given_its_time(self, dead: Run, earlier: Sequence[Run]) -> None:
        """Raise `OutOfTime` for a run that was ended early because the whole check may take no more."""
        limit = self.limits.cpu_seconds
        is_hang = dead.status is Status.TIMEOUT
        given = 0.0 if is_short_of(0.0) else left_of(limit)
        take(max(dead.cpu_seconds, given if is_hang else 0.0))
        if is_hang and given < FAIR_SHARE * limit:
            raise OutOfTime(tuple(earlier))

    def _lay_out(self, job: Job) -> dict[str, str]:
        """The places of external data for a worker; files that cannot be linked need a new worker."""
        if not job.external:
            return {}
        places = self._scratch.lay_out(job.program, job.external)
        needed = tuple(str(file.path.resolve()) for file in job.external) if "folder" in places else ()
        if set(needed) <= set(self._shown):
            return places
        self._shown += needed
        self._forget_zygote()
        return self._scratch.lay_out(job.program, job.external)

    def _send(self, target: Worker, job: Job, start: int, laid_out: Mapping[str, str]) -> None:
        """Send a request, with the program and the inputs unless the worker has kept them."""
        target.ticket = secrets.token_hex(8)
        header: dict[str, Any] = {"op": "run", "outputs": job.outputs, "log": job.collect_log, **laid_out}
        header |= {"test": target.tests, "ticket": target.ticket}
        header |= {"poison": job.poison, "poisoned_from": job.poisoned_from.value}
        header["most"] = self.limits.cpu_seconds
        header["cpu"] = left_of(len(job.configs) * self.limits.cpu_seconds)
        keeps = "path" not in header and len(job.program) >= WORTH_KEEPING
        again = keeps and target.kept[0] is job.program and target.kept[1] is job.inputs
        target.kept = (job.program, job.inputs) if keeps else (None, None)
        header |= {"keep": keeps, "again": again}
        buffers: list[Any] = []
        if not again:
            if "path" not in header:
                buffers.append(job.program)
                header["size"] = len(job.program)
            header["inputs"] = [[name, worker.encode(value, buffers)] for name, value in job.inputs.items()]
        shared = {"log": job.collect_log, "format": job.format, "loads_only": job.loads_only}
        shared |= {"quick": job.quick}
        header["configs"] = [
            [start + index, {"passes": job.passes, "earlier": job.earlier, **dict(config.settings), **shared}]
            for index, config in enumerate(job.configs[start:])
        ]
        worker.send(target.channel, header, buffers)

    def _receive(self, target: Worker, config: Config, index: int, earlier: Sequence[Run]) -> Run:
        """A run from its reply; outputs equal to the first good run's are that run's very objects."""
        header, body = worker.receive(target.channel, self.limits.memory_bytes)
        wanted = {"test": target.tests, "config": index, "ticket": target.ticket}
        if any(header.get(name) != value for name, value in wanted.items()):
            raise worker.Garbled("it answers another request")
        try:
            target.cpu_seconds = float(header["total"])
            target.lost = bool(header.get("lost"))
            decoder = worker.Decoder(body)
            first = next((run.outputs for run in earlier if run.is_ok), {})
            outputs = {
                name: first[name] if spec == "=" else from_wire(decoder.value(spec))
                for name, spec in header["outputs"]
            }
            run = Run(
                config=config,
                phase=Phase(header["phase"]),
                outputs=outputs,
                cpu_seconds=header["cpu"],
                execute_seconds=header["execute"],
                log=tuple(header.get("log", "").splitlines()),
                refused={
                    int(number): Run(config=config, phase=Phase.EXECUTE, **_ending(told))
                    for number, told in header.get("refused", ())
                },
                **_ending(header),
            )
        except MALFORMED as error:
            raise worker.Garbled(f"{type(error).__name__}: {error}") from error
        take(run.cpu_seconds)
        return run

    def _bury(self, target: Worker, config: Config, *, waited: bool, garbled: str) -> Run:
        """End the worker, whatever state it is in, and read what it left."""
        from oracles.sandbox.deaths import read_remains, run_of_death

        steps = HANG_STEPS if waited else () if garbled else WAIT_STEPS
        end = self.zygote().reap(target, steps)
        remains = read_remains(target)
        self._drop(target)
        if remains.test != target.tests:
            raise DiedBefore
        return run_of_death(config, end, remains, waited=waited, garbled=garbled)

    # Processes

    def _borrow(self, *, fresh: bool, shared: bool = False) -> Worker:
        if not fresh and not shared and self._worker and self._worker.tests >= self.renew_after:
            self._give_back(self._worker, is_done=True)
        if self._worker is not None and not fresh:
            return self._worker
        zygote = self.zygote()
        zygote.wait()
        born = zygote.fork()
        self._worker = self._worker if fresh else born
        return born

    def _give_back(self, target: Worker, *, is_done: bool) -> None:
        """Keep the worker for the next job, or let it go."""
        if is_done:
            target.channel.close()
            self.zygote().reap(target, WAIT_STEPS)
            self._drop(target)

    def _drop(self, target: Worker) -> None:
        target.close()
        if target is self._worker:
            self._worker = None

    def zygote(self) -> Zygote:
        """The process that the workers are forks of, started without waiting for it."""
        if self._zygote is None:
            provide(*self._packages)
            self._zygote = Zygote(
                self.backend_file,
                self.python,
                self.limits,
                self._scratch,
                shown=self._shown,
                gpu=self.gpu,
                watch=self.watch,
                guarded=self.guarded,
            )
        return self._zygote

    def _forget_zygote(self) -> None:
        if self._worker:
            self._cpu_of_the_dead += self._worker.cpu_seconds
            self._drop(self._worker)
        if self._zygote:
            self._zygote.close()
            self._zygote = None
            self._scratch.close()
            self._scratch = Scratch()


def _ending(told: Mapping[str, Any]) -> dict[str, Any]:
    """How a run ended, by the fields of it."""
    texts = {name: told.get(name, "") for name in ("error", "message", "trace", "at")}
    return {"status": Status(told["status"]), **texts, "dims": told.get("dims", {})}


def describe_isolation(facts: Mapping[str, Any]) -> dict[str, str]:
    """Map each protection to `in force` or why not, from a sandbox's `facts`; for `crux doctor`."""
    found = {LAYER_WORDS[name]: reason for name, reason in facts["containment"].items()}
    found["native crash handler"] = facts["crash_handler"]
    return {name: reason or "in force" for name, reason in found.items()}


LAYER_WORDS = {
    "user": "user namespace",
    "pid": "process namespace",
    "ipc": "IPC namespace",
    "network": "network namespace",
    "mount": "mount namespace",
    "uts": "host name namespace",
    "root": "root of its own",
    "privileges": "privileges given up",
    "system calls": "filter of system calls",
    "processes": "limit on processes",
}


def from_wire(value: Any) -> Any:
    """A value as the rest of crux has it: ml_dtypes' types, strings as numpy `U`."""
    if isinstance(value, list):
        return [from_wire(item) for item in value]
    if isinstance(value, tuple):
        return value[1].view(getattr(ml_dtypes, value[0]))
    return value.astype(str) if isinstance(value, np.ndarray) and value.dtype == object else value


__all__ = ["Job", "Sandbox", "SandboxError", "describe_isolation"]
