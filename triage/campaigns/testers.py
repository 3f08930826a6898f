"""Testers of a campaign: one in this process, or one in a process of its own for each job.

A process of its own makes its programs and judges them, so that N jobs use N processors; what comes back is
the seed, the case's id and the verdict. It ends when its pipe does, however this process ends.
"""

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from corpus.case import Case, Remark
from corpus.errors import UserError
from corpus.formats import format_names
from corpus.processes import call_apart
from corpus.target import Target
from generators.feedback import CoverageSnapshot
from generators.fuzz import (
    NO_PATTERNS,
    Fired,
    Judgement,
    Look,
    Looking,
    Tested,
    Tester,
    is_thorough,
    judge_cases,
)
from generators.legality import ANYTHING, Legality
from generators.mixture import DrawnCase, Plan, make_tests
from oracles.judge import Judge
from oracles.native.watching import Met, Watch
from oracles.screening import passing
from oracles.verdict import SURVIVAL, Verdict
from triage.campaigns.coverage_sync import open_watch
from triage.console.options import CaseOptions

Greeting = tuple[str, Met | None, Legality]
"""The release that is tested, what its start met of its code, what programs keep to."""


@dataclass(frozen=True, slots=True)
class Testers:
    """All testers of a run, and the release of the package that they test.

    `begun` is what the start of the target met of its code, where that is watched. `legality` is what their
    programs keep to.
    """

    all: list[Tester]
    release: str
    begun: Met | None = None
    legality: Legality = ANYTHING

    @property
    def greeting(self) -> Greeting:
        """What a tester elsewhere says of itself first."""
        return self.release, self.begun, self.legality


@contextmanager
def open_testers(
    options: CaseOptions,
    target: Target,
    plan: Plan,
    *,
    native: bool = False,
) -> Iterator[Testers]:
    """Open as many testers as there are jobs; with one job it is this process itself.

    With `native` the target's own code is watched.
    """
    with ExitStack() as stack:
        if options.jobs == 1:
            watch = stack.enter_context(closing(open_watch(target))) if native else None
            judge = stack.enter_context(options.judge(target, watch=watch))
            legality = legality_of(judge, plan)
            test = in_this_process(judge, replace(plan, legality=legality))
            yield Testers([test], judge.release, begun(watch), legality)
            return
        given = (replace(options, jobs=1), target, plan, native)
        ends = [stack.enter_context(call_apart(_serve, *given)) for _ in range(options.jobs)]
        remote = [_Remote(near) for near in ends]
        greetings = [tester.greeting() for tester in remote]
        yield Testers(list(remote), *greetings[0])


def legality_of(judge: Judge, plan: Plan) -> Legality:
    """The operators and types of a target: its own table without known refusals."""
    return replace(plan.legality, operators=judge.executor.vocabulary(), lacks=judge.backend.lacks)


def begun(watch: Watch | None) -> Met | None:
    """What was reached before the first test."""
    return Met(watch.ever(), watch.ever()[:0]) if watch else None


def in_this_process(judge: Judge, plan: Plan) -> Tester:
    """The tester of a judge."""
    take = judge.watch.take if judge.watch else lambda: None
    judged, fired = judgement(judge), asker_of(judge)

    def test(seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> Iterator[Tested]:
        known = lesson.pool.seen if lesson is not None else frozenset()
        together = () if judge.watch else tuple(filter(judge.looks_together, format_names()))
        looks = looking(judge, together) if together else None
        return judge_cases(make_tests(plan, seeds, lesson), judged, seconds, take, fired, looks, known)

    return test


def asker_of(judge: Judge) -> Callable[[Case], Fired]:
    """Counts the patterns in a case, and those whose pass changes it; tells what fires together."""
    told = judge.backend.passes

    def fired(case: Case) -> Fired:
        names = case.remarks(Remark.PATTERN)
        if not names or told is None or told.may_have_fired is None:
            return NO_PATTERNS
        executor = judge.of_format(case.format).executor
        if judge.backend.graphs_of(case.format) is not None:
            found = executor.changed_by(case.program, names)
            return Fired(len(names), len(found), _effects(dict.fromkeys(found, found)))
        ways = [told.without(executor.configs[1], told.told_with(name)) for name in names]
        runs = executor.runs(case, tuple(ways), collect_log=True)
        firing = {
            name: told.fired(run) for name, run in zip(names, runs, strict=True) if told.has_fired(run, name)
        }
        return Fired(len(names), len(firing), _effects(firing))

    return fired


def _effects(firing: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Name each pass that fires, alone and with every other that does."""
    return frozenset(f"{name} with {other}" for name, others in firing.items() for other in (name, *others))


def looking(judge: Judge, formats: Sequence[str]) -> Looking:
    """A first look at the programs of these languages in a block, those of one together."""

    def look(drawn: Sequence[DrawnCase]) -> list[Look | None]:
        found: list[Look | None] = [None] * len(drawn)
        for format in formats:
            places = [at for at, each in enumerate(drawn) if each.case.format == format]
            thorough = [place for place, at in enumerate(places) if is_thorough(drawn[at].seed)]
            own = judge.of_format(format)
            with own.executor.briefly(format):
                seen = own.look([drawn[at].case for at in places], thorough)
            for at, each in zip(places, seen, strict=True):
                found[at] = Look(passing(each), each.covered) if each is not None else None
        return found

    return look


def judgement(judge: Judge) -> Judgement:
    """The judge as the fuzzing loop calls it: it says for each case whether to try the lower levels."""

    def verdict(case: Case, thorough: bool) -> Verdict:
        own = judge.of_format(case.format)
        own.lower_levels = thorough
        with own.executor.briefly(case.format, may_hang=SURVIVAL in case.settings):
            return own.verdict(case)

    return verdict


class RemoteError(Exception):
    """A tester's process failed; holds its traceback."""


_FAILED: Mapping[str, type[Exception]] = {"mistake": UserError, "error": RemoteError}


class _Remote:
    """The near end of a tester in another process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told: CoverageSnapshot | None = None

    def greeting(self) -> Greeting:
        """What the tester says first."""
        found: Greeting = self._receive()
        return found

    def __call__(self, seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> list[Tested]:
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


def _serve(
    connection: Connection,
    options: CaseOptions,
    target: Target,
    plan: Plan,
    native: bool,
) -> None:
    """A tester's process: answers until the pipe is closed."""
    try:
        with open_testers(options, target, plan, native=native) as own:
            connection.send(("greeting", own.greeting))
            (test,) = own.all
            lesson: CoverageSnapshot | None = None
            while True:
                seeds, seconds, news = connection.recv()
                lesson = news[0] if news else lesson
                found = [each.without_case() for each in test(seeds, seconds, lesson)]
                connection.send(("tests", found))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise
    except UserError as error:
        connection.send(("mistake", str(error)))
    except Exception:
        connection.send(("error", traceback.format_exc()))
