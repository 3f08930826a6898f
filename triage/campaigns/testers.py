"""Testers of a campaign: one in this process, or one in a process of its own for each job.

A process of its own makes its programs and judges them, so that N jobs use N processors; what comes back is
the seed, the case's id and the verdict. It ends when its pipe does, however this process ends.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from generators.fuzz import Judgement, Tested, Tester, judge_cases
from generators.learning import Lesson
from generators.mixture import Plan, make_tests
from oracles.judge import Judge
from oracles.verdict import Verdict
from triage.bugs.known import KnownIssue
from triage.campaigns.avoiding import avoiding, chains
from triage.console.options import CaseOptions


@dataclass(frozen=True, slots=True)
class Testers:
    """All testers of a run, and the release of the package that they test."""

    all: list[Tester]
    release: str


@contextmanager
def open_testers(
    options: CaseOptions, target: Target, plan: Plan, issues: tuple[KnownIssue, ...] = ()
) -> Iterator[Testers]:
    """As many testers as there are jobs; with one job it is this process itself.

    What could show one of the `issues` is not run.
    """
    with ExitStack() as stack:
        if options.jobs == 1:
            judge = stack.enter_context(options.judge(target))
            yield Testers([_in_this_process(judge, plan, issues)], judge.release)
            return
        remote = [stack.enter_context(_process(options, target, plan, issues)) for _ in range(options.jobs)]
        releases = [tester.release() for tester in remote]
        yield Testers(list(remote), releases[0])


def _in_this_process(judge: Judge, plan: Plan, issues: tuple[KnownIssue, ...]) -> Tester:
    judged = avoiding(judgement(judge), chains(issues, judge.target.backend, judge.release))

    def test(seeds: range, seconds: float, lesson: Lesson | None) -> Iterator[Tested]:
        return judge_cases(make_tests(plan, seeds, lesson), judged, seconds)

    return test


def judgement(judge: Judge) -> Judgement:
    """The judge as the fuzzing loop calls it: it says for each case whether to try the lower levels."""

    def verdict(case: Case, thorough: bool) -> Verdict:
        own = judge.of_format(case.format)
        own.lower_levels = thorough
        return own.verdict(case)

    return verdict


class RemoteError(Exception):
    """A tester's process failed; holds its traceback."""


_FAILED: Mapping[str, type[Exception]] = {"mistake": UserError, "error": RemoteError}


class _Remote:
    """The near end of a tester in another process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told: Lesson | None = None

    def release(self) -> str:
        name: str = self._receive()
        return name

    def __call__(self, seeds: range, seconds: float, lesson: Lesson | None) -> list[Tested]:
        """The tests of some seeds; a lesson goes over once, with the first block that draws from it."""
        news = (lesson,) if lesson is not self._told else ()
        self._told = lesson
        self._connection.send((seeds, seconds, news))
        found: list[Tested] = self._receive()
        return found

    def _receive(self) -> Any:
        try:
            kind, answer = self._connection.recv()
        except EOFError:
            raise RemoteError("a tester's process ended") from None
        if kind in _FAILED:
            raise _FAILED[kind](answer)
        return answer


@contextmanager
def _process(
    options: CaseOptions, target: Target, plan: Plan, issues: tuple[KnownIssue, ...]
) -> Iterator[_Remote]:
    context = get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=_serve, args=(far, options, target, plan, issues), daemon=False)
    process.start()
    far.close()
    try:
        yield _Remote(near)
    finally:
        near.close()
        process.join()


def _serve(
    connection: Connection,
    options: CaseOptions,
    target: Target,
    plan: Plan,
    issues: tuple[KnownIssue, ...],
) -> None:
    """A tester's process: answers until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked is interrupted as well, and closes the pipe
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            with options.judge(target) as judge:
                connection.send(("release", judge.release))
                test = _in_this_process(judge, plan, issues)
                lesson: Lesson | None = None
                while True:
                    seeds, seconds, news = connection.recv()
                    lesson = news[0] if news else lesson
                    connection.send(("tests", list(test(seeds, seconds, lesson))))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except UserError as error:
            connection.send(("mistake", str(error)))
        except Exception:
            connection.send(("error", traceback.format_exc()))
