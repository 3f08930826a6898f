"""Testers on a Ray cluster that is started here: the same tests as without, also when one is killed."""

import os
import signal
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from corpus.errors import UserError
from corpus.target import Target
from generators.fuzz import fuzz
from generators.mixture import Plan
from generators.seeds import BLOCK
from tests.helpers.commands import crux_apart
from tests.helpers.failing import ORT
from triage.campaigns.ray_testers import LOCAL, cluster_testers
from triage.campaigns.testers import open_testers
from triage.console.options import CaseOptions
from triage.store.database import Store
from triage.store.failures import list_failures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif("not __import__('importlib').util.find_spec('ray')", reason="Ray is not installed"),
]
PLAN = Plan("coverage", nodes=4)
TESTS = 6 * BLOCK


def stations() -> list[int]:
    """The processes that hold a tester: Ray names them so."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"ray::Station" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_cluster_tests_the_same_and_a_lost_worker_costs_its_running_tests_only():
    with open_testers(CaseOptions(), ORT, PLAN) as testers:
        alone = [(each.seed, each.case_id, each.verdict.outcome) for each in fuzz(testers.all, tests=TESTS)]
    before = set(stations())
    with cluster_testers(LOCAL, CaseOptions(jobs=2), ORT, PLAN) as testers:
        own = set(stations()) - before
        assert len(own) == 2
        killer = threading.Timer(1.0, os.kill, (min(own), signal.SIGKILL))
        killer.start()
        found = [(each.seed, each.case_id, each.verdict.outcome) for each in fuzz(testers.all, tests=TESTS)]
        killer.join()
    assert found == alone


@pytest.mark.parametrize(
    ("strategy", "target"), [("mixed", "ort"), ("relax", "tvm"), ("tir", "tvm"), ("aten", "inductor")]
)
def test_the_same_seeds_give_the_same_failures_alone_with_workers_and_on_a_cluster(strategy, target):
    plan = Plan(strategy, nodes=5, passes_of=target)
    ways = (
        open_testers(CaseOptions(), Target(target), plan),
        open_testers(CaseOptions(jobs=2), Target(target), plan),
        cluster_testers(LOCAL, CaseOptions(jobs=2), Target(target), plan),
    )
    found = []
    for way in ways:
        with way as testers:
            tests = list(fuzz(testers.all, seed=96_000_000, tests=2 * BLOCK))
        found.append(
            [(each.seed, each.case_id, each.verdict.outcome, each.verdict.symptom) for each in tests]
        )
    assert len(found[0]) == 2 * BLOCK
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_a_machine_that_is_lost_for_good_costs_its_running_tests_only():
    """Two nodes of one processor each: nobody can take the place of the tester that goes with its node."""
    tools: Any = import_module("ray.cluster_utils")
    with open_testers(CaseOptions(), ORT, PLAN) as testers:
        alone = [(each.seed, each.case_id, each.verdict.outcome) for each in fuzz(testers.all, tests=TESTS)]
    machines = tools.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        node = machines.add_node(num_cpus=1)
        with cluster_testers(machines.address, CaseOptions(jobs=2), ORT, PLAN) as testers:
            found = []
            for each in fuzz(testers.all, tests=TESTS):
                found.append((each.seed, each.case_id, each.verdict.outcome))
                if len(found) == 2 * BLOCK:
                    machines.remove_node(node, allow_graceful=False)
    finally:
        machines.shutdown()
    assert found == alone


def test_failures_and_clusters_in_the_database_are_those_of_one_machine(tmp_path):
    found = []
    for name, how in (("alone", ()), ("cluster", ("--cluster", "local", "-j", "2"))):
        words = ("fuzz", "--tests", str(TESTS), "--seed", "4080", "--db", f"{name}.db", *how)
        done = crux_apart(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        with Store(tmp_path / f"{name}.db") as store:
            found.append([(each.case_id, each.symptom, each.cluster) for each in list_failures(store)])
    assert found[0] == found[1]
    assert found[0]


def test_an_address_where_nobody_is_is_one_clear_line():
    with (
        pytest.raises(UserError, match="--cluster"),
        cluster_testers("127.0.0.1:1", CaseOptions(), ORT, PLAN),
    ):
        pass
