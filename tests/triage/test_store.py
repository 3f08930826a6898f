import multiprocessing
import os
import signal
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from oracles.judge import Judge
from oracles.naming import Signature
from tests.helpers.commands import crux
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy, verdict
from tests.helpers.models import external, write
from triage.bugs.failures import record_failure, record_reduction
from triage.clustering.grouping import mark
from triage.store.causes import old_decisions
from triage.store.clusters import clusters, get_cluster
from triage.store.database import Store, open_existing
from triage.store.failures import get_failure, list_failures, origins
from triage.store.names import find_case, live_cluster
from triage.store.vacuum import examine

FORK = multiprocessing.get_context("fork")


def test_a_case_comes_back_as_it_was(store):
    case = division_crash()
    assert store.load_case(store.add_case(case)) == case


def test_weights_beside_the_model_are_kept_and_come_back(store, tmp_path):
    folder = write(tmp_path / "case", external("weights.bin", 2)).parent
    (folder / "weights.bin").write_bytes(np.array([3, 4], np.float32).tobytes())
    case = open_case(folder / "model.onnx")
    case_id = store.add_case(case)
    for path in folder.iterdir():
        path.unlink()
    (file,) = store.load_case(case_id).external
    assert file.path.read_bytes() == np.array([3, 4], np.float32).tobytes()


def test_failures_clusters_and_unique_prefixes_name_a_case(store):
    case = division_crash()
    failure = record_failure(store, case, verdict())
    for name in (
        failure.name,
        failure.cluster_name,
        case.case_id,
        case.case_id[:8],
        case.case_id[:8].upper(),
    ):
        assert find_case(store, name) == case.case_id


@pytest.mark.parametrize("name", ["F00099", "C0099", "abcdef012345", "no such thing"])
def test_an_unknown_name_is_the_users_mistake(store, name):
    with pytest.raises(UserError, match=name):
        find_case(store, name)


def test_the_same_failure_again_is_counted_and_its_origins_are_gathered(store):
    first = record_failure(store, healthy(1), verdict())
    other = Case(**{**vars(healthy(1)), "origin": "seed:99"})
    again = record_failure(store, other, verdict())
    assert (again.id, again.seen) == (first.id, 2)
    assert origins(store, first.id) == ["seed:1", "seed:99"]


def test_the_same_case_on_another_target_is_another_failure(store):
    case = healthy()
    other = Case(**{**vars(case), "target": ORT.with_setting("threads", "2")})
    assert record_failure(store, case, verdict()).id != record_failure(store, other, verdict()).id


def test_a_file_that_is_no_database_is_the_users_mistake(tmp_path):
    path = tmp_path / "crux.db"
    path.write_text("this is not a database, it is far too long a text for that, and it has no header")
    with pytest.raises(UserError, match="not a database"):
        Store(path)
    with pytest.raises(UserError, match="no such database"):
        open_existing(tmp_path / "missing.db")


def _fail_halfway(store: Store) -> None:
    with store.transaction():
        store.log("started", "x")
        raise RuntimeError


def test_nothing_of_a_failed_transaction_stays(store):
    with pytest.raises(RuntimeError):
        _fail_halfway(store)
    assert store.rows("SELECT * FROM events") == []


def _write_failures(path: Path, first: int, count: int) -> None:
    with Store(path) as opened:
        for number in range(first, first + count):
            failure = record_failure(opened, healthy(number), verdict(f"number {number % 3}"))
            with (path.parent / f"done-{first}").open("a") as file:
                file.write(f"{failure.id} {number}\n")
                file.flush()


