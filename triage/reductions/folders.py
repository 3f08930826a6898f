"""Reducing into folders: what the command line names, and the failures of a store.

The folder has the case with its script; that of a store's failure lies beside the store, so that a kill loses
nothing.
"""

import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import must_be_known
from corpus.reading import write_fresh
from corpus.target import Target
from oracles.judge import Judge
from oracles.naming import Component, Signature
from oracles.verdict import Outcome, Verdict
from reducer.api import finished, reduce_case
from reducer.course import DoesNotFail, Options
from reducer.course import Progress as Step
from reducer.engine.journal import NAME as JOURNAL
from reducer.engine.journal import Journal, OtherReduction
from reducer.result import DETAILS, Reduction
from reducer.result import NAME as REDUCTION
from triage.bugs.failures import DeclaredLimit, limits, record_failure, return_to_new, set_aside
from triage.cases.sources import Judges, alone, rewrites
from triage.causes.cores import site_of_crash
from triage.claims.titles import claim_of, operators_of, title_of
from triage.clustering.similarity import BEFORE_REDUCTION, group_of
from triage.console.foot import clock
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.projects import project_of, runner_of
from triage.reductions.explained import name_reduced, record_result
from triage.repro.script import write_script
from triage.repro.source import source_of
from triage.store.artifacts import REDUCTION_KEPT, keep_artifact
from triage.store.causes import OldDecision, follow, old_decisions, retire, revive
from triage.store.clusters import get_cluster, get_signature
from triage.store.database import Store
from triage.store.failures import (
    MET,
    REDUCED,
    UNREDUCIBLE,
    Failure,
    failure_of_case,
    get_failure,
    keep_reduction,
    reduction_of,
)


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
        with lent(judge, options, case.format) as asked:
            source = source_of(case, asked)
    except UserError as error:
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


Reduced: TypeAlias = tuple[dict[str, Any], Reduction | None]
"""The document of a reduction and the reduction, as `reduce_into` gives them."""


def reduce_failure(
    store: Store,
    failure: Failure,
    options: CaseOptions,
    request: Request,
    shown: Progress,
    judge: Judge | None = None,
    on_shown: Callable[[Case, Verdict], None] = lambda case, verdict: None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Failure, dict[str, Any] | None]:
    """Reduce a failure of the store in a folder beside it, so that a kill loses nothing; None: no bug shows.

    Other symptoms that are met on the way are kept as failures of their own, each once. `judge` is one of the
    failure's target, lent. `on_shown` hears of the reduced case what its last runs have shown, if it fails
    every time. The request's minutes are told by `clock`.
    """
    work = store.path.with_name(store.path.name + ".reducing") / failure.name
    with locked(work, 60 * (request.minutes or float("inf"))):
        now = get_failure(store, failure.id)
        if now.status == REDUCED:  # by another process, while this one waited for it
            return now, reduction_of(store, now.cluster)
        return _reduce_in(work, store, now, options, request, shown, judge, on_shown, clock)


def _reduce_in(
    work: Path,
    store: Store,
    failure: Failure,
    options: CaseOptions,
    request: Request,
    shown: Progress,
    judge: Judge | None,
    on_shown: Callable[[Case, Verdict], None],
    clock: Callable[[], float],
) -> tuple[Failure, dict[str, Any] | None]:
    case = store.load_case(failure.case_id)
    must_be_known(case, failure.name, trust=options.trust)
    target = options.trusted(Target.of_data(failure.target))
    settings = replace(reducer_options(options, target, request), clock=clock)
    judge = judge.of_format(case.format) if judge is not None else None
    begin = partial(reduce_into, case, work, settings, shown, _ByCatch(store.path, failure), judge)
    try:
        document, done = _begun(begin, work)
    except DoesNotFail:
        set_aside(store, failure, UNREDUCIBLE, {"why": "the failure does not show any more"})
        _clear(work)
        return failure, None
    reduced, verdict = result_of(done, work, settings)
    if not verdict.is_bug:
        set_aside(store, failure, UNREDUCIBLE, {"why": f"it is judged {verdict.outcome} now"})
        _clear(work)
        return failure, None
    if done is not None and done.is_shown and done.rate == 1.0:
        on_shown(reduced, verdict)
    with lent(judge, settings, case.format) as asked:
        after, finding = record_result(store, failure, reduced, verdict, document, settings, asked)
    document = {**document, "root": finding.evidence()}
    with store.transaction():
        keep_artifact(store, REDUCTION_KEPT, failure.name, work / REDUCTION)
    _clear(work)
    return after, document


def _begun(begin: Callable[[], Reduced], work: Path) -> Reduced:
    """The reduction, anew where one was begun with other options, or by another release."""
    try:
        return begin()
    except OtherReduction:  # the folder is our own
        _clear(work)
        return begin()


class BeingReduced(UserError):
    """Another process reduces the failure, and has not come to an end."""


