"""Deciding anew what an older crux decided: ids, marks and notes live on, one bug is one cluster again."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from corpus.case import Case
from oracles.judge import Judge
from oracles.naming import Signature
from tests.helpers.commands import crux
from tests.helpers.failing import clip_exception, division_crash
from triage.bugs.failures import record_failure, record_reduction
from triage.clustering.grouping import mark
from triage.store.clusters import clusters, get_cluster
from triage.store.database import Store
from triage.store.editions import old_decisions
from triage.store.failures import list_failures
from triage.store.names import live_cluster

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
    assert "7 signatures are an older crux's" in hint
    assert "next: crux reduce --all --again" in hint

    done = crux(tmp_path, "reduce", "--all", "--again")
    assert done.returncode == 0
    assert "7 clusters before, 2 now" in done.stderr
    assert "moved: C" in done.stderr
    with Store(tmp_path / "crux.db") as store:
        assert old_decisions(store) == []
        alive = {each.id for each in clusters(store)}
        homes = [live_cluster(store, f"C000{at}") for at in range(1, 8)]
        assert set(homes) == alive
        assert len(set(homes[:4])) == len(set(homes[4:])) == 1
        assert get_cluster(store, homes[1]).status == "filed"
        assert get_cluster(store, homes[1]).note == "https://example.org/2"
        assert len(list_failures(store)) == 7
    assert "older crux" not in crux(tmp_path, "triage").stderr
    assert crux(tmp_path, "reduce", "--again", "x", "-o", "y").returncode == 2
