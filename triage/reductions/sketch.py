"""What names a failure until it is reduced: the signature of what a few checks leave of it.

A symptom alone puts all wrong results into one heap and one crash into as many as it has callers. The
evidence of a failure mostly leads to its operators within ten checks; what they leave is compared with its
like only, never with a reduced case.
"""

import tempfile
from pathlib import Path

from corpus.case import Case
from oracles.judge import Judge
from oracles.naming import Component, Signature
from oracles.verdict import Outcome, Verdict
from reducer.api import reduce_case
from reducer.options import DoesNotFail
from triage.bugs.failures import record_failure
from triage.causes.cores import site_of_crash
from triage.clustering.similarity import BEFORE_REDUCTION
from triage.console.options import CaseOptions
from triage.reductions.explained import name_reduced
from triage.reductions.folders import Request, reducer_options
from triage.store.database import Store
from triage.store.failures import find_failure


def keep(options: CaseOptions, case: Case, verdict: Verdict, release: str) -> str:
    """Store a failing case with the sketch that groups it until it is reduced; the failure's name."""
    assert options.db is not None
    with Store(options.db) as store:
        sketched = None if find_failure(store, case) else sketch(case, options)
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