@contextmanager
def locked(work: Path, seconds: float) -> Iterator[None]:
    """Hold a reduction's folder against other processes; raises `BeingReduced` after so long a wait."""
    place = work.with_name(work.name + ".lock")
    deadline = time.monotonic() + seconds
    while (held := _locked(place)) is None:
        if time.monotonic() >= deadline:
            raise BeingReduced(f"{work.name}: another process is reducing it")
        time.sleep(0.2)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(held)
        with suppress(OSError):
            work.parent.rmdir()


def _locked(place: Path) -> int | None:
    """The descriptor that holds the lock of that name; None while another process holds it."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_CREAT | os.O_RDWR, 0o600)
    except FileNotFoundError:  # the folder of all went away in between
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == os.stat(place).st_ino:
            return descriptor
    except OSError:  # somebody holds it, or has just given it up and removed it
        pass
    os.close(descriptor)
    return None


def _clear(work: Path) -> None:
    """Remove a finished reduction's folder, and the folder of all when it was the last."""
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):
        work.parent.rmdir()


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
            met = replace(case, origin=MET.format(self._failure.name))
            with Store(self._database) as store:
                record_failure(store, met, verdict, release=self._failure.release)


CHECKS_OF_A_LIMIT = 40
"""Most checks for one form: an importer stops at one node, to which its message leads."""


def reduced_limits(store: Store, judges: Judges, shown: Progress) -> dict[str, list[DeclaredLimit]]:
    """The limits by target, after one failure of each form was reduced where none was."""
    every = limits(store)
    seen = {(each.target, each.form) for each in every if each.is_reduced}
    for each in every:
        if (each.target, each.form) in seen:
            continue
        seen.add((each.target, each.form))
        failure = get_failure(store, each.failure)
        shown.note(f"reducing {failure.name}: {each.operator}, {each.form}")
        try:
            judge = judges.of_failure(store, failure)
            reduce_failure(
                store, failure, judges.options, Request(max_checks=CHECKS_OF_A_LIMIT), shown, judge
            )
        except UserError as error:  # it is shown as it is
            shown.note(f"{failure.name} is left: {error}")
    found: dict[str, list[DeclaredLimit]] = {}
    for each in limits(store):
        found.setdefault(each.target, []).append(each)
    return found


NOT_SHOWN = "it does not show here any more, and stays as it was"


@dataclass(frozen=True)
class Again:
    """Decides old failures of a store anew."""

    store: Store
    options: CaseOptions
    request: Request
    shown: Progress

    def decide(self, old: OldDecision, judge: Judge) -> dict[str, Any] | None:
        """Reduce, name and place a failure with all that share its signature; None where it does not show."""
        failure = get_failure(self.store, old.failure)
        settings = reducer_options(
            self.options, self.options.trusted(Target.of_data(failure.target)), self.request
        )
        for case_id in dict.fromkeys((failure.best_case, failure.case_id)):
            case = self.store.load_case(case_id)
            must_be_known(case, failure.name, trust=self.options.trust)
            found = self._reduced(case, settings, judge.of_format(case.format))
            if found is not None:
                return self._record(old, failure, *found, settings, judge.of_format(case.format))
        with self.store.transaction():
            keep_reduction(self.store, failure.id, failure.reduced_case, "kept", {"why": NOT_SHOWN})
        self.shown.note(f"{failure.name}: {NOT_SHOWN}")
        return None

    def _reduced(
        self, case: Case, settings: Options, judge: Judge
    ) -> tuple[Case, Verdict, dict[str, Any]] | None:
        with tempfile.TemporaryDirectory(prefix="crux-again-") as name:
            work = Path(name) / "work"
            try:
                document, done = reduce_into(case, work, settings, self.shown, judge=judge)
            except DoesNotFail:
                return None
            reduced, verdict = result_of(done, work, settings)
            return (reduced, verdict, document) if verdict.is_bug else None

    def _record(
        self,
        old: OldDecision,
        failure: Failure,
        reduced: Case,
        verdict: Verdict,
        document: dict[str, Any],
        settings: Options,
        judge: Judge,
    ) -> dict[str, Any]:
        before = get_cluster(self.store, old.cluster)
        with self.store.transaction():
            retire(self.store, old.cluster, self._beside(old))
        return_to_new(self.store, [failure.id])  # else it would be compared with itself
        with lent(judge, settings, reduced.format) as asked:
            after, _ = record_result(self.store, failure, reduced, verdict, document, settings, asked)
        why = f"{failure.name} was reduced again by a newer crux"
        with self.store.transaction():
            kind = " ".join(group_of(get_signature(self.store, after.signature)) or ())
            revive(self.store, after.signature, kind)
            follow(self.store, old, before, after.signature, after.cluster, why)
        now = get_failure(self.store, failure.id).cluster_name
        return {"id": failure.name, "cluster": now, "before": before.name, **document}

    def _beside(self, old: OldDecision) -> list[str]:
        """The old signatures of its cluster: none of them keeps the new one out."""
        return [each.signature for each in old_decisions(self.store) if each.cluster == old.cluster]
