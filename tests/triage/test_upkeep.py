"""Databases checked, packed, copied, merged, and opened again by a later version."""

import json
import os
import sqlite3
import time

import pytest

from corpus.errors import UserError
from oracles.naming import Signature
from tests.helpers.commands import crux
from tests.helpers.failing import division_crash, healthy, verdict
from triage.bugs.failures import record_failure, record_reduction
from triage.bugs.known import load_known
from triage.bugs.overview import overview
from triage.cli import run
from triage.clustering.grouping import mark, regroup
from triage.store import database, schema
from triage.store.artifacts import keep_artifact, note_check
from triage.store.clusters import get_cluster
from triage.store.database import Store
from triage.store.failures import find_clusters, get_failure, list_failures, origins
from triage.store.merging import take_in
from triage.store.vacuum import collect_garbage, datasette_metadata, examine, export


def named(message: str) -> Signature:
    return Signature.of(("backend", "ort"), ("outcome", "exception"), ("error", "Fail"), ("message", message))


def reduced(store: Store, number: int, message: str, nodes: int = 7):
    """A failure with its reduction, both made up."""
    found = record_failure(store, healthy(number), verdict(message), release="1.2.0")
    document = {
        "nodes_before": nodes,
        "nodes_after": 2,
        "checks": 5,
        "minimal": True,
        "passes": [],
        "ops": [],
    }
    return record_reduction(store, found, healthy(1000 + number), verdict(message), named(message), document)


def counted(store: Store) -> dict[str, tuple[int, int]]:
    return {each["id"]: (each["count"], each["reduced"]) for each in overview(store)}


def test_counts_follow_failures_wherever_they_go(store):
    for number, message in enumerate(["no kernel for a", "no kernel for a", "shapes differ in two dims"]):
        record_failure(store, healthy(number), verdict(message))
    assert counted(store) == {"C0001": (2, 0), "C0002": (1, 0)}
    reduced(store, 0, "no kernel for a")
    assert counted(store) == {"C0001": (2, 1), "C0002": (1, 0)}
    store.write("UPDATE failures SET cluster = 2 WHERE id = 2")
    store.write("DELETE FROM origins WHERE failure = 3")
    store.write("DELETE FROM failures WHERE id = 3")
    assert counted(store) == {"C0001": (1, 1), "C0002": (1, 0)}
    assert examine(store)["sound"]


def test_a_wrong_count_is_told(store):
    record_failure(store, healthy(), verdict())
    store.write("UPDATE tallies SET failures = 5")
    assert "C0001: its failures are counted wrongly" in examine(store)["problems"]


@pytest.mark.parametrize(
    ("words", "found"),
    [("Kernel", {1}), ("relu_clip_fusion.cc", {2}), ("kernel shapes", set()), ("100% _", set())],
)
def test_words_of_titles_symptoms_and_signatures_find_clusters(store, words, found):
    record_failure(store, healthy(0), verdict("no kernel for QuickGelu or not"))
    record_failure(store, healthy(1), verdict("relu_clip_fusion.cc: shapes differ"))
    assert find_clusters(store, words) == found


def test_a_search_follows_what_a_reduction_changes(store):
    reduced(store, 0, "entirely new words")
    assert find_clusters(store, "entirely optimise") == {1}
    with pytest.raises(UserError, match="holds no word"):
        find_clusters(store, " ")


def test_the_tables_hold_files_once(store, tmp_path):
    path = tmp_path / "report.zip"
    path.write_bytes(b"zipped")
    digest = keep_artifact(store, "report", "C0001", path)
    assert keep_artifact(store, "report", "C0001", path) == digest
    assert store.blobs.get(digest) == b"zipped"
    assert examine(store)["artifacts"] == 1
    assert collect_garbage(store, 0)["blobs_removed"] == 0


def put(store: Store, content: bytes) -> str:
    """Keep a content as a blob that no row names."""
    path = store.path.with_name("content")
    path.write_bytes(content)
    return store.blobs.put_file(path)


