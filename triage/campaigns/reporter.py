"""The reports that a hunt writes: one a bug, anew where a better case shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from corpus.errors import UserError
from oracles.judge import Judge
from triage.bugs.history import history_of_name
from triage.bugs.known import KnownIssue, Library
from triage.console.status import Progress
from triage.reports.by_name import note_report
from triage.reports.newest_release import NewestReleases
from triage.reports.report import write_report
from triage.store.artifacts import reported_case
from triage.store.clusters import Cluster, clusters
from triage.store.database import Store
from triage.store.failures import REDUCED, get_failure, list_failures
from triage.store.names import cluster_name, representative


@dataclass
class Reporter:
    """Writes the reports of a store's bugs into a folder."""

    store: Store
    out: Path
    shown: Progress
    issues: tuple[KnownIssue, ...] = ()
    releases: NewestReleases | None = None
    reported: dict[int, int] = field(default_factory=dict)

    def missing(self, target: str) -> list[int]:
        """The clusters with a reduced failure on a target that no report shows as well as it could."""
        reduced = list_failures(self.store, status=REDUCED)
        wanted = {each.cluster for each in reduced if each.target == target}
        known = (each for each in clusters(self.store) if each.id in wanted)
        return [each.id for each in known if not self._is_shown(each)]

    def _is_shown(self, cluster: Cluster) -> bool:
        """Whether a report shows the cluster's best case: this hunt's, or an earlier one's."""
        best = representative(self.store, cluster.id)
        if self.reported.get(cluster.id) == best:
            return True
        case_id = reported_case(self.store, cluster.id, self.out / cluster.name)
        return case_id == get_failure(self.store, best).best_case

    def write(self, cluster: int, judge: Judge) -> None:
        """Write the report of a cluster; why there is none is told."""
        best = representative(self.store, cluster)
        if self.reported.get(cluster) == best:
            return
        self.reported[cluster] = best
        name = cluster_name(cluster)
        self.shown.status(f"reporting {name}")
        history = history_of_name(self.store, name)
        case = self.store.load_case(get_failure(self.store, best).best_case)
        try:
            report = write_report(
                case,
                judge.of_format(case.format),
                self.out / name,
                history,
                Library.of_store(self.store, self.issues),
                releases=self.releases,
            )
        except UserError as error:
            self.shown.note(f"{name}: no report: {error}")
            return
        note_report(self.store, case, report, history, judge.backend.package)
        missing = f", not ready: {'; '.join(report.missing)}" if report.missing else ""
        self.shown.note(f"{name}: {report.title}; {report.folder}/repro.py shows it{missing}")
