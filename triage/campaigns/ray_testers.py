"""Testers on a cluster, by Ray: each is an actor on some machine, with a sandbox of its own.

What crosses machines are options, seeds, lessons and verdicts; this process alone writes to the database.
What an actor that is lost was asked is asked of another one, and an actor is started in its place where there
is room: so a machine that goes costs its running tests only, and the finds are those of one machine. One
that comes late takes part from then on.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from threading import Lock, current_thread, main_thread
from typing import Any

from corpus.errors import UserError
from corpus.target import Target
from generators.feedback import CoverageSnapshot
from generators.fuzz import Tested
from generators.mixture import Plan
from oracles.extras import how_to_install, provide
from triage.campaigns.testers import Greeting, Testers, open_testers
from triage.console.options import CaseOptions

_ANSWER_SECONDS = 10.0
_ROOM_SECONDS = 600.0
"""How long no machine of the cluster may have room for any tester."""
_MOST_LOST = 5
"""Testers that one block of seeds may lose: then it is the block that ends them."""
LOCAL = "local"
"""The address that starts Ray on this machine, and ends it with the run."""


class WorkerActor:
    """A tester as Ray holds it, in a process of its own."""

    def __init__(self, options: CaseOptions, target: Target, plan: Plan, native: bool) -> None:
        self._stack = ExitStack()
        self._open = partial(open_testers, options, target, plan, native=native)

    def greeting(self) -> Greeting:
        """Open the tester; what it says of itself."""
        self._testers = self._stack.enter_context(self._open())
        return self._testers.greeting

    def test(self, seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> list[Tested]:
        """The tests of some seeds."""
        (tester,) = self._testers.all
        return [each.without_case() for each in tester(seeds, seconds, lesson)]


@contextmanager
def cluster_testers(
    address: str,
    options: CaseOptions,
    target: Target,
    plan: Plan,
    *,
    native: bool = False,
) -> Iterator[Testers]:
    """A tester for each job, on the cluster at this address; raises `UserError` where there is none."""
    ray = _joined(address, options.jobs)
    try:
        station = ray.remote(num_cpus=1)(WorkerActor)
        given = (replace(options, jobs=1), target, plan, native)
        crew = ActorPool(ray, lambda: station.remote(*given), options.jobs)
        yield Testers([crew.test] * options.jobs, *crew.greeting)
    finally:
        ray.shutdown()


class ActorPool:
    """The actors of a run: those that are free, those at work, and those on their way."""

    def __init__(self, ray: Any, start: Callable[[], Any], actors: int) -> None:
        self._ray, self._start = ray, start
        self._free: SimpleQueue[Any | Exception] = SimpleQueue()
        self._lock = Lock()
        self._told: tuple[CoverageSnapshot | None, Any] | None = None
        self._alive = actors
        self._release = ""
        self._moved = time.monotonic()
        self.greeting: Greeting
        for _ in range(actors):
            self._send_for_one()
        self._free.put(self._one(float("inf")))

    def test(self, seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> Sequence[Tested]:
        """The tests of some seeds, by whichever actor is free; another one's where it is lost."""
        lost, deadline = None, time.monotonic() + seconds
        for _ in range(_MOST_LOST):
            actor = self._one(deadline)
            if actor is None:
                return []
            try:
                tests: Sequence[Tested] = self._ray.get(actor.test.remote(seeds, seconds, self._put(lesson)))
            except self._ray.exceptions.RayTaskError as error:
                raise _cause(error) from None
            except self._ray.exceptions.RayError as error:  # its process or its machine is gone
                lost = error
                self._send_for_one()
                continue
            self._has(actor)
            return tests
        raise RuntimeError(f"{_MOST_LOST} testers were lost over the seeds from {seeds.start} on: {lost}")

    def _one(self, deadline: float) -> Any | None:
        """Wait for a free actor until the deadline. Raises what keeps the last of them from starting."""
        while (now := time.monotonic()) < deadline:
            try:
                found = self._free.get(timeout=min(deadline - now, _ROOM_SECONDS))
            except Empty:
                if time.monotonic() - self._moved > _ROOM_SECONDS:
                    raise UserError(
                        f"--cluster: no machine has had room for a tester for {_ROOM_SECONDS:.0f} s;"
                        " start machines, or give a smaller -j"
                    ) from None
                continue
            if not isinstance(found, Exception):
                return found
            with self._lock:
                self._alive -= 1
            if not self._alive or isinstance(found, UserError):
                self._free.put(found)  # the other threads that wait end as well
                raise found
        return None

    def _has(self, actor: Any | Exception) -> None:
        """An actor is free, or one cannot start."""
        self._moved = time.monotonic()
        self._free.put(actor)

    def _send_for_one(self) -> None:
        """Start an actor; it is free once it has greeted, which takes until there is room for it."""
        actor = self._start()

        def arrived(greeting: Future[Greeting]) -> None:
            error = greeting.exception() or self._unlike(greeting.result())
            self._has(actor if error is None else _cause(error))

        actor.greeting.remote().future().add_done_callback(arrived)

    def _unlike(self, greeting: Greeting) -> UserError | None:
        """Keep the first greeting; complain of one from a machine with another release."""
        with self._lock:
            if not self._release:
                self.greeting, self._release = greeting, greeting[0]
        if greeting[0] == self._release:
            return None
        return UserError(
            f"--cluster: machines have releases {self._release} and {greeting[0]} of what is tested;"
            " install the same on all"
        )

    def _put(self, lesson: CoverageSnapshot | None) -> Any:
        """Put a lesson into the cluster's memory, once for all actors."""
        with self._lock:
            if self._told is None or self._told[0] is not lesson:
                self._told = lesson, self._ray.put(lesson)
            return self._told[1]


def _joined(address: str, jobs: int) -> Any:
    """Ray, started here or joined; raises `UserError`."""
    provide("ray")
    if find_spec("ray") is None:
        raise UserError(f"--cluster: Ray is not installed; {how_to_install('ray')}")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would tell its makers of the run
    _must_answer(address)
    ray = import_module("ray")
    quiet = {"log_to_driver": False, "configure_logging": False}
    on_end = signal.getsignal(signal.SIGTERM)
    try:
        if address == LOCAL:
            ray.init(address="local", num_cpus=jobs, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except Exception as error:  # whatever Ray raises where nobody answers
        raise UserError(f"--cluster {address}: no cluster can be used there: {error}") from error
    if current_thread() is main_thread():
        signal.signal(signal.SIGTERM, on_end)  # Ray puts its own there, which ends us without a summary
    return ray


def _must_answer(address: str) -> None:
    """Raises `UserError` if nothing listens at the host and port: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except OSError as error:
        raise UserError(f"--cluster {address}: nobody answers there: {error.strerror or error}") from error


def _cause(error: BaseException) -> Exception:
    """The `UserError` that an actor met, or else what Ray says."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, UserError) else RuntimeError(str(error))