def test_four_writers_one_of_them_killed_lose_nothing(tmp_path):
    path = tmp_path / "crux.db"
    parts = ((300, 1 << 20), (0, 25), (100, 25), (200, 25))  # the one that is killed never ends by itself
    writers = [FORK.Process(target=_write_failures, args=(path, *part)) for part in parts]
    for writer in writers:
        writer.start()
    victim, log = writers[0], tmp_path / "done-300"
    while victim.is_alive() and (not log.exists() or len(log.read_text().splitlines()) < 5):
        time.sleep(0.005)
    os.kill(victim.pid, signal.SIGKILL)
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers[1:]] == [0, 0, 0]
    with Store(path) as store:
        told = [line.split() for each in tmp_path.glob("done-*") for line in each.read_text().splitlines()]
        assert len(told) >= 80
        for failure, number in told:
            assert get_failure(store, int(failure)).case_id == healthy(int(number)).case_id
        found = examine(store)
        assert found["sound"], found["problems"]
        assert found["clusters"] == 3


def test_processes_that_make_a_database_together_make_one(tmp_path):
    path = tmp_path / "crux.db"
    makers = [FORK.Process(target=lambda: Store(path).close()) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert [maker.exitcode for maker in makers] == [0] * 8


def test_the_usual_questions_of_failures_use_an_index(store):
    for question in ("case_id = 'a' AND target = 'b'", "status = 'new'", "cluster = 1", "signature = 'a'"):
        (row, *_) = store.rows(f"EXPLAIN QUERY PLAN SELECT * FROM failures WHERE {question}")
        assert "USING INDEX" in row["detail"], question


def test_a_reader_is_not_kept_out_by_a_writer(store, tmp_path):
    with store.transaction():
        store.log("writing", "x")
        reader = sqlite3.connect(store.path, timeout=0.1)
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (0,)
        reader.close()


# Deciding anew what an older crux decided: ids, marks and notes live on, one bug is one cluster again

DOCUMENT = {
    "nodes_before": 1,
    "nodes_after": 1,
    "passes": [],
    "checks": 9,
    "bytes_before": 1,
    "minimal": True,
}


def of_an_older_crux(path: Path, judge: Judge) -> None:
    """Four crashes and three refusals, each under a name of its own, as an older crux gave them."""
    crashes = [division_crash(at) for at in range(4)]
    refusals = [replace(clip_exception(), inputs={"x": np.array([-1.0, 0.5, at])}) for at in (2.0, 3.0, 4.0)]
    with Store(path) as store:
        for at, case in enumerate([*crashes, *refusals]):
            _keep(store, case, judge, "abcdefg"[at] * 30)
        assert len(clusters(store)) == 7
        mark(store, 2, "filed", "https://example.org/2")
        store.write("UPDATE reductions SET edition = ''")


def _keep(store: Store, case: Case, judge: Judge, name: str) -> None:
    verdict = judge.verdict(case)
    failure = record_failure(store, case, verdict, sketched=Signature.of(("symptom before reduction", name)))
    named = Signature.of(("backend", "ort"), ("outcome", "exception"), ("site", name), ("message", name))
    record_reduction(store, failure, case, verdict, named, DOCUMENT)


def test_an_old_database_has_a_cluster_for_each_bug_again(crash_judge, tmp_path):
    of_an_older_crux(tmp_path / "crux.db", crash_judge)
    hint = crux(tmp_path, "triage").stderr
    assert "7 failures were decided by an older crux" in hint
    assert "next: crux reduce --all --again" in hint

    done = crux(tmp_path, "reduce", "--all", "--again")
    assert done.returncode == 0
    assert "7 failures of an older crux" in done.stderr
    with Store(tmp_path / "crux.db") as store:
        assert old_decisions(store) == []
        alive = {each.id for each in clusters(store)}
        homes = [live_cluster(store, f"C000{at}") for at in range(1, 8)]
        assert set(homes) == alive
        assert len(set(homes[:4])) == len(set(homes[4:])) == 1
        assert get_cluster(store, homes[1]).status == "filed"
        assert get_cluster(store, homes[1]).note == "https://example.org/2"
        assert {*range(1, 8)} <= {each.id for each in list_failures(store)}
    assert "older crux" not in crux(tmp_path, "triage").stderr
    assert crux(tmp_path, "reduce", "--again", "x", "-o", "y").returncode == 2
