"""Failures that a known bug explains: asked before a reduction, kept with evidence, sampled all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from oracles.judge import Judge
from triage.bugs.failures import mark_explained, return_to_new
from triage.causes.explaining import Bug, Explanation, explain
from triage.store.causes import count_explained, explained_by, explanation_of, note_explained, reduced_bugs
from triage.store.database import Store
from triage.store.failures import EXPLAINED, NEW, REDUCED, Failure, get_failure, list_failures
from triage.store.names import cluster_name

SAMPLED = 8
"""Of the failures that a bug explains the first and then each eighth is reduced all the same."""


@dataclass
class Explainer:
    """Asks of each waiting failure of a target, once for each bug, whether that bug explains it.

    Only a bug whose operators the failure holds is asked about. A sample of what a bug explains is left for
    reduction; `hold_to_sample` says what follows from it.
    """

    store: Store
    target: str
    judge: Judge
    bugs: dict[int, Bug] = field(default_factory=dict)
    asked: dict[int, set[int]] = field(default_factory=dict)
    operators: dict[str, Counter[str]] = field(default_factory=dict)

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
            if each.failure not in self.bugs:
                case = self.store.load_case(each.case_id)
                name = cluster_name(each.cluster)
                self.bugs[each.failure] = Bug(each.failure, name, case, each.outcome, each.passes)

    def _explain(self, failure: Failure) -> Explanation | None:
        asked = self.asked.setdefault(failure.id, set())
        held = self._operators_of(failure.case_id)
        fitting = [bug for bug in self.bugs.values() if bug.key not in asked and bug.operators <= held]
        asked.update(self.bugs)
        if not fitting or explanation_of(self.store, failure.id):
            return None
        case = self.store.load_case(failure.case_id)
        verdict = self.judge.verdict(case) if case.format == self.judge.format else None
        found = explain(case, verdict, fitting, self.judge) if verdict and verdict.is_bug else None
        return found if found and found.bug and self._put_aside(failure, found.bug, found) else None

    def _put_aside(self, failure: Failure, bug: Bug, found: Explanation) -> bool:
        """Keep the explanation; whether the failure needs no reduction: a sample does."""
        is_sample = count_explained(self.store, bug.key) % SAMPLED == 0
        note_explained(self.store, failure.id, bug.key, found.evidence())
        if not is_sample:
            mark_explained(self.store, failure, get_failure(self.store, bug.key), found.why)
        return not is_sample

    def _operators_of(self, case_id: str) -> Counter[str]:
        if case_id not in self.operators:
            self.operators[case_id] = Counter(self.store.load_case(case_id).measure.ops)
        return self.operators[case_id]


def hold_to_sample(store: Store, number: int) -> int:
    """Where a reduced sample is another bug, let what was explained wait again; how many failures that is."""
    sample = explanation_of(store, number)
    if sample is None or get_failure(store, number).status != REDUCED:
        return 0
    bug = get_failure(store, int(sample["bug"]))
    if get_failure(store, number).cluster == bug.cluster:
        return 0
    given_back = explained_by(store, bug.id, EXPLAINED)
    return_to_new(store, given_back)
    return len(given_back)
