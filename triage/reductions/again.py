"""What an older edition decided, decided anew: one case of each old signature is reduced and named again."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.load import must_be_known
from corpus.target import Target
from oracles.judge import Judge
from oracles.verdict import Verdict
from reducer.options import DoesNotFail, Options
from triage.bugs.failures import return_to_new
from triage.clustering.similarity import group_of
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.reductions.explained import record_result
from triage.reductions.folders import Request, lent, reduce_into, reducer_options, result_of
from triage.store.clusters import get_cluster, get_signature
from triage.store.database import Store
from triage.store.editions import OldDecision, follow, old_decisions, retire, revive
from triage.store.failures import Failure, get_failure, keep_reduction

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
