"""What a hunt looks like at a moment: for the screen, and every twenty seconds for the database."""

import resource
import time
from collections import Counter
from collections.abc import Sequence

from triage.bugs.known import KnownIssue
from triage.bugs.overview import overview_with_states
from triage.campaigns.target_campaigns import FUZZING, CpuShares, TargetCampaign
from triage.console.status import HuntStatus, LatestFinding, Progress, StrategyStats
from triage.store.campaigns import Sample, keep_sample
from triage.store.database import Store
from triage.store.failures import count_waiting

LOOK_SECONDS = 0.4
SAMPLE_SECONDS = 20.0
COUNT_SECONDS = 5.0
"""Between two counts of the database's bugs at least."""
COUNT_SHARE = 0.005
"""Of the time, the most that counting takes: a large database is counted less often."""


class HuntMonitor:
    """Looks at a hunt now and then; a look costs little, and none comes sooner than is worth it."""

    def __init__(
        self,
        store: Store,
        fronts: Sequence[TargetCampaign],
        shares: CpuShares,
        shown: Progress,
        seconds: float,
        issues: tuple[KnownIssue, ...],
    ) -> None:
        self._store, self._fronts, self._shares, self._shown = store, fronts, shares, shown
        self._seconds, self._issues = seconds, issues
        self._start = time.monotonic()
        self._looked = self._sampled = self._next_count = 0.0
        self._last: tuple[str, str, str, float] | None = None
        self._bugs: Counter[str] = Counter()
        self._waiting = 0
        self._fuzzed = 0.0
        self._tested_before = self._tested()
        self._tested_at = 0.0
        self.now: HuntStatus | None = None

    def found(self, name: str, what: str, title: str) -> None:
        """Note a failure that was found, explained or reduced, and what it turned out to be."""
        self._last = (name, what, title, time.monotonic())
        self._next_count = min(self._next_count, time.monotonic() + COUNT_SECONDS)

    def tested(self) -> None:
        """A test has ended: the rate counts the time between tests, not that between stretches."""
        now = time.monotonic()
        self._fuzzed += min(now - self._tested_at, 5.0) if self._tested_at else 0.0
        self._tested_at = now

    def look(self, doing: str, *, always: bool = False) -> None:
        """Show what goes on, if the last look was long enough ago."""
        moment = time.monotonic()
        if not always and moment - self._looked < LOOK_SECONDS:
            return
        self._looked = moment
        self.now = self._situation(doing, moment)
        self._shown.show(self.now)
        if always or moment - self._sampled >= SAMPLE_SECONDS:
            self._sampled = moment
            self._keep(self.now)

    def cpu(self) -> float:
        """CPU seconds of the hunt by now, wherever its testers are."""
        others = sum(cpu for name, cpu in self._shares.whole.items() if not name.startswith(FUZZING))
        return self._tested() - self._tested_before + others

    def _tested(self) -> float:
        """CPU seconds of the tests of the campaigns, those of earlier runs included."""
        return sum(cost.cpu for front in self._fronts for cost in front.fuzzer.spent.values())

    def _situation(self, doing: str, moment: float) -> HuntStatus:
        if moment >= self._next_count:
            before = time.process_time()
            known = overview_with_states(self._store, self._issues)
            self._bugs = Counter(str(each["state"]) for each in known)
            self._waiting = count_waiting(self._store)
            self._next_count = moment + max(COUNT_SECONDS, (time.process_time() - before) / COUNT_SHARE)
        tallies = [front.fuzzer.tally for front in self._fronts]
        tests = sum(each.tests for each in tallies)
        elapsed = moment - self._start
        last = self._last
        return HuntStatus(
            target=", ".join(front.label for front in self._fronts),
            doing=doing,
            elapsed=elapsed,
            left=max(self._seconds - elapsed, 0.0),
            tests=tests,
            valid=sum(each.valid for each in tallies),
            rate=self.rate,
            coverage=sum(front.fuzzer.coverage for front in self._fronts),
            blocks=sum(front.fuzzer.native.blocks for front in self._fronts if front.fuzzer.native),
            failing=sum(each.failures for each in tallies),
            waiting=self._waiting,
            bugs=dict(self._bugs),
            cpu=self.cpu(),
            memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            arms=tuple(arm for front in self._fronts for arm in self._arms(front)),
            last=LatestFinding(last[0], last[2], moment - last[3], last[1]) if last else None,
        )

    @property
    def rate(self) -> float:
        """Tests a second of all fuzzing of this run."""
        tests = sum(front.fuzzer.tally.tests for front in self._fronts)
        return tests / self._fuzzed if self._fuzzed else 0.0

    def _arms(self, front: TargetCampaign) -> list[StrategyStats]:
        costs = front.fuzzer.spent
        whole = sum(each.tests for each in costs.values()) or 1
        earned = front.fuzzer.earned()
        head = f"{front.label} " if len(self._fronts) > 1 else ""
        return [
            StrategyStats(
                f"{head}{name}",
                each.tests,
                each.tests / whole,
                each.cpu,
                each.failures,
                earned.get(name, 0.0),
            )
            for name, each in costs.items()
            if name
        ]

    def _keep(self, now: HuntStatus) -> None:
        """A point for each run; the bugs of the database stand in each of them."""
        for front in self._fronts:
            tally, native = front.fuzzer.tally, front.fuzzer.native
            sample = Sample(
                tally.tests,
                tally.valid,
                tally.failures,
                front.fuzzer.coverage,
                native.blocks if native else 0,
                now.new,
                now.known,
                now.waiting,
                round(now.cpu, 1),
                now.memory,
            )
            keep_sample(self._store, front.fuzzer.run, sample)
