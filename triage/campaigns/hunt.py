"""A hunt: fuzz, reduce, cluster and report in turns, until the time is up.

Tests have at least half of the CPU time while something new comes: a first failure is reduced, and a bug
reported, when they have had it, and the rest at the end, for which time is kept. A report that would not end
within a limited CPU time is left for `crux report`. Each find is in the database before anything else happens
to it, and each reduction keeps a journal: whenever a hunt is stopped, what it found is there, and the next
one takes up what was not reduced or reported yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from reducer.result import all_nodes
from triage.bugs.failures import set_aside
from triage.bugs.known import KnownIssue, load_known
from triage.bugs.overview import is_filed, overview, overview_with_states
from triage.campaigns.budget import Budget, Limits, Mean, cpu_of_all, cpu_of_the_ended
from triage.campaigns.monitor import HuntMonitor
from triage.campaigns.target_campaigns import FUZZING, Choice, CpuShares, TargetCampaign
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.reductions.failures import BeingReduced, reduce_failure
from triage.reductions.folders import Request
from triage.reports.by_name import Reporter
from triage.reports.newest_release import NewestReleases
from triage.store.campaigns import keep_decision
from triage.store.causes import root_of
from triage.store.clusters import LIMIT, clusters, get_cluster
from triage.store.database import Store
from triage.store.failures import (
    REDUCED,
    UNREDUCIBLE,
    Failure,
    get_failure,
    list_failures,
    why_set_aside,
)
from triage.store.names import cluster_name, representative
from triage.store.vacuum import collect_garbage, disk_bytes

TEST_SHARE = 0.5
"""Of the CPU time, what tests have before anything else is done."""
LEAST_RESERVED = 20.0
"""The last seconds, a tenth of a short hunt at most, in which nothing new is looked for."""
REDUCTION_SECONDS = 5.0
"""What a reduction takes, until the hunt has measured it."""
STARTS = 5
"""How many times a report starts the framework, which tells what it takes until that is measured."""
ENDLESS_RUNS = 3
"""How often a report waits for what does not end."""
MOST_KEPT = 8
"""How many reports reducing leaves time for, at most."""
SHORTEST_STRETCH, LONGEST_STRETCH = 4.0, 30.0
LONGEST_REDUCTION_SHARE = 0.25
FAIR_SHARES, LEAST_REDUCTION = 3, 30.0
"""Of the time that is left, the equal shares a reduction may take while others wait; its least seconds."""
REDUCING, FIRSTS, REPORTING = "reducing", "first of a symptom", "reporting"


@dataclass
class Hunt:
    """One hunt over a store, on one target or several; `run` goes on until a limit is met.

    `known` is a file of more known issues, `releases` where the newest release of a package is asked.
    """

    store: Store
    options: CaseOptions
    fronts: Sequence[TargetCampaign]
    out: Path
    limits: Limits
    shown: Progress
    known: str = ""
    releases: NewestReleases | None = None
    shares: CpuShares = field(default_factory=CpuShares)

    def __post_init__(self) -> None:
        self._issues: tuple[KnownIssue, ...] = load_known(self.store.path, self.known)
        self.reporter = Reporter(self.store, self.out, self.shown, self._issues, self.releases)
        self.eye = HuntMonitor(
            self.store, self.fronts, self.shares, self.shown, self.limits.seconds, self._issues
        )
        self._clusters = {each.id for each in clusters(self.store)}
        self.budget = Budget(self.limits, self.eye.cpu)
        self._reductions, self._reserved = Mean(REDUCTION_SECONDS), 0.0
        self._reports: dict[str, Mean] = {}

    @property
    def left(self) -> float:
        """Seconds that are left of the tighter bound."""
        return self.budget.left

    @property
    def tests(self) -> int:
        """Tests of all targets."""
        return sum(front.fuzzer.tally.tests for front in self.fronts)

    def run(self) -> None:
        """Fuzz and reduce by turns until a limit, then write the reports that are missing."""
        while self.left > self._reserve() and self._may_go_on():
            self._do_what_waits()
            if self.left > self._reserve():
                self._turn()
        self._reserved = self.left
        for front in self.fronts:
            self._reduce_some(front, FIRSTS, self.left, "", urgent=True)
            self._reduce_some(front, REDUCING, self.left, "nothing new is looked for any more")
        self._report_the_rest()
        self.eye.look("done", always=True)

    def _report_the_rest(self) -> None:
        """Write the reports that are missing and end in time; without a bound of CPU all that is to file."""
        left = []
        for front, cluster, is_known in self._unreported():
            is_late = self._is_late(front, cluster)
            if is_known and (is_late or self.limits.cpu):
                continue
            if is_late and self.limits.cpu:
                left.append(cluster_name(cluster))
            else:
                self._report(front, cluster)
        if left:
            self.shown.note(f"the CPU time is used up: crux report {' '.join(left)} writes what is missing")

    def _is_late(self, front: TargetCampaign, cluster: int) -> bool:
        """Whether a report would not end in time, by what this hunt's took; it takes more of what hangs."""
        best = get_failure(self.store, representative(self.store, cluster))
        endless = ENDLESS_RUNS * front.judge.limits.cpu_seconds if best.is_endless else 0.0
        expected = self._usual_report(front) + endless
        return expected > self._left_of_others or not self.budget.has_room_for(expected)

    def _usual_report(self, front: TargetCampaign) -> float:
        """Seconds that a report on a target takes: the mean of this hunt's, which begins with a guess."""
        known = self._reports.get(front.target)
        return known.value if known else 1.0 + STARTS * front.judge.start_seconds

    def _do_what_waits(self) -> None:
        """Reduce the first of each symptom and report new bugs, as long as tests have had their share."""
        for front in self.fronts:
            self._reduce_some(front, FIRSTS, self.left, "", urgent=True)
        for front, cluster, is_known in self._unreported():
            if self.left <= self._reserved or self._tests_are_due() or is_known:
                return
            is_first = cluster not in self.reporter.reported  # a smaller case waits for the end
            if is_first and not self._is_late(front, cluster):
                self._report(front, cluster)

    @property
    def share_of_tests(self) -> float:
        """What tests have had of the CPU time, by what all processes used meanwhile."""
        return self._tested / (self.budget.cpu() or 1.0)

    @property
    def _tested(self) -> float:
        """CPU seconds of tests."""
        return sum(self.shares.whole.get(f"{FUZZING} {each.target}", 0.0) for each in self.fronts)

    @property
    def _left_of_others(self) -> float:
        """Of a limited CPU time, the seconds that reductions and reports may still take."""
        used = self.budget.cpu() - self._tested
        return (1 - TEST_SHARE) * self.limits.cpu - used if self.limits.cpu else float("inf")

    def _tests_are_due(self) -> bool:
        """Whether tests have had less than their share of the CPU time."""
        return self.left > self._reserved and self.share_of_tests < TEST_SHARE

    def _unreported(self) -> list[tuple[TargetCampaign, int, bool]]:
        """The clusters without a report in the order in which to look at them; the last ones are known."""
        missing = {each: front for front in self.fronts for each in self.reporter.missing(front.target)}
        numbers = {cluster_name(each): each for each in missing}
        ranked = overview(self.store, self._issues, list(missing)) if missing else []
        found = ((numbers[facts["id"]], is_filed(facts)) for facts in ranked)
        return [(missing[cluster], cluster, is_known) for cluster, is_known in found]

    def bugs(self) -> list[dict[str, Any]]:
        """Every bug of the database with its state, as `crux triage` lists them."""
        return overview_with_states(self.store, self._issues)

    def _may_go_on(self) -> bool:
        """Whether more may be looked for: tests, CPU time and room are left."""
        if self.limits.tests and self.tests >= self.limits.tests:
            return False
        if self.limits.cpu and self.budget.cpu() >= self.limits.cpu:
            self.shown.note("the CPU time is used up: what waits is reduced, no more is looked for")
            return False
        return self._has_room()

    def _has_room(self) -> bool:
        """Whether the database may grow. Where it may not, what no row names goes; evidence never does."""
        if not self.limits.bytes or disk_bytes(self.store) < self.limits.bytes:
            return True
        if collect_garbage(self.store)["bytes_after"] < self.limits.bytes:
            return True
        self.shown.note(
            "the database is as large as --disk allows: what waits is reduced, no more is looked for"
        )
        return False

    def _reserve(self) -> float:
        """Keep seconds at the end for what waits by now; with what went to it, half of the hunt at most."""
        reports = [front for front, _, is_known in self._unreported() if not is_known]
        firsts = [front for front in self.fronts for _ in range(front.firsts())]
        estimate = sum(self._usual_report(front) for front in (*reports, *firsts))
        estimate += len(firsts) * self._reductions.value
        least = min(LEAST_RESERVED, 0.1 * self.limits.span)
        others = sum(each.total for each in self._reports.values()) + self._reductions.total
        most = min((1 - TEST_SHARE) * self.limits.span - others, self._left_of_others)
        self._reserved = max(least, min(estimate, most))
        return self._reserved

    def _turn(self) -> None:
        """One piece of time for fuzzing a target, or for reducing what waits of it, by their yields."""
        choices = {f"{FUZZING} {front.target}": (front, True) for front in self.fronts}
        for front in () if self._tests_are_due() else self.fronts:
            waiting = front.waiting(urgent=False)
            if waiting is not None and not waiting.is_endless:
                choices[f"{REDUCING} {front.target}"] = (front, False)
        chosen = self.shares.choose(tuple(choices))
        front, is_fuzzing = choices[chosen.name]
        stretch = min(max(self.limits.span / 10, SHORTEST_STRETCH), LONGEST_STRETCH)
        if is_fuzzing:
            self._fuzz(front, stretch, chosen)
        else:
            self._reduce_some(front, REDUCING, stretch, chosen.why)

    def _fuzz(self, front: TargetCampaign, seconds: float, chosen: Choice) -> None:
        room = min(seconds, max(self.left - self._reserved, 1.0))
        ends = self.left - room
        room /= self.options.jobs if self.limits.cpu else 1  # each may use a processor of its own
        tests = max(self.limits.tests - self.tests, 1) if self.limits.tests else None
        cpu, gained, before = 0.0, 0, cpu_of_all()
        for count, step in enumerate(front.fuzzer.stretch(tests=tests, seconds=room), 1):
            cpu += step.cpu
            if step.failure and step.failure.seen == 1:
                looks = self._looks(step.failure)
                gained += looks == "new"
                self.shown.note(f"found {step.failure.name}, {looks}: {step.failure.title}")
                self.eye.found(step.failure.name, looks, step.failure.title)
            self.eye.tested()
            self.eye.look(f"fuzzing {front.label}")
            if self.limits.cpu and self.left < max(ends, cpu / count):
                break
        # what making and judging does around the runs that verdicts name is theirs as well
        cpu = max(cpu, cpu_of_all() - before)
        self._count(front, f"{FUZZING} {front.target}", chosen.why, cpu, gained)

    def _reduce_some(
        self, front: TargetCampaign, what: str, seconds: float, why: str, *, urgent: bool = False
    ) -> None:
        """Reduce the most telling failures first; if `urgent`, only the first of each symptom."""
        reports = self._usual_report(front) * max(2, min(len(self._unreported()), MOST_KEPT))
        least = max(reports, self.left - seconds)
        name = what if urgent else f"{what} {front.target}"
        before = front.cpu()
        self._explain(front, least)
        while (
            min(self.left - least, self._left_of_others - reports) > 0
            and not self._tests_are_due()
            and (failure := front.waiting(urgent=urgent))
        ):
            gained = self._reduce(front, failure)
            front.explainer.hold_to_sample(failure.id)
            self._explain(front, least)
            before, cpu = front.cpu(), front.cpu() - before
            self._count(front, name, why or "each symptom's first is reduced at once", cpu, gained)

    def _count(self, front: TargetCampaign, name: str, why: str, cpu: float, gained: int) -> None:
        """Note what a piece of time cost and gained."""
        self.shares.add(name, cpu, gained)
        keep_decision(self.store, front.fuzzer.run, name, why, cpu, gained)

    def _looks(self, failure: Failure) -> str:
        """What a failure is before anything is known of it but its symptom."""
        is_first = failure.cluster not in self._clusters
        if self._is_new(failure.cluster):
            return "new"
        if failure.status == LIMIT:
            return "a declared limit"
        return "a known issue" if is_first else f"looks like {failure.cluster_name}"

    def _is_new(self, cluster: int) -> bool:
        """Whether a cluster is a bug that was not there before and that nobody knows."""
        if cluster in self._clusters:
            return False
        self._clusters.add(cluster)
        return not self._is_known(cluster) and get_cluster(self.store, cluster).status != LIMIT

    def _is_known(self, cluster: int) -> bool:
        """Whether a cluster is a known issue with a thread: it is worth no time that finds more."""
        return any(is_filed(facts) for facts in overview(self.store, self._issues, [cluster]))

    def _explain(self, front: TargetCampaign, least: float) -> None:
        """Put aside what a known bug explains, while there is time."""
        for failure, found in front.explainer.run():
            if found.bug is not None:
                self.shown.note(f"{failure.name} explained by {found.bug.name}: {found.why}")
                self.eye.found(failure.name, f"explained by {found.bug.name}", failure.title)
            self.eye.look(f"explaining {failure.name}")
            if self.left <= least:
                return

    def _reduce(self, front: TargetCampaign, failure: Failure) -> int:
        """Reduce a failure; how many new bugs that made."""
        fair = FAIR_SHARES * self.left / (1 + front.firsts())
        longest = max(self.limits.span * LONGEST_REDUCTION_SHARE, 10.0)
        report = self._usual_report(front)
        most = min(self.left - report, self._left_of_others)
        minutes = min(most, longest, max(fair, LEAST_REDUCTION)) / 60
        self.shown.note(f"reducing {failure.name}")
        shown = _Named(self.shown, self.eye, failure.name)
        start = self.budget.clock()
        try:
            after, document = reduce_failure(
                self.store,
                failure,
                self.options,
                Request(minutes=minutes),
                shown,
                front.judge,
                self.reporter.hold,
                self.budget.clock,
            )
        except BeingReduced as error:
            self.shown.note(str(error))
            return 0
        except UserError as error:  # such as one that needs trust; the others are still to be reduced
            set_aside(self.store, failure, UNREDUCIBLE, {"why": str(error)})
            self.shown.note(f"{failure.name} is left: {error}")
            return 0
        if document is None:
            self.shown.note(f"{failure.name} is left: {why_set_aside(self.store, failure.id)}")
            return 0
        self._reductions.add(self.budget.clock() - start)
        what = self._what_it_is(after)
        self.shown.note(
            f"reduced {failure.name} from {all_nodes(document, 'before')} nodes"
            f" to {all_nodes(document, 'after')} in {document['checks']} checks: {what}"
        )
        self.eye.found(failure.name, what.partition(": ")[0], after.title)
        return int(self._is_new(after.cluster))

    def _what_it_is(self, reduced: Failure) -> str:
        """What a person wants to know of a find first: new, a known issue, another face, or met before."""
        root = root_of(self.store, reduced.id)
        if root is not None:
            return f"another face of {reduced.cluster_name}: {root['why']}"
        alike = len(list_failures(self.store, cluster=reduced.cluster, status=REDUCED))
        if alike > 1:
            return f"{reduced.cluster_name} again, reduced {alike} times"
        return f"{reduced.cluster_name}, {'a known issue' if self._is_known(reduced.cluster) else 'new'}"

    def _report(self, front: TargetCampaign, cluster: int) -> None:
        """Write a bug's report, and note what that took."""
        start, before = self.budget.clock(), _worked(front)
        self.eye.look(f"reporting {cluster_name(cluster)}", always=True)
        self.reporter.write(cluster, front.judge)
        cpu = _worked(front) - before
        mean = self._reports.setdefault(front.target, Mean(self._usual_report(front)))
        mean.add(cpu if self.limits.cpu else self.budget.clock() - start)
        self._count(front, f"{REPORTING} {front.target}", cluster_name(cluster), cpu, 0)


def _worked(front: TargetCampaign) -> float:
    """CPU seconds of what a target's reports take: this process, its workers, the scripts that have ended."""
    return front.cpu() + cpu_of_the_ended()


class _Named(Progress):
    """A progress display that says whose progress it is."""

    def __init__(self, inner: Progress, eye: HuntMonitor, name: str) -> None:
        super().__init__()
        self._inner, self._eye, self._name = inner, eye, name

    def status(self, text: str) -> None:
        self._eye.look(f"reducing {self._name}: {text}")

    def note(self, text: str) -> None:
        self._inner.note(text)
