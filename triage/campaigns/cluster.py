"""Testers on a cluster, by Ray: each is an actor on some machine, with a sandbox of its own.

What crosses machines are options, seeds, lessons and verdicts; this process alone writes to the database.
An actor that is lost is started anew, perhaps elsewhere, and tests again what it was asked: so a machine that
goes costs its running tests only, and the finds are those of one machine.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from corpus.errors import UserError
from corpus.target import Target
from generators.fuzz import Tested, Tester
from generators.learning import Lesson
from generators.legality import Legality
from generators.mixture import Plan
from oracles.extras import how_to_install
from oracles.native.watching import Met
from triage.bugs.known import KnownIssue
from triage.campaigns.testers import Testers, open_testers
from triage.console.options import CaseOptions

_ANSWER_SECONDS = 10.0
LOCAL = "local"
"""The address that starts Ray on this machine, and ends it with the run."""


class Station:
    """A tester as Ray holds it, in a process of its own."""

    def __init__(
        self, options: CaseOptions, target: Target, plan: Plan, issues: tuple[KnownIssue, ...], native: bool
    ) -> None:
        self._stack = ExitStack()
        self._testers = self._stack.enter_context(open_testers(options, target, plan, issues, native=native))

    def greeting(self) -> tuple[str, Met | None, Legality]:
        """Return the release of the package, what the start met of its code, and what programs keep to."""
        return self._testers.release, self._testers.begun, self._testers.legality

    def test(self, seeds: range, seconds: float, lesson: Lesson | None) -> list[Tested]:
        """Return the tests of some seeds."""
        (tester,) = self._testers.all
        return list(tester(seeds, seconds, lesson))


@contextmanager
def cluster_testers(
    address: str,
    options: CaseOptions,
    target: Target,
    plan: Plan,
    issues: tuple[KnownIssue, ...] = (),
    *,
    native: bool = False,
) -> Iterator[Testers]:
    """A tester for each job, on the cluster at this address; raises `UserError` where there is none."""
    ray = _joined(address, options.jobs)
    try:
        station = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Station)
        given = (replace(options, jobs=1), target, plan, issues, native)
        actors = [station.remote(*given) for _ in range(options.jobs)]
        greetings = _answers(ray, [actor.greeting.remote() for actor in actors])
        yield Testers([_caller(ray, actor) for actor in actors], *greetings[0])
    finally:
        ray.shutdown()


def _joined(address: str, jobs: int) -> Any:
    """Ray, started here or joined; raises `UserError`."""
    if find_spec("ray") is None:
        raise UserError(f"--cluster: Ray is not installed; {how_to_install('ray')}")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    _must_answer(address)
    ray = import_module("ray")
    quiet = {"log_to_driver": False, "configure_logging": False}
    try:
        if address == LOCAL:
            ray.init(num_cpus=jobs, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except Exception as error:  # whatever Ray raises where nobody answers
        raise UserError(f"--cluster {address}: no cluster can be used there: {error}") from error
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


def _caller(ray: Any, actor: Any) -> Tester:
    """The near end of one actor; a lesson is put into the cluster's memory once."""
    told: list[tuple[Lesson | None, Any]] = []

    def test(seeds: range, seconds: float, lesson: Lesson | None) -> Sequence[Tested]:
        if not told or told[0][0] is not lesson:
            told[:] = [(lesson, ray.put(lesson))]
        (found,) = _answers(ray, [actor.test.remote(seeds, seconds, told[0][1])])
        tests: Sequence[Tested] = found
        return tests

    return test


def _answers(ray: Any, references: Sequence[Any]) -> list[Any]:
    """Return the actors' answers. Raises the `UserError` that one of them met."""
    try:
        found: list[Any] = ray.get(list(references))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise error.cause from None
        raise
    return found
