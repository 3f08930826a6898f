"""A hunt on one release of a package: what it finds, and whether the release before shows that, too."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from oracles.backends import find_backend
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Verdict
from triage.bisection.environments import Place, Unavailable
from triage.bisection.package_index import newest_of
from triage.bugs.known import load_known
from triage.bugs.overview import overview_with_states
from triage.campaigns.budget import Limits
from triage.campaigns.hunt import Hunt
from triage.campaigns.target_campaigns import Fuzzer, TargetCampaign
from triage.cases.sources import Judges
from triage.console.options import CaseOptions
from triage.console.status import Display, PlainLines
from triage.reports.newest_release import open_release
from triage.store.clusters import clusters
from triage.store.database import Store
from triage.store.failures import get_failure
from triage.store.names import representative
from triage.watching import Watch

Before = Callable[[Case], Verdict | None]
"""The verdict of the release before on a case; None where there is none to ask."""


def hunt_beside(watching: Watch, place: Place, minutes: float, out: Path, shown: Display) -> dict[str, Any]:
    """Hunt on a release, and say of each find whether the earlier release shows it too."""
    target = watching.target_at(place)
    with ExitStack() as stack:
        judges = stack.enter_context(Judges(watching.options))
        before = ReleaseBefore(watching, place, judges, stack)
        return hunt_on(watching.store, watching.options, target, minutes, out / place.release, shown, before)


def hunt_on(
    store: Store,
    options: CaseOptions,
    target: Target,
    minutes: float,
    out: Path,
    shown: Display,
    before: Before,
) -> dict[str, Any]:
    """Hunt on a target for so long; its tests, its failures, and the bugs that the database did not know."""
    known = {each.id for each in clusters(store)}
    options = replace(options, target=str(target))  # its Python is one that crux itself has named
    with Fuzzer(store, options, target, "watch") as fuzzer, options.judge(fuzzer.target) as judge:
        front = TargetCampaign(store, fuzzer, judge)
        Hunt(store, options, [front], out, Limits(60 * minutes), shown).run()
        tally = fuzzer.tally
    issues = {
        str(each["id"]): str(each["known"]) for each in overview_with_states(store, load_known(store.path))
    }
    found = [each for each in clusters(store) if each.id not in known and not issues.get(each.name)]
    return {
        "tests": tally.tests,
        "failures": tally.failures,
        "new": [
            {"id": each.name, "title": each.title, "before": _said(before, store, each.id)} for each in found
        ],
    }


def _said(before: Before, store: Store, cluster: int) -> str:
    """The earlier release's result on the cluster's best case; empty if none can be asked."""
    case = store.load_case(get_failure(store, representative(store, cluster)).best_case)
    target = case.target.without_setting("python") if case.target else None
    verdict = before(replace(case, target=target))
    return verdict.outcome.value if verdict else ""


def on_newest(target: Target, stack: ExitStack) -> Target:
    """The target with the newest release of its package, installed while the stack is open.

    Raises `UserError` where nobody says which it is, or where it cannot be installed.
    """
    package = find_backend(target.backend).package
    newest = newest_of(package)
    if not newest.all:
        raise UserError(f"--latest: {newest.why}")
    opened = open_release(package, target.backend, newest.all[0], PlainLines(), may_be_huge=True)
    try:
        place = stack.enter_context(opened)
    except Unavailable as error:
        raise UserError(f"--latest: {package} {newest.all[0]}: {error}") from None
    return target.with_setting("python", place.python) if place.python else target


class ReleaseBefore:
    """Gives the verdict of the release before on a case; it is opened when first asked."""

    def __init__(self, watch: Watch, place: Place, judges: Judges, stack: ExitStack) -> None:
        self._watch, self._judges, self._stack = watch, judges, stack
        self._release = watch.baseline(place.release)
        self._place: Place | None = None

    def __call__(self, case: Case) -> Verdict | None:
        """The verdict; None where there is no such release or it cannot be installed."""
        if self._place is None and self._release:
            opened = self._watch.sources.open(self._release, self._watch.shown)
            try:
                self._place = self._stack.enter_context(opened)
            except Unavailable as error:
                self._watch.shown.note(f"{self._release} cannot be asked: {error}")
                self._release = ""
        if self._place is None:
            return None
        target = self._watch.target_at(self._place, case)
        try:
            return self._judges.of(target, case.format).verdict(replace(case, target=target))
        except SandboxError:
            return None
