import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from generators.feedback import CoverageSnapshot, together
from generators.fuzz import Tested as OneTest
from oracles.judge import Judge
from oracles.naming import Signature
from oracles.verdict import Outcome, Phase, Verdict
from tests.helpers.commands import command, crux_apart, environment, waited_for
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy, verdict
from triage.bugs import known as known_issues
from triage.bugs.failures import record_failure, record_reduction, set_aside
from triage.bugs.known import KnownIssue, known_at_once, load_known
from triage.bugs.overview import overview_with_states
from triage.campaigns import budget, hunt, target_campaigns
from triage.campaigns.budget import Limits
from triage.campaigns.coverage_sync import FEWEST_FOLDED
from triage.campaigns.hunt import Hunt
from triage.console.options import CaseOptions
from triage.console.status import PlainLines
from triage.reductions.explained import Explainer, Selection, waiting
from triage.reports import by_name
from triage.reports.by_name import Reporter
from triage.reports.report import Report
from triage.store.campaigns import last_campaign, load_folded, load_lessons
from triage.store.database import Store
from triage.store.failures import EXPLAINED, NEW, REDUCED, Failure, list_failures, reduction_of
from triage.store.names import cluster_name
from triage.store.vacuum import examine


def plant(folder: Path, crash_judge: Judge, extras=range(1, 6)) -> None:
    """A database with failures that wait for reduction: one bug often, another once."""
    with Store(folder / "crux.db") as store:
        for extra in extras:
            case = division_crash(extra_nodes=extra)
            record_failure(store, case, crash_judge.verdict(case))
        record_failure(store, clip_exception(), crash_judge.verdict(clip_exception()))


def test_the_smallest_of_a_symptom_that_was_not_met_yet_is_chosen_first(crash_judge, tmp_path, store):
    plant(tmp_path, crash_judge)
    assert Selection(store, "ort").next().case_id == division_crash(extra_nodes=1).case_id


def test_what_does_not_end_is_chosen_last(crash_judge, tmp_path, store):
    plant(tmp_path, crash_judge, extras=(1,))
    first = Selection(store, "ort").next()
    with store.transaction():
        store.write("UPDATE failures SET outcome = 'timeout' WHERE id = ?", (first.id,))
    second = Selection(store, "ort").next()
    assert second.id != first.id
    set_aside(store, second, REDUCED, {})
    assert Selection(store, "ort").next().id == first.id


def test_failures_of_another_target_are_not_chosen(crash_judge, tmp_path, store):
    plant(tmp_path, crash_judge)
    assert Selection(store, "ort@threads=2").next() is None


def test_every_failure_is_reduced_those_that_tell_most_first(crash_judge, tmp_path):
    plant(tmp_path, crash_judge, extras=(3, 1, 2, 4))
    met = []
    with Store(tmp_path / "crux.db") as store:
        for failure in waiting(store):
            met.append(failure)
            set_aside(store, failure, REDUCED, {})
        sizes = [store.load_case(each.case_id).measure.nodes for each in met]
    assert len({each.id for each in met}) == 5
    assert len({each.outcome for each in met[:2]}) == 2
    assert sizes[:2] == sorted(sizes)[:2]


