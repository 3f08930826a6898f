"""Failures that a known bug explains: asked before a reduction, kept with evidence, and sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from oracles.judge import Judge
from triage.bugs.failures import mark_explained, return_to_new
from triage.causes.explaining import Bug, Explanation, by_symptom, counting, explain, operators_of
from triage.causes.sites import Sites
from triage.store.causes import (
    count_explained,
    explained_by,
    explanation_of,
    forget_explanations,
    note_explained,
    reduced_bugs,
)
from triage.store.database import Store
from triage.store.failures import EXPLAINED, NEW, REDUCED, Failure, get_failure, list_failures
from triage.store.names import cluster_name

FIRST_SAMPLE, BETWEEN_SAMPLES = 3, 8
"""Of the failures that a bug explains the third, the 24th, the 192nd and so on are reduced anyway."""


@dataclass
class Explainer:
    """Asks of each waiting failure of a target, once for each bug, whether that bug explains it.

    Only a bug whose operators the failure holds is asked about. A sample of what a bug explains is left for
    reduction; `hold_to_sample` says what follows from it, once it is reduced.
    """

    store: Store
    target: str
    judge: Judge
    bugs: dict[int, Bug] = field(default_factory=dict)
    asked: dict[int, set[int]] = field(default_factory=dict)
    operators: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sites = Sites(self.judge)
        self.refused: set[int] = set()

    def run(self) -> Iterator[tuple[Failure, Explanation]]:
        """Go through the waiting failures; yields each that needs no reduction, as it is put aside."""
        self._learn_bugs()
        for failure in list_failures(self.store, status=NEW):
            if failure.target == self.target:
                found = self._explain(failure)
                if found is not None:
                    yield failure, found

    def _learn_bugs(self) -> None:
        for each in reduced_bugs(self.store, self.target):
            known = self.bugs.get(each.failure)
            if known is None or known.shown != each.shown:
                case = known.case if known else self.store.load_case(each.case_id)
                name = cluster_name(each.cluster)
                bug = Bug(each.failure, name, case, each.outcome, each.passes, each.shown, each.core)
                self.bugs[each.failure] = bug

    def _explain(self, failure: Failure) -> Explanation | None:
        if explanation_of(self.store, failure.id):
            return None
        held = self._operators_of(failure.case_id)
        telling = tuple(bug for bug in self.bugs.values() if bug.key not in self.refused)
        found = by_symptom(failure.symptom, failure.release, held, telling) or self._by_checks(failure, held)
        return found if found and found.bug and self._put_aside(failure, found.bug, found) else None

    def _by_checks(self, failure: Failure, held: Counter[str]) -> Explanation | None:
        """Ask the bugs that were not asked yet about a failure that holds their operators."""
        asked = self.asked.setdefault(failure.id, set())
        fitting = [
            bug for bug in self.bugs.values() if bug.key not in asked and bug.may_be_in(held, failure.symptom)
        ]
        asked.update(self.bugs)
        case = self.store.load_case(failure.case_id)
        if not fitting or case.format != self.judge.format:
            return None
        verdict = self.judge.verdict(case)
        return (
            counting(explain(case, verdict, fitting, self.judge, self.sites), 1) if verdict.is_bug else None
        )

    def is_refuted(self, number: int) -> bool:
        """Whether a failure was asked about, and no known bug explained it: it is like none of them."""
        return number in self.asked

    def hold_to_sample(self, number: int) -> int:
        """Reopen explained failures if their reduced sample is another bug; return how many.

        The bug that was wrongly named explains nothing by its symptom alone from now on.
        """
        sample = explanation_of(self.store, number)
        if sample is None or get_failure(self.store, number).status != REDUCED:
            return 0
        bug = get_failure(self.store, int(sample["bug"]))
        if get_failure(self.store, number).cluster == bug.cluster:
            return 0
        given_back = explained_by(self.store, bug.id, EXPLAINED)
        return_to_new(self.store, given_back)
        forget_explanations(self.store, given_back)
        self.refused.add(bug.id)
        return len(given_back)

    def _put_aside(self, failure: Failure, bug: Bug, found: Explanation) -> bool:
        """Keep the explanation; whether the failure needs no reduction: a sample does."""
        is_sample = _is_sample(count_explained(self.store, bug.key) + 1)
        note_explained(self.store, failure.id, bug.key, found.evidence())
        if not is_sample:
            mark_explained(self.store, failure, get_failure(self.store, bug.key), found.why)
        return not is_sample

    def _operators_of(self, case_id: str) -> Counter[str]:
        if case_id not in self.operators:
            self.operators[case_id] = operators_of(self.store.load_case(case_id))
        return self.operators[case_id]


def _is_sample(number: int) -> bool:
    """Whether the failure of that number, of those that one bug explains, is reduced anyway."""
    wanted = FIRST_SAMPLE
    while wanted < number:
        wanted *= BETWEEN_SAMPLES
    return wanted == number
