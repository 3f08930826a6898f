"""A hunt: fuzz, reduce, cluster and report in turns, until the time is up.

Each find is in the database before anything else happens to it, each reduction keeps a journal, and each
cluster is reported as soon as it has its first reduced failure: whenever a hunt is stopped, what it found is
there, and the next one takes up the failures that were not reduced yet.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from oracles.judge import Judge
from triage.bugs.failures import set_aside
from triage.bugs.history import history_of_name
from triage.bugs.library import Library
from triage.campaigns.fuzzing import Fuzzer
from triage.campaigns.yields import Worth, Yield, worth_of
from triage.console.options import CaseOptions
from triage.console.progress import Progress, tally_text
from triage.reductions.explained import Explainer
from triage.reductions.failures import BeingReduced, reduce_failure
from triage.reductions.request import Request
from triage.reductions.selection import Selection
from triage.reports.by_name import note_report
from triage.reports.report import Report, write_report
from triage.store.causes import root_of
from triage.store.clusters import clusters
from triage.store.database import Store
from triage.store.failures import (
    REDUCED,
    UNREDUCIBLE,
    Failure,
    get_failure,
    list_failures,
    reduction_of,
)
from triage.store.names import representative
from triage.store.upkeep.care import collect_garbage, disk_bytes

RESERVED_SHARE, MOST_RESERVED = 0.25, 60.0
"""The last part of the time in which nothing new is looked for, and its most seconds where nothing waits."""
REPORT_SECONDS = 8.0
"""What a report takes, roughly; reducing stops when so much is not left."""
REDUCING_PER_FUZZING = 1.5
"""How much longer what waits is reduced than was looked for it, before more is looked for."""
SHORTEST_STRETCH, LONGEST_STRETCH = 4.0, 30.0
LONGEST_REDUCTION_SHARE = 0.25


@dataclass(frozen=True)
class Bug:
    """What the summary says of one cluster."""

    cluster: str
    title: str
    nodes_before: int
    nodes_after: int
    minimal: bool
    failures: int
    folder: str
    ready: bool

    def document(self) -> dict[str, Any]:
        """The bug as `crux hunt --json` shows it."""
        return {
            "id": self.cluster,
            **{name: value for name, value in vars(self).items() if name != "cluster"},
        }


@dataclass
class Hunt:
    """One hunt over a store; `run` goes on until the deadline. `most_bytes` bounds the store, unless 0."""

    store: Store
    options: CaseOptions
    fuzzer: Fuzzer
    judge: Judge
    out: Path
    seconds: float
    shown: Progress
    most_bytes: int = 0
    reports: dict[int, Report] = field(default_factory=dict)
    reported: dict[int, int] = field(default_factory=dict)
    fuzzed: float = 0.0
    gained: Yield = field(default_factory=Yield)

    def __post_init__(self) -> None:
        self.start = time.monotonic()
        self.selection = Selection(self.store, str(self.fuzzer.target))
        self.explainer = Explainer(self.store, str(self.fuzzer.target), self.judge)

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.seconds - (time.monotonic() - self.start)

    def run(self) -> None:
        """Fuzz and reduce by turns until the deadline, then write the reports that are missing."""
        self._reduce_waiting(self.seconds / 2)
        while self.left > self._reserved() and self._has_room():
            before = self.left
            self._fuzz()
            self._reduce_waiting(REDUCING_PER_FUZZING * (before - self.left))
        self._reduce_waiting(self.left)
        self._report_all()

    def _has_room(self) -> bool:
        """Whether the database may grow. Where it may not, what no row names goes; evidence never does."""
        if not self.most_bytes or disk_bytes(self.store) < self.most_bytes:
            return True
        if collect_garbage(self.store)["bytes_after"] < self.most_bytes:
            return True
        self.shown.note(
            "the database is as large as --disk allows: what waits is reduced, no more is looked for"
        )
        return False

    def bugs(self) -> list[Bug]:
        """The clusters that have a reduced failure, each with its report."""
        found = []
        for cluster in clusters(self.store):
            failures = list_failures(self.store, cluster=cluster.id)
            reduced = [each for each in failures if each.status == REDUCED and each.target == self._target]
            if not reduced:
                continue
            document = reduction_of(self.store, cluster.id)
            report = self.reports.get(cluster.id)
            found.append(
                Bug(
                    cluster.name,
                    report.title if report else cluster.title,
                    document["nodes_before"],
                    document["nodes_after"],
                    document["minimal"],
                    len(failures),
                    str(report.folder) if report else "",
                    bool(report and report.ready),
                )
            )
        return found

    def _reserved(self) -> float:
        share = self.seconds * RESERVED_SHARE
        return share if share > self.left and self.selection.next() else min(share, MOST_RESERVED)

    @property
    def _target(self) -> str:
        return str(self.fuzzer.target)

    def _fuzz(self) -> None:
        room = max(self.left - min(self.seconds * RESERVED_SHARE, MOST_RESERVED), 1.0)
        stretch = min(max(self.seconds / 10, SHORTEST_STRETCH), LONGEST_STRETCH, room)
        before = time.monotonic()
        for step in self.fuzzer.stretch(seconds=stretch):
            spent = self.fuzzed + time.monotonic() - before
            self.shown.status(f"fuzzing: {tally_text(step.tally.tests, step.tally.failures, spent)}")
            if step.failure and step.failure.seen == 1:
                self.shown.note(f"found {step.failure.name}: {step.failure.title}")
        self.fuzzed += time.monotonic() - before

    def _reduce_waiting(self, seconds: float) -> None:
        """What tells most first, for so long at most."""
        least = max(2 * REPORT_SECONDS, self.left - seconds)
        self._explain(least)
        while self.left > least and (failure := self.selection.next()):
            self._reduce(failure)
            self.explainer.hold_to_sample(failure.id)
            self._explain(least)

    def _explain(self, least: float) -> None:
        """Put aside what a known bug explains, while there is time."""
        for failure, found in self.explainer.run():
            if found.bug is not None:
                self.shown.note(f"{failure.name} explained by {found.bug.name}: {found.why}")
            if self.left <= least:
                return

    def _reduce(self, failure: Failure) -> None:
        minutes = min(self.left - REPORT_SECONDS, max(self.seconds * LONGEST_REDUCTION_SHARE, 10.0)) / 60
        self.shown.note(f"reducing {failure.name}")
        shown = _Named(self.shown, failure.name)
        try:
            after, document = reduce_failure(
                self.store, failure, self.options, Request(minutes=minutes), shown, self.judge
            )
        except BeingReduced as error:
            self.shown.note(str(error))
            return
        except UserError as error:  # such as one that needs trust; the others are still to be reduced
            set_aside(self.store, failure, UNREDUCIBLE, {"why": str(error)})
            self.shown.note(f"{failure.name} is left: {error}")
            return
        if document is None:
            self.shown.note(f"{failure.name} does not show any more")
            return
        self.shown.note(
            f"reduced {failure.name} from {document['nodes_before']} to {document['nodes_after']} nodes"
            f" in {document['checks']} checks: {self._what_it_is(after)}"
        )
        if after.cluster not in self.reported:
            self._report(after.cluster)

    def _what_it_is(self, reduced: Failure) -> str:
        """`new`, another face of a bug, or one more of a bug: what a person wants to know of a find first."""
        worth, root = worth_of(self.store, reduced), root_of(self.store, reduced.id)
        self.gained = self.gained.add(worth)
        if root is not None:
            return f"another face of {reduced.cluster_name}: {root['why']}"
        alike = len(list_failures(self.store, cluster=reduced.cluster, status=REDUCED))
        return f"{reduced.cluster_name}, {'new' if worth is Worth.NEW else f'known, reduced {alike} times'}"

    def _report_all(self) -> None:
        """Reports for clusters that have none in this folder yet, or that a better failure shows by now."""
        for cluster in clusters(self.store):
            failures = list_failures(self.store, cluster=cluster.id, status=REDUCED)
            if any(each.target == self._target for each in failures):
                self._report(cluster.id)

    def _report(self, cluster: int) -> None:
        """Write the cluster's report, again only when a better failure has come to show it."""
        best = representative(self.store, cluster)
        is_late = cluster in self.reported and self.left < REPORT_SECONDS
        if is_late or self.reported.get(cluster) == best:
            return
        self.reported[cluster] = best
        name = f"C{cluster:04d}"
        self.shown.status(f"reporting {name}")
        history = history_of_name(self.store, name)
        case = self.store.load_case(get_failure(self.store, best).best_case)
        try:
            judge = self.judge.of_format(case.format)
            report = write_report(case, judge, self.out / name, history, Library.of_store(self.store))
        except UserError as error:
            self.shown.note(f"{name}: no report: {error}")
            return
        note_report(self.store, case, report, history)
        self.reports[cluster] = report
        missing = f", not ready: {'; '.join(report.missing)}" if report.missing else ""
        self.shown.note(f"{name}: {report.title}; {report.folder}/repro.py shows it{missing}")


@dataclass(frozen=True)
class _Named:
    """A progress display that says whose progress it is."""

    inner: Progress
    name: str

    def status(self, text: str) -> None:
        self.inner.status(f"reducing {self.name}: {text}")

    def note(self, text: str) -> None:
        self.inner.note(text)