@pytest.mark.slow
def test_a_hunt_takes_up_what_an_earlier_one_left_and_reports_it(crash_judge, tmp_path):
    plant(tmp_path, crash_judge)
    done = crux_apart(tmp_path, "hunt", "--minutes", "0.6", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {"tests", "valid", "failures", "clusters", "seconds", "tests_per_second", "bugs"} == set(document)
    crash = next(bug for bug in document["bugs"] if "SIGFPE" in bug["title"])
    assert (crash["nodes_after"], crash["ready"]) == (1, True)
    script = subprocess.run(
        [sys.executable, f"{crash['folder']}/repro.py"], cwd=tmp_path, capture_output=True
    )
    assert script.returncode == 1
    with Store(tmp_path / "crux.db") as store:
        planted = [each for each in list_failures(store) if each.id <= 5]
    assert {each.cluster_name for each in planted} == {crash["id"]}
    assert sum(each.status == NEW for each in planted) <= 1  # a sample, where time was short
    assert sum(each.status == EXPLAINED for each in planted) >= 2
    with Store(tmp_path / "crux.db") as store:
        reporter = Reporter(store, tmp_path / Path(crash["folder"]).parent, PlainLines())
        assert int(crash["id"][1:]) not in reporter.missing("ort")  # a further hunt need not write it again
        assert str(tmp_path / crash["folder"]) in {bug["report"] for bug in overview_with_states(store)}


@pytest.mark.slow
def test_an_interrupted_hunt_exits_with_130_and_prints_its_summary(crash_judge, tmp_path):
    plant(tmp_path, crash_judge, extras=[1])
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command("hunt", "--minutes", "5", "--json"),
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        assert waited_for(lambda: b"repro.py shows it" in log.read_bytes())
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate()
    assert process.returncode == 130
    assert len(json.loads(text)["bugs"]) >= 1


def test_a_hunt_that_has_no_room_looks_for_nothing_new(tmp_path):
    done = crux_apart(tmp_path, "hunt", "--minutes", "0.5", "--disk", "0.00001", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tests"] == 0
    assert "as large as --disk allows" in done.stderr


# A long campaign in short: killed again and again, suspended, on a disk that is full; nothing is lost
# `CRUX_KILLS` says how many kills there are (50).

KILLS = int(os.environ.get("CRUX_KILLS", "50"))
ROOM = "48m"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "crux-test", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a disk of its own cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def state(folder: Path) -> tuple[int, int]:
    """The seed where the campaign goes on, and how many tests its lessons tell of."""
    with Store(folder / "crux.db") as store:
        campaign = last_campaign(store, "ort")
        if campaign is None:
            return 0, 0
        _, folded = load_folded(store, campaign.id)
        parts = [CoverageSnapshot.of(each) for each in load_lessons(store, campaign.id).values()]
        return campaign.next_seed, sum(together([CoverageSnapshot.of(folded), *parts]).tried.values())


def cases(folder: Path) -> set[tuple[str, str]]:
    """The failures that do not hang on chance: those that give another result on every run may pass."""
    with Store(folder / "crux.db") as store:
        steady = [each for each in list_failures(store) if "nondeterministic" not in each.symptom]
        return {(each.case_id, each.outcome) for each in steady}


def begun(folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """A hunt in a group of its own, once it has said that it runs."""
    with log.open("wb") as stderr:
        return subprocess.Popen(
            command("hunt", "--minutes", "30", "--json", "--timeout", "5"),
            cwd=folder,
            env={**environment(folder), "TMPDIR": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )


def went_on(folder: Path, before: int) -> bool:
    """Whether the campaign has come further."""
    with contextlib.suppress(Exception):  # the database may not be there yet
        return state(folder)[0] > before
    return False


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_kills_a_suspended_machine_and_a_full_disk_lose_nothing(disk, tmp_path):
    draws = random.Random(0)
    log, seed, found = tmp_path / "log", 0, set[tuple[str, str]]()
    for at in range(KILLS):
        hunt = begun(disk, log)
        assert waited_for(lambda seed=seed: went_on(disk, seed))
        time.sleep(draws.uniform(0.0, 1.5))
        if at % 10 == 3:  # the machine sleeps for longer than any wall limit of a test that is short
            os.killpg(hunt.pid, signal.SIGSTOP)
            time.sleep(6)
            os.killpg(hunt.pid, signal.SIGCONT)
            time.sleep(0.5)
        os.kill(hunt.pid, signal.SIGKILL) if at % 2 else os.killpg(hunt.pid, signal.SIGKILL)
        hunt.wait()
        next_seed, told = state(disk)
        assert next_seed == told  # each seed taught once, and none was left out
        assert next_seed >= seed
        assert found <= cases(disk)
        seed, found = next_seed, cases(disk)
    with Store(disk / "crux.db") as store:
        assert examine(store)["sound"]

    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(max(free.f_bavail * free.f_frsize - (64 << 10), 0)))
    full = crux_apart(disk, "fuzz", "--tests", "2000")
    assert (full.returncode, full.stderr.count("Traceback")) == (2, 0), full.stderr
    (disk / "ballast").unlink()
    with Store(disk / "crux.db") as store:
        assert examine(store)["sound"]
    next_seed, told = state(disk)
    assert (next_seed == told, next_seed >= seed, found <= cases(disk)) == (True, True, True)

    whole = tmp_path / "whole"
    whole.mkdir()
    alone = crux_apart(whole, "fuzz", "--tests", str(next_seed), "--timeout", "5")
    assert alone.returncode == 0, alone.stderr
    assert cases(whole) <= cases(disk)  # a hunt meets more on its way, by reducing
    assert {case for case in cases(disk) if case[1] == "timeout"} <= cases(whole)

    leavings = [
        path.name for path in disk.iterdir() if not path.name.startswith(("crux.db", "crux-reports", "state"))
    ]
    processes = [one for one in Path("/proc").glob("[0-9]*") if is_of(one, str(disk))]
    with Store(disk / "crux.db") as store:
        rows = {name: store.count(name) for name in ("lessons", "samples", "decisions", "runs")}
    print(f"\n{KILLS} kills, {next_seed} seeds, {len(cases(disk))} failures, left: {leavings}, rows: {rows}")
    assert processes == []
    assert rows["lessons"] <= max(FEWEST_FOLDED, next_seed // 16) + 64
    assert len(leavings) <= 10


def is_of(process: Path, folder: str) -> bool:
    """Whether a process works for the hunt of a folder."""
    with contextlib.suppress(OSError):
        return folder.encode() in (process / "environ").read_bytes() and process.name != str(os.getpid())
    return False


def test_what_a_known_issue_tells_by_its_words_is_named_as_it_is_met_and_reduced_once(crash_judge, store):
    told = {"outcome": "exception", "message": "Unexpected data type.*"}
    patterns = {name: re.compile(text) for name, text in told.items()}
    issue = KnownIssue("clip", "a clip", "onnxruntime", told, patterns=patterns)
    shape = replace(issue, patterns={**patterns, "ops": re.compile(".*")})
    case = clip_exception()
    verdict = crash_judge.verdict(case)
    assert known_at_once([shape], case, verdict, "") is None
    assert known_at_once([issue], division_crash(), crash_judge.verdict(division_crash()), "") is None
    named = known_at_once([issue], case, verdict, "")
    first, second = (
        record_failure(store, replace(case, inputs={"x": case.inputs["x"] * times}), verdict, sketched=named)
        for times in (1, 2)
    )
    assert first.cluster == second.cluster
    set_aside(store, Selection(store, "ort").next(), REDUCED, {})
    assert Selection(store, "ort").next() is None


def test_what_a_file_of_known_issues_tells_is_named_as_it_is_met(judge, tmp_path, monkeypatch):
    own, shipped, case = tmp_path / "own.toml", tmp_path / "shipped.toml", clip_exception()
    shipped.touch()
    verdict = judge.verdict(case)
    match = 'match = { outcome = "exception", message = "Unexpected data type.*" }'
    own.write_text(f'[clip]\ntitle = "a clip"\npackage = "onnxruntime"\nissue = "https://a.b/1"\n{match}\n')

    def tester(seeds: range, *_: object) -> list[OneTest]:
        return [OneTest(seed, case.case_id, verdict, case=case) for seed in seeds]

    @contextlib.contextmanager
    def testers(*_: object, **__: object) -> Iterator[target_campaigns.Testers]:
        yield target_campaigns.Testers([tester], "")

    def met(known: str) -> str:
        given = CaseOptions(seed=0), ORT, "hunt"
        with (
            Store(tmp_path / f"known{bool(known)}.db") as store,
            target_campaigns.Fuzzer(store, *given, known=known) as fuzzer,
        ):
            (step,) = fuzzer.stretch(tests=1)
        return step.failure.signature

    monkeypatch.setattr(target_campaigns, "open_testers", testers)
    monkeypatch.setattr(known_issues, "SHIPPED", shipped)
    named = known_at_once(load_known(tmp_path / "none.db", str(own)), case, verdict, "")
    assert met("") != named.digest
    assert met(str(own)) == named.digest


# What a hunt does with a limited CPU time, which a ledger tells in place of the processes: nothing waits

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

        for module in (budget, hunt):
            monkeypatch.setattr(module, "cpu_of_all", lambda: ledger.seconds)
        monkeypatch.setattr(budget, "LOOK_SECONDS", 0.0)
        monkeypatch.setattr(hunt, "_worked", lambda front: ledger.seconds)
        monkeypatch.setattr(target_campaigns.TargetCampaign, "cpu", lambda front: ledger.seconds)
        monkeypatch.setattr(hunt, "reduce_failure", ledger.reduce_failure)
        monkeypatch.setattr(by_name, "write_report", ledger.write_report)
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
