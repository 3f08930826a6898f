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
from dataclasses import replace
from pathlib import Path

import pytest

from generators.feedback import CoverageSnapshot, together
from oracles.judge import Judge
from tests.helpers.commands import command, crux_apart, environment, waited_for
from tests.helpers.failing import clip_exception, division_crash
from triage.bugs.failures import record_failure, set_aside
from triage.bugs.known import KnownIssue, known_at_once
from triage.bugs.overview import overview_with_states
from triage.campaigns.budget import cpu_of_the_ended
from triage.campaigns.coverage_sync import FEWEST_FOLDED
from triage.console.status import Progress
from triage.reductions.explained import Selection, waiting
from triage.reports.by_name import Reporter
from triage.store.campaigns import last_campaign, load_folded, load_lessons
from triage.store.database import Store
from triage.store.failures import EXPLAINED, NEW, REDUCED, list_failures
from triage.store.vacuum import examine


def plant(folder: Path, crash_judge: Judge, extras=range(1, 6)) -> None:
    """A database with failures that wait for reduction: one bug often, another once."""
    with Store(folder / "crux.db") as store:
        for extra in extras:
            case = division_crash(extra_nodes=extra)
            record_failure(store, case, crash_judge.verdict(case))
        record_failure(store, clip_exception(), crash_judge.verdict(clip_exception()))


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
        reporter = Reporter(store, tmp_path / Path(crash["folder"]).parent, Progress())
        assert int(crash["id"][1:]) not in reporter.missing("ort")  # a further hunt need not write it again
        assert str(tmp_path / crash["folder"]) in {bug["report"] for bug in overview_with_states(store)}


def test_a_hunt_that_has_no_room_looks_for_nothing_new(tmp_path):
    done = crux_apart(tmp_path, "hunt", "--minutes", "0.5", "--disk", "0.00001", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tests"] == 0
    assert "as large as --disk allows" in done.stderr


@pytest.mark.slow
def test_a_hunt_keeps_a_limit_of_its_cpu_time_and_tests_have_half_of_it(crash_judge, tmp_path):
    plant(tmp_path, crash_judge)
    before = cpu_of_the_ended()
    done = crux_apart(tmp_path, "hunt", "--minutes", "30", "--cost", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert cpu_of_the_ended() - before < 66
    with Store(tmp_path / "crux.db") as store:
        whole = {
            row["choice"]: row["cpu"]
            for row in store.rows("SELECT choice, sum(cpu) AS cpu FROM decisions GROUP BY choice")
        }
    assert whole["fuzzing ort"] >= 0.4 * sum(whole.values())


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
