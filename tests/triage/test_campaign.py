import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oracles.judge import Judge
from tests.helpers.commands import command, crux_apart, environment, waited_for
from tests.helpers.failing import clip_exception, division_crash
from triage.bugs.failures import record_failure, set_aside
from triage.bugs.overview import overview_with_states
from triage.console.status import PlainLines
from triage.reductions.explained import Selection, waiting
from triage.reports.by_name import Reporter
from triage.store.database import Store
from triage.store.failures import EXPLAINED, NEW, REDUCED, list_failures


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
