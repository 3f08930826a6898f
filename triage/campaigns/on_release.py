"""A hunt on a release that has just come out, and which of its bugs the release before shows as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.target import Target
from oracles.verdict import Verdict
from triage.bugs.known import load_known
from triage.bugs.standing import overview_with_states
from triage.campaigns.front import Front
from triage.campaigns.fuzzing import Fuzzer
from triage.campaigns.hunt import Hunt, Limits
from triage.console.display import Display
from triage.console.options import CaseOptions
from triage.store.clusters import clusters
from triage.store.database import Store
from triage.store.failures import get_failure
from triage.store.names import representative

Before = Callable[[Case], Verdict | None]
"""The verdict of the release before on a case; None where there is none to ask."""


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
        front = Front(store, fuzzer, judge)
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
    """Return the earlier release's result on the cluster's best case; empty if none can be asked."""
    case = store.load_case(get_failure(store, representative(store, cluster)).best_case)
    target = case.target.without_setting("python") if case.target else None
    verdict = before(replace(case, target=target))
    return verdict.outcome.value if verdict else ""