def test_blobs_that_nothing_names_go_when_they_are_old(store):
    case_id = store.add_case(healthy())
    lost = put(store, b"nobody names me")
    torn = store.blobs.path(lost).with_name(".writing-abc")
    torn.write_bytes(b"half")
    assert collect_garbage(store)["kept_for_now"] == 1
    found = collect_garbage(store, 0)
    assert (found["blobs_removed"], found["leavings_removed"]) == (1, 1)
    assert store.load_case(case_id) == healthy()
    assert list(store.blobs.leavings()) == []
    assert examine(store)["unused_blobs"] == 0


def test_a_blob_that_is_wanted_again_counts_as_new(store):
    digest = put(store, b"old")
    os.utime(store.blobs.path(digest), (1, 1))
    assert put(store, b"old") == digest
    assert not store.blobs.remove_unless_used(digest, time.time() - 60)
    assert store.blobs.get(digest) == b"old"
    os.utime(store.blobs.path(digest), (1, 1))
    assert store.blobs.remove_unless_used(digest, time.time() - 60)
    assert put(store, b"old") == digest
    assert store.blobs.is_intact(digest)


def test_an_export_is_a_whole_database(store, tmp_path):
    failure = reduced(store, 3, "no kernel")
    put(store, b"nobody names me")
    store.change_nothing()  # as a command that only asks has it
    out = tmp_path / "copy"
    assert export(store, out)["blobs"] == examine(store)["blobs"]
    with Store(out / "crux.db") as copy:
        assert copy.load_case(failure.best_case) == store.load_case(failure.best_case)
        found = examine(copy)
        assert found["sound"], found["problems"]
        assert (found["failures"], found["unused_blobs"]) == (1, 0)
    assert "crux" in json.loads((out / "datasette.json").read_text())["databases"]
    with pytest.raises(UserError, match="already"):
        export(store, out)


def test_a_database_that_is_taken_into_a_new_one_keeps_its_ids_and_its_history(store, tmp_path):
    for number, message in enumerate(["no kernel for a", "shapes differ in two dims"]):
        reduced(store, number, message)
    mark(store, 2, "filed", "https://example.org/1")
    note_check(store, healthy().case_id, "ort", "1.0", outcome="pass", phase="compare")
    export(store, tmp_path / "out")
    with Store(tmp_path / "other.db") as other:
        take_in(other, tmp_path / "out", regroup)
        assert overview(other) == overview(store)
        assert list_failures(other) == list_failures(store)
        told = other.rows("SELECT at, kind, subject, document FROM events WHERE kind != 'imported'")
        assert told == store.rows("SELECT at, kind, subject, document FROM events")
        again = take_in(other, tmp_path / "out", regroup)
        assert [again[name] for name in ("cases", "clusters", "failures", "reductions", "renamed")] == [0] * 5
        assert list_failures(other) == list_failures(store)
        assert examine(other)["check_results"] == 1


def test_two_databases_become_one_and_no_id_means_two_things(store, tmp_path):
    mine = [reduced(store, 0, "no kernel for a"), reduced(store, 1, "shapes differ in two dims")]
    with Store(tmp_path / "other.db") as other:
        reduced(other, 2, "an axis is out of range")
        reduced(other, 3, "no kernel for a")
        mark(other, 1, "fixed", "1.3.0")
        record_failure(other, healthy(1), verdict("shapes differ in two dims"))
    before = list_failures(store)
    counts = take_in(store, tmp_path / "other.db", regroup)
    assert list_failures(store)[:2] == [mine[0], get_failure(store, mine[1].id)]
    assert (counts["failures"], counts["clusters"], counts["renamed"]) == (2, 1, 3)
    homes = {each.name: each.cluster_name for each in list_failures(store)}
    assert homes == {"F00001": "C0001", "F00002": "C0002", "F00004": "C0004", "F00005": "C0001"}
    assert get_failure(store, 2).seen == before[1].seen + 1
    assert (get_cluster(store, 4).status, get_cluster(store, 4).note) == ("fixed", "1.3.0")
    told = store.rows("SELECT subject, document FROM events WHERE kind = 'renamed-id' ORDER BY subject")
    renamed = {row["subject"]: json.loads(row["document"])["old"] for row in told}
    assert renamed == {"C0004": "C0001", "F00004": "F00001", "F00005": "F00002"}
    assert origins(store, 5) == ["seed:3"]
    found = examine(store)
    assert found["sound"], found["problems"]


