"""Reducing into a folder, as the command line does it: settings, progress, and the script beside the case."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.reading import write_fresh
from corpus.target import Target
from oracles.judge import Judge
from oracles.naming import Component, Signature
from oracles.verdict import Outcome, Verdict
from reducer.api import finished, reduce_case
from reducer.course import DoesNotFail, Options
from reducer.course import Progress as Step
from reducer.engine.journal import NAME as JOURNAL
from reducer.engine.journal import Journal
from reducer.result import DETAILS, Reduction
from triage.bugs.failures import record_failure
from triage.cases.sources import alone, rewrites
from triage.causes.cores import site_of_crash
from triage.clustering.similarity import BEFORE_REDUCTION
from triage.console.foot import clock
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.projects import project_of, runner_of
from triage.reductions.explained import name_reduced
from triage.repro.script import write_script
from triage.repro.source import NotWritten, source_of
from triage.store.database import Store
from triage.store.failures import (
    failure_of_case,
)
from triage.titles import claim_of, operators_of, title_of


@dataclass(frozen=True)
class Request:
    """The options of `crux reduce` besides the case and the common ones."""

    minutes: float | None = None
    max_checks: int | None = None
    check: str | None = None
    check_exit: int = 0
    also: str | None = None
    private: bool = False
    thorough: bool = False


SCRIPT = "repro.py"


def reducer_options(options: CaseOptions, target: Target, request: Request) -> Options:
    """Merge the command line's options with those of one reduction."""
    return Options(
        **asdict(request),
        target=target,
        jobs=options.jobs,
        limits=options.limits,
        tolerance=options.tolerances,
        accept_invalid=options.accept_invalid,
    )


def reduce_into(
    case: Case,
    out: Path,
    options: Options,
    shown: Progress,
    on_other: Callable[[Case, Verdict], None] = lambda case, verdict: None,
    judge: Judge | None = None,
) -> tuple[dict[str, Any], Reduction | None]:
    """The JSON document of a reduction, and the reduction; None when the folder held a finished one.

    `judge` is one as the options have it, lent.
    """
    case = _alone(case, options, shown, judge)
    facts = finished(out)
    if facts is not None:
        _must_be_the_same(case, out, options)
        if not (out / SCRIPT).exists() and _has_script(options):  # a kill came before it was written
            _write_repro(*result_of(None, out, options), out, options, shown, judge)
        return {
            **{name: facts[name] for name in facts if name not in DETAILS},
            "cached": 0,
            "seconds": 0.0,
        }, None
    ends = options.clock() + 60 * options.minutes if options.minutes else None

    def on_progress(step: Step) -> None:
        shown.status(_line(step, None if ends is None else max(ends - options.clock(), 0)))

    done = reduce_case(case, out, options, on_progress, on_other, judge)
    if done.verdict is not None:
        _write_repro(done.case, done.verdict, out, options, shown, judge)
    return done.to_json(), done


def _alone(case: Case, options: Options, shown: Progress, judge: Judge | None) -> Case:
    """The case, or what an oracle has rewritten it to, where that fails by itself."""
    if options.check is not None or not rewrites(options.target):
        return case
    with lent(judge, options, case.format) as asked:
        return alone(case, asked, shown.status)[0]


@contextmanager
def lent(judge: Judge | None, options: Options, format: str) -> Iterator[Judge]:
    """Yield the judge that was lent, or one as the options have it for the time of the block."""
    if judge is not None:
        yield judge
        return
    with options.judge(format) as own:
        yield own


def result_of(done: Reduction | None, work: Path, settings: Options) -> tuple[Case, Verdict]:
    """The reduced case and its verdict; a finished reduction that was not yet recorded is judged again."""
    if done is not None and done.verdict is not None:
        return done.case, done.verdict

    case = Case.load(work)
    with settings.judge(case.format) as judge:
        return case, judge.verdict(case)


def _must_be_the_same(case: Case, out: Path, options: Options) -> None:
    """Raises `UserError` when the finished reduction in the folder is not of this case and these options."""
    journal = Journal(out / JOURNAL, options.header(case))
    journal.open()
    journal.close()


def _has_script(options: Options) -> bool:
    """Whether a reduction leaves a script: not where a user's command is what failed."""
    return options.check is None and bool(project_of(options.target.backend).runners)


def _write_repro(
    case: Case,
    verdict: Verdict,
    out: Path,
    options: Options,
    shown: Progress,
    judge: Judge | None,
) -> None:
    """`repro.py` beside the reduced case, where its program can be had as code."""
    if not verdict.is_bug or not _has_script(options):
        return
    runner_of(options.target.backend, case.format)  # raises for a program that no script is written for
    try:
        claim = claim_of(case, verdict, options)
    except UserError as error:
        shown.note(f"no {SCRIPT}: {error}")
        return
    try:
        with lent(judge, options, case.format) as asked:
            source = source_of(case, asked)
    except NotWritten as error:
        shown.note(f"no {SCRIPT}: {error}")
        return
    claim = replace(claim, title=title_of(claim.expectation, operators_of(case)))
    write_fresh(out / SCRIPT, write_script(case, claim, source=source))


def _line(step: Step, seconds: float | None) -> str:
    left = "" if seconds is None else f", {clock(seconds)} left"
    return f"{step.move or 'start'}: {step.nodes} nodes, {step.bytes:,} bytes, {step.checks} checks{left}"


def keep(options: CaseOptions, case: Case, verdict: Verdict, release: str) -> str:
    """Store a failing case with the sketch that groups it until it is reduced; the failure's name."""
    assert options.db is not None
    with Store(options.db) as store:
        sketched = None if failure_of_case(store, case) else sketch(case, options)
        return record_failure(store, case, verdict, release=release, sketched=sketched).name


CHECKS = 10


def sketch(case: Case, options: CaseOptions) -> Signature | None:
    """Name a failing case for now; None if it does not fail again."""
    assert case.target is not None
    settings = reducer_options(options, case.target, Request(max_checks=CHECKS))
    with tempfile.TemporaryDirectory(prefix="crux-sketch-") as name, settings.judge(case.format) as judge:
        try:
            done = reduce_case(case, Path(name) / "sketch", settings, judge=judge)
        except DoesNotFail:
            return None
        if done.verdict is None:
            return None
        passes = done.passes.minimal if done.passes else ()
        found = name_reduced(done.case, done.verdict, passes, judge)
        components = _at_its_site(found, done.case, judge) if not passes else found.components
    return Signature.of(("basis", BEFORE_REDUCTION), *components)


def _at_its_site(found: Signature, case: Case, judge: Judge) -> tuple[Component, ...]:
    """The components of a crash with the operator in which it dies for those that are left around it."""
    is_crash = ("outcome", Outcome.CRASH.value) in found.components
    site = site_of_crash(case, judge) if is_crash and case.measure.nodes > 1 else None
    if site is None:
        return found.components
    return tuple((name, site.operator if name == "ops" else text) for name, text in found.components)
