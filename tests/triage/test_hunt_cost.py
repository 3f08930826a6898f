"""What a hunt does with a limited CPU time, which a ledger tells in place of the processes: nothing waits."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from generators.fuzz import Tested as OneTest
from oracles.judge import Judge
from oracles.naming import Signature
from oracles.verdict import Outcome, Phase, Verdict
from tests.helpers.failing import ORT, healthy, verdict
from triage.bugs.failures import record_failure, record_reduction
from triage.campaigns import hunt, target_campaigns
from triage.campaigns.hunt import Hunt
from triage.campaigns.target_campaigns import Limits
from triage.console.options import CaseOptions
from triage.reductions.explained import Explainer
from triage.reports import report
from triage.reports.report import Report
from triage.store.database import Store
from triage.store.failures import Failure, reduction_of
from triage.store.names import cluster_name

PASSES = Verdict(Outcome.PASS, Phase.COMPARE, "passes")
FACTS = {"nodes_before": 9, "nodes_after": 1, "checks": 5, "minimal": True, "failure_rate": 1.0}


@dataclass
class Ledger:
    """The CPU seconds of a hunt, those of its tests apart, and what its screen was told."""

    test: float
    report: tuple[float, ...]
    reduction: float
    seconds: float = 0.0
    tested: float = 0.0
    written: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    minutes: list[float] = field(default_factory=list)

    def tester(self, seeds: range, *_: object) -> Iterator[OneTest]:
        for seed in seeds:
            self.seconds += self.test
            self.tested += self.test
            yield OneTest(seed, healthy(seed).case_id, PASSES, cpu=self.test)

    def write_report(self, case: Any, judge: Judge, folder: Path, *_: object, **__: object) -> Report:
        self.seconds += self.report[len(self.written) % len(self.report)]
        self.written.append(folder.name)
        folder.parent.mkdir(exist_ok=True)
        archive = folder.with_suffix(".zip")
        archive.write_bytes(b"a zip")
        return Report(folder, archive, folder.name, True, (), "0")

    def reduce_failure(self, store: Store, failure: Failure, _: object, request: Any, *rest: Any) -> Any:
        clock = rest[-1]
        ends = clock() + 60 * request.minutes
        self.seconds = min(self.seconds + self.reduction, ends)
        assert clock() == self.seconds  # the limit is told by what the hunt's processes use
        self.minutes.append(request.minutes)
        after = reduced(store, failure)
        return after, reduction_of(store, after.cluster)

    def show(self, *_: object) -> None: ...

    status = show

    def note(self, text: str) -> None:
        self.notes.append(text)


def reduced(store: Store, failure: Failure) -> Failure:
    case, number = healthy(1000 + failure.id), str(failure.id)
    return record_reduction(store, failure, case, verdict(number), Signature.of(("op", number)), FACTS)


@pytest.fixture
def hunted(tmp_path, monkeypatch):
    """Runs a hunt whose CPU time the ledger tells, over bugs without a report and failures to reduce."""

    def run(ledger: Ledger, cost: float, bugs: int, waiting: int, start: float) -> None:
        @contextlib.contextmanager
        def testers(*_: object, **__: object) -> Iterator[target_campaigns.Testers]:
            yield target_campaigns.Testers([ledger.tester], "1.0")

        for module in (target_campaigns, hunt):
            monkeypatch.setattr(module, "cpu_of_all", lambda: ledger.seconds)
        monkeypatch.setattr(target_campaigns, "LOOK_SECONDS", 0.0)
        monkeypatch.setattr(hunt, "_worked", lambda front: ledger.seconds)
        monkeypatch.setattr(target_campaigns.TargetCampaign, "cpu", lambda front: ledger.seconds)
        monkeypatch.setattr(hunt, "reduce_failure", ledger.reduce_failure)
        monkeypatch.setattr(report, "write_report", ledger.write_report)
        monkeypatch.setattr(target_campaigns, "open_testers", testers)
        monkeypatch.setattr(Explainer, "run", lambda explainer: iter(()))
        monkeypatch.setattr(Judge, "start_seconds", start)
        with Store(tmp_path / "crux.db") as store:
            found = [
                record_failure(store, healthy(each), verdict(str(each))) for each in range(bugs + waiting)
            ]
            for each in found[:bugs]:
                reduced(store, each)
            options = CaseOptions(seed=0)
            with target_campaigns.Fuzzer(store, options, ORT, "hunt") as fuzzer, Judge(ORT) as judge:
                front = target_campaigns.TargetCampaign(store, fuzzer, judge)
                limits = Limits(1e9, cpu=cost)
                Hunt(store, options, [front], tmp_path / "reports", limits, ledger).run()

    return run


TVM = SimpleNamespace(test=0.4, report=(3.0, 3.5, 6.0), reduction=6.0, start=0.7)
ORT_LIKE = SimpleNamespace(test=0.05, report=(1.5,), reduction=2.0, start=0.15)
INDUCTOR = SimpleNamespace(test=4.0, report=(14.0, 12.0, 19.0), reduction=40.0, start=2.6)


@pytest.mark.parametrize(
    ("kind", "cost", "bugs", "waiting"),
    [
        (TVM, 120.0, 30, 0),
        (TVM, 300.0, 8, 8),
        (ORT_LIKE, 60.0, 12, 12),
        (INDUCTOR, 150.0, 1, 0),
        (INDUCTOR, 600.0, 6, 12),
    ],
    ids=["tvm, reports alone", "tvm", "ort", "inductor, one report", "inductor"],
)
def test_a_limited_cpu_time_is_kept_within_5_percent_and_tests_have_half(hunted, kind, cost, bugs, waiting):
    ledger = Ledger(kind.test, kind.report, kind.reduction)
    hunted(ledger, cost, bugs, waiting, kind.start)
    assert ledger.seconds == pytest.approx(cost, rel=0.05)
    assert ledger.tested >= 0.48 * cost
    assert all(60 * minutes < cost for minutes in ledger.minutes)
    assert len(ledger.written) == len(set(ledger.written))
    told = [note for note in ledger.notes if note.startswith("the CPU time is used up: crux report")]
    left = {cluster_name(each) for each in range(1, bugs + 1)} - set(ledger.written)
    assert bool(left) <= bool(told)
    assert all(name in told[0].split() for name in left)


def test_a_report_that_would_not_end_in_time_is_left_for_another_command(hunted):
    ledger = Ledger(INDUCTOR.test, INDUCTOR.report, INDUCTOR.reduction)
    hunted(ledger, 15.0, 1, 0, INDUCTOR.start)
    assert not ledger.written
    assert "the CPU time is used up: crux report C0001 writes what is missing" in ledger.notes