def test_clusters_of_two_databases_that_are_alike_become_one(store, tmp_path):
    words = "the type of input zero of node is tensor of float while tensor of double was expected by"
    reduced(store, 0, f"{words} us")
    with Store(tmp_path / "other.db") as other:
        reduced(other, 1, f"{words} them")
    take_in(store, tmp_path / "other.db", regroup)
    assert [each["count"] for each in overview(store)] == [2]


def test_every_table_and_view_has_words_for_datasette_and_every_canned_query_runs(store):
    (metadata,) = datasette_metadata(store.path)["databases"].values()
    sql = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND NOT name GLOB 'sqlite_*'"
    shown = {row["name"] for row in store.rows(sql)}
    assert shown == metadata["tables"].keys()
    arguments = {"words": "kernel", "name": "C0001", "case_id": "ab"}
    connection = sqlite3.connect(store.path)
    for query in metadata["queries"].values():
        connection.execute(query["sql"], arguments).fetchall()
    for table, facts in metadata["tables"].items():
        columns = {row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})")}
        assert {*facts.get("facets", ()), facts.get("sort_desc")} - {None} <= columns, table


def test_a_database_of_an_older_release_takes_the_steps_that_it_lacks(tmp_path, monkeypatch):
    path = tmp_path / "crux.db"
    with Store(path) as store:
        store.add_case(healthy())
    step = ("ALTER TABLE cases ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",)
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, "add_colours": step})
    monkeypatch.setattr(database, "MIGRATIONS", schema.MIGRATIONS)
    database.schema_after.cache_clear()
    for _ in range(2):
        with Store(path) as store:
            assert [row["colour"] for row in store.rows("SELECT colour FROM cases")] == ["red"]
    monkeypatch.undo()
    database.schema_after.cache_clear()
    with pytest.raises(UserError, match="newer crux"):
        Store(path)


def test_every_verdict_of_a_check_is_noted_where_a_database_is_named(tmp_path):
    division_crash().save(tmp_path / "crash")
    healthy().save(tmp_path / "healthy")
    done = crux(tmp_path, "check", "crash", "healthy", "--db", "crux.db")
    assert done.returncode == 1, done.stderr
    with Store(tmp_path / "crux.db") as store:
        rows = store.rows("SELECT case_id, target, outcome, phase FROM check_results ORDER BY id")
        assert [tuple(row.values()) for row in rows] == [
            (division_crash().case_id, "ort", "crash", "execute"),
            (healthy().case_id, "ort", "pass", "compare"),
        ]


def test_two_people_who_exchange_databases_have_the_same_clusters_and_both_ones_marks(tmp_path):
    names = ["ann", "bob"]
    folders = {name: tmp_path / name for name in names}
    for at, name in enumerate(names):
        folders[name].mkdir()
        with Store(folders[name] / "crux.db") as store:
            for message in ["no kernel for a", ["shapes differ in two dims", "an index is out of range"][at]]:
                reduced(store, at * 2 + len(message), message)

    def crux(name: str, *words: str) -> None:
        assert run([*words, "--db", str(folders[name] / "crux.db"), "--quiet"]) == 0

    crux("ann", "triage", "mark", "C0001", "filed", "https://example.org/1", "--assign", "ann")
    crux("bob", "triage", "mark", "C0001", "--note", "seen in a customer's model")
    crux("bob", "triage", "mark", "C0002", "--issue", "https://example.org/2")
    crux("ann", "db", "export", str(folders["ann"] / "out"))
    crux("bob", "db", "export", str(folders["bob"] / "out"))
    crux("ann", "db", "import", str(folders["bob"] / "out"))
    crux("bob", "db", "import", str(folders["ann"] / "out"))
    seen = []
    for name in names:
        database = folders[name] / "crux.db"
        with Store(database) as store:
            found = {
                tuple(sorted(each["signatures"])): each for each in overview(store, load_known(database))
            }
            assert len(found) == 3
            told = ("title", "status", "note", "assignee", "notes", "issue", "count")
            seen.append({key: [each[one] for one in told] for key, each in found.items()})
    assert seen[0] == seen[1]
    said = [word for each in seen[0].values() for word in each]
    assert {"filed", "ann", "https://example.org/2"} <= {word for word in said if isinstance(word, str)}
    assert ["seen in a customer's model"] in said
