from __future__ import annotations

import json

import pytest

from oracles.naming.signature import Signature
from tests.triage.failing import healthy, verdict
from triage.bugs.failures import record_failure, record_reduction, set_aside
from triage.store.clusters import clusters, signatures_of
from triage.store.database import Store
from triage.store.failures import UNREDUCIBLE, get_failure, list_failures

ONE, TWO = Signature.of(("op", "one")), Signature.of(("op", "two"))
FACTS = {"nodes_before": 9, "nodes_after": 1, "checks": 5, "minimal": True}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "crux.db") as opened:
        yield opened


def found(store, number, message="boom"):
    return record_failure(store, healthy(number), verdict(message))


def reduced(store, failure, number, signature, title="reduced"):
    return record_reduction(store, failure, healthy(number), verdict(title), signature, FACTS)


def test_failures_of_one_symptom_are_one_cluster_titled_by_the_first(store):
    first, second, other = found(store, 1), found(store, 2), found(store, 3, "crash")
    assert first.cluster == second.cluster != other.cluster
    assert [cluster.title for cluster in clusters(store)] == ["Fail: boom", "Fail: crash"]


def test_the_first_reduced_failure_names_the_cluster_that_its_symptom_opened(store):
    failure = found(store, 1)
    after = reduced(store, failure, 101, ONE, "smaller")
    assert after.cluster == failure.cluster
    assert (after.status, after.signature) == ("reduced", ONE.digest)
    assert clusters(store)[0].title == "[Add] Fail: smaller at level all, not none"


def test_another_signature_of_the_same_symptom_is_another_cluster(store):
    first, second = found(store, 1), found(store, 2)
    one, two = reduced(store, first, 101, ONE), reduced(store, second, 102, TWO)
    assert one.cluster != two.cluster
    assert [cluster.name for cluster in clusters(store)] == ["C0001", "C0002"]


def test_two_symptoms_with_one_signature_are_one_cluster_in_the_end(store):
    first, second = found(store, 1, "one text"), found(store, 2, "another text")
    one, two = reduced(store, first, 101, ONE), reduced(store, second, 102, ONE)
    assert one.cluster == two.cluster
    assert [cluster.name for cluster in clusters(store)] == ["C0001"]
    assert [cluster.status for cluster in clusters(store, merged=True)] == ["new", "merged"]


def test_the_id_of_an_emptied_cluster_is_never_used_again(store):
    reduced(store, found(store, 1, "one text"), 101, ONE)
    reduced(store, found(store, 2, "another text"), 102, ONE)
    assert found(store, 3, "a third text").cluster_name == "C0003"


def test_every_step_is_an_event(store):
    reduced(store, found(store, 1, "one text"), 101, ONE)
    reduced(store, found(store, 2, "another text"), 102, ONE)
    kinds = [row["kind"] for row in store.rows("SELECT kind FROM events ORDER BY id")]
    assert kinds == [
        "opened",
        "attached",
        "found",
        "attached",
        "opened",
        "attached",
        "found",
        "moved",
        "merged",
    ]
    moved = store.row("SELECT document FROM events WHERE kind = 'moved'")
    assert json.loads(moved["document"])["source"] == "C0002"


def test_an_alias_says_how_and_why(store):
    reduced(store, found(store, 1), 101, ONE)
    assert [(each.how, each.score) for each in signatures_of(store, 1)] == [
        ("symptom", 1.0),
        ("signature", 1.0),
    ]


def test_a_failure_that_is_set_aside_stays_in_its_cluster_and_says_why(store):
    failure = found(store, 1)
    set_aside(store, failure, UNREDUCIBLE, {"why": "it does not show"})
    assert get_failure(store, failure.id).status == UNREDUCIBLE
    assert list_failures(store, cluster=failure.cluster, status="new") == []
