"""Declared limits made small before they are asked for: the smallest model of each form, in a few checks."""

from __future__ import annotations

from corpus.errors import UserError
from corpus.target import Target
from triage.bugs.limits import DeclaredLimit, limits
from triage.cases.judges import Judges
from triage.console.progress import Progress
from triage.reductions.failures import reduce_failure
from triage.reductions.request import Request
from triage.store.database import Store
from triage.store.failures import get_failure

CHECKS = 40
"""Most checks for one form: an importer stops at one node, to which its message leads."""


def reduced_limits(store: Store, judges: Judges, shown: Progress) -> dict[str, list[DeclaredLimit]]:
    """Return the limits by target, after one failure of each form was reduced where none was."""
    every = limits(store)
    seen = {(each.target, each.form) for each in every if each.is_reduced}
    for each in every:
        if (each.target, each.form) in seen:
            continue
        seen.add((each.target, each.form))
        failure = get_failure(store, each.failure)
        shown.note(f"reducing {failure.name}: {each.operator}, {each.form}")
        try:
            judge = judges.of(Target.of_data(failure.target), store.load_case(failure.case_id).format)
            reduce_failure(store, failure, judges.options, Request(max_checks=CHECKS), shown, judge)
        except UserError as error:  # it is shown as it is
            shown.note(f"{failure.name} is left: {error}")
    found: dict[str, list[DeclaredLimit]] = {}
    for each in limits(store):
        found.setdefault(each.target, []).append(each)
    return found
