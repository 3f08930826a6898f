"""Reducing the failures of a store: each in a folder beside it, so that a kill loses nothing."""

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import must_be_known
from corpus.target import Target
from oracles.judge import Judge
from oracles.verdict import Verdict
from reducer.course import DoesNotFail
from reducer.engine.journal import OtherReduction
from reducer.result import NAME as REDUCTION
from reducer.result import Reduction
from triage.bugs.failures import DeclaredLimit, limits, record_failure, set_aside
from triage.cases.sources import Judges
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.reductions.explained import record_result
from triage.reductions.folders import Request, lent, reduce_into, reducer_options, result_of
from triage.store.artifacts import REDUCTION_KEPT, keep_artifact
from triage.store.database import Store
from triage.store.failures import (
    REDUCED,
    UNREDUCIBLE,
    Failure,
    get_failure,
    origins,
    reduction_of,
)

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
            with Store(self._database) as store:
                met = replace(case, origin=origins(store, self._failure.id)[0])
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
