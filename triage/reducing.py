"""Reducing from the command line and from a store: settings, progress, and where the result is kept."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.target import Target
from oracles.compare import Tolerance
from oracles.names import names_of_case
from oracles.naming import signature
from oracles.run import Limits
from oracles.signature import Signature
from oracles.verdict import Verdict
from reducer.api import DoesNotFail, Options, Progress, Reduction, finished, reduce_case
from reducer.journal import NAME as JOURNAL
from reducer.journal import Journal
from reducer.result import DETAILS
from reducer.result import NAME as REDUCTION
from triage import issue, progress
from triage.expectation import expect
from triage.failures import UNREDUCIBLE, Failure, record_failure, record_reduction, set_aside
from triage.options import WALL_PER_CPU, CaseOptions
from triage.records import REDUCTION_KEPT, keep_artifact
from triage.repro.runners import RUNNERS
from triage.repro.script import Claim, source_of, write_script
from triage.store import Store

SCRIPT = "repro.py"


@dataclass(frozen=True)
class Budget:
    """How long one reduction may take, and by which commands it judges."""

    minutes: float | None = None
    max_checks: int | None = None
    check: str | None = None
    check_exit: int = 0
    also: str | None = None
    private: bool = False


def reducer_options(options: CaseOptions, target: Target, budget: Budget) -> Options:
    return Options(
        target=target,
        check=budget.check,
        check_exit=budget.check_exit,
        also=budget.also,
        jobs=options.jobs,
        minutes=budget.minutes,
        max_checks=budget.max_checks,
        limits=Limits(options.timeout, options.timeout * WALL_PER_CPU, options.memory << 20),
        rtol=options.rtol,
        atol=options.atol,
        accept_invalid=options.accept_invalid,
        private=budget.private,
    )


def reduce_into(
    case: Case,
    out: Path,
    options: Options,
    shown: progress.Progress,
    on_other: Callable[[Case, Verdict], None] = lambda case, verdict: None,
) -> tuple[dict[str, Any], Reduction | None]:
    """The JSON document of a reduction, and the reduction; None when the folder held a finished one."""
    facts = finished(out)
    if facts is not None:
        _must_be_the_same(case, out, options)
        if not (out / SCRIPT).exists() and _has_script(options):  # a kill came before it was written
            _write_repro(*_result(None, out, options), out, options)
        return {
            **{name: facts[name] for name in facts if name not in DETAILS},
            "cached": 0,
            "seconds": 0.0,
        }, None
    done = reduce_case(case, out, options, lambda step: shown.status(_line(step)), on_other)
    if done.verdict is not None:
        _write_repro(done.case, done.verdict, out, options)
    return done.to_json(), done


def reduce_failure(
    store: Store, failure: Failure, options: CaseOptions, budget: Budget, shown: progress.Progress
) -> tuple[Failure, dict[str, Any] | None]:
    """Reduce a failure of the store in a folder beside it, so that a kill loses nothing; None: gone.

    Other symptoms that are met on the way are kept as failures of their own, each once.
    """
    work = work_folder(store, failure)
    case = store.load_case(failure.case_id)
    settings = reducer_options(options, Target.parse(failure.target), budget)
    try:
        document, done = reduce_into(case, work, settings, shown, _ByCatch(store.path, failure))
    except DoesNotFail:
        set_aside(store, failure, UNREDUCIBLE, {"why": "the failure does not show any more"})
        _clear(work)
        return failure, None
    reduced, verdict = _result(done, work, settings)
    found = name_reduced(reduced, verdict, tuple(document["passes"]))
    after = record_reduction(store, failure, reduced, verdict, found, document)
    with store.transaction():
        keep_artifact(store, REDUCTION_KEPT, failure.name, work / REDUCTION)
    _clear(work)
    return after, document


def name_reduced(case: Case, verdict: Verdict, passes: tuple[str, ...]) -> Signature:
    """The signature of what a reduction left."""
    return signature(verdict, case.measure, case, passes)


def work_folder(store: Store, failure: Failure) -> Path:
    """Where the reduction of a failure stands while it goes on; a later run resumes it."""
    return store.path.with_name(store.path.name + ".reducing") / failure.name


def _clear(work: Path) -> None:
    """Remove a finished reduction's folder, and the folder of all when it was the last."""
    shutil.rmtree(work, ignore_errors=True)
    with contextlib.suppress(OSError):
        work.parent.rmdir()


def _result(done: Reduction | None, work: Path, settings: Options) -> tuple[Case, Verdict]:
    """The reduced case and its verdict; a finished reduction that was not yet recorded is judged again."""
    if done is not None and done.verdict is not None:
        return done.case, done.verdict

    case = Case.load(work)
    with settings.judge(case.format) as judge:
        return case, judge.verdict(case)


class _ByCatch:
    """Keeps one failure of each other symptom that a reduction meets; called from its worker threads."""

    def __init__(self, database: Path, failure: Failure) -> None:
        self._database = database
        self._failure = failure
        self._known = {failure.symptom}
        self._lock = threading.Lock()

    def __call__(self, case: Case, verdict: Verdict) -> None:
        symptom = str(verdict.symptom)
        with self._lock:
            if symptom in self._known:
                return
            self._known.add(symptom)
            met = replace(case, origin=f"met while {self._failure.name} was reduced")
            with Store(self._database) as store:
                record_failure(store, met, verdict, release=self._failure.release)


def _must_be_the_same(case: Case, out: Path, options: Options) -> None:
    """Raises `UserError` when the finished reduction in the folder is not of this case and these options."""
    journal = Journal(out / JOURNAL, options.header(case))
    journal.open()
    journal.close()


def _has_script(options: Options) -> bool:
    """Whether a reduction leaves a script: not where a user's command is what failed."""
    return options.check is None and options.target.backend in RUNNERS


def _write_repro(case: Case, verdict: Verdict, out: Path, options: Options) -> None:
    """`repro.py` beside the reduced case."""
    is_asked = any(run.config.asked_by for run in verdict.runs)
    if not verdict.is_bug or is_asked or not _has_script(options):
        return
    tolerance = Tolerance(options.rtol, options.atol)
    expectation = expect(verdict, tolerance, names_of_case(case))
    title = issue.title(expectation, case.measure.ops)
    claim = Claim(expectation, title, tolerance, options.limits.cpu_seconds + 10, options.limits.memory_bytes)
    from oracles.judge import Judge

    with Judge(options.target, limits=options.limits, format=case.format) as judge:
        source = source_of(case, judge)
    (out / SCRIPT).write_text(write_script(case, claim, source=source), encoding="utf-8")


def _line(step: Progress) -> str:
    return f"{step.move or 'start'}: {step.nodes} nodes, {step.bytes:,} bytes, {step.checks} checks"
