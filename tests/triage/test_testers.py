"""Testers in processes of their own, against onnxruntime."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from corpus.errors import UserError
from corpus.target import Target
from generators.feedback import BLOCK, Shard
from generators.fuzz import Tested as OneTest
from generators.fuzz import fuzz, judge_cases
from generators.mixture import Plan, make_tests
from generators.modes import Mode
from oracles.verdict import Outcome, Phase, Symptom, Verdict
from tests.helpers.campaigns import Remembering
from tests.helpers.commands import ROOT, crux, crux_apart, waited_for
from tests.helpers.failing import ORT
from tests.house.reference import commands, names_of, options
from triage.campaigns.coverage_sync import FEWEST_FOLDED, CoverageSync, must_go_on
from triage.campaigns.ray_testers import cluster_testers
from triage.campaigns.testers import RemoteError, open_testers
from triage.console.options import CaseOptions
from triage.store.campaigns import last_campaign, load_costs, load_folded
from triage.store.database import Store
from triage.store.failures import list_failures

Told = tuple[int, str, Outcome, Symptom | None]


def told(each: OneTest) -> Told:
    return each.seed, each.case_id, each.verdict.outcome, each.verdict.symptom


def outcomes(jobs: int, plan: Plan) -> list[Told]:
    with open_testers(CaseOptions(jobs=jobs), ORT, plan) as testers:
        assert testers.release
        return list(map(told, fuzz(testers.all, seed=1007, tests=100)))


def test_one_and_two_processes_test_the_same_cases_with_the_same_outcomes():
    plan = Plan(nodes=5)
    alone = outcomes(1, plan)
    assert [seed for seed, *_ in alone] == list(range(1007, 1107))
    assert outcomes(2, plan) == alone


def bred(jobs: int) -> list[Told]:
    with open_testers(
        CaseOptions(jobs=jobs), Target("tvm"), Plan("tir", nodes=6, passes_of="tvm")
    ) as testers:
        found = list(fuzz(testers.all, seed=0, tests=5 * BLOCK, teacher=Remembering()))
    assert any(each.trial and each.trial.bred.parent for each in found)
    return list(map(told, found))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_and_two_processes_breed_the_same_programs_of_loops():
    assert bred(2) == bred(1)


@pytest.mark.parametrize(
    ("source", "error"), [(Path("none"), UserError), (cast(Path, object()), RemoteError)], ids=["user", "own"]
)
def test_what_fails_in_a_process_is_told_here(source, error):
    plan = Plan("coverage", Mode.STRICT, source=source)
    with open_testers(CaseOptions(jobs=2), ORT, plan) as testers, pytest.raises(error):
        list(fuzz(testers.all, tests=20))


# A campaign's lessons in a real database: they outlive a run, a kill, and are the same for all that


GUIDED = Plan("coverage", Mode.STRICT, nodes=5)
TESTS = 9 * BLOCK


def worker(seeds, seconds, lesson):
    verdict = Verdict(Outcome.PASS, Phase.EXECUTE, "fine")
    return judge_cases(make_tests(GUIDED, seeds, lesson), lambda case, thorough: verdict, seconds)


def ran(path: Path, tests: int, seed: int | None, shard: Shard | None = None) -> list[tuple[int, str]]:
    """The seeds and cases of one run that goes on in a database."""
    with Store(path) as store:
        teaching = CoverageSync(store, "ort", seed, shard)
        found = fuzz([worker], seed=teaching.seed, tests=tests, teacher=teaching, shard=shard)
        told = [(each.seed, each.case_id) for each in found]
        teaching.keep()
        return told


@pytest.mark.parametrize("count", [2, 5])
def test_all_shards_together_test_what_a_single_one_does(tmp_path, count):
    parts = []
    for index in range(1, count + 1):
        shard = Shard(index, count)
        own = shard.share_of(0, TESTS)
        for tests in (5, own - 5):  # each goes on where its last run ended
            parts += ran(tmp_path / f"{index}.db", tests, None, shard)
    assert sorted(parts) == ran(tmp_path / "whole.db", TESTS, 0, Shard(1, 1))


@pytest.mark.parametrize("words", ["3/2", "0/2", "a/b"])
def test_a_shard_is_one_of_so_many(tmp_path, words):
    result = crux(tmp_path, "fuzz", "--tests", "64", "--shard", words)
    assert result.returncode == 2
    assert f"--shard {words}: not I/N" in result.stderr


def test_a_seed_that_is_given_begins_anew(tmp_path):
    first = ran(tmp_path / "crux.db", 6 * BLOCK, seed=0)
    assert ran(tmp_path / "crux.db", 6 * BLOCK, seed=0) == first
    assert ran(tmp_path / "crux.db", 1, None)[0][0] == 6 * BLOCK


def test_the_case_of_a_seed_under_way_is_made_again(store):
    teaching = CoverageSync(store, "ort", 0)
    for each in fuzz([worker], seed=0, tests=TESTS, teacher=teaching):
        (made,) = make_tests(GUIDED, range(each.seed, each.seed + 1), teaching.lesson_of_seed(each.seed))
        assert made.case.case_id == each.case_id


def test_lessons_are_folded_so_that_the_table_stays_small(tmp_path, store):
    ran(tmp_path / "crux.db", 30 * BLOCK, None)
    campaign = last_campaign(store, "ort")
    blocks, folded = load_folded(store, campaign.id)
    assert blocks >= FEWEST_FOLDED
    assert folded["covered"]
    assert store.count("lessons") <= FEWEST_FOLDED
    assert load_costs(store, campaign.id)["coverage|strict"].tests == 30 * BLOCK


def test_a_campaign_that_is_killed_goes_on_with_what_it_learned(tmp_path):
    path = tmp_path / "crux.db"
    command = "import sys; from pathlib import Path; from tests.triage.test_testers import ran;"
    command += "ran(Path(sys.argv[1]), 100_000, None)"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", command, str(path)], cwd=root, env={**os.environ, "PYTHONPATH": "."}
    )

    def has_learned() -> bool:
        if not path.exists():
            return False
        with Store(path) as store:
            campaign = last_campaign(store, "ort")
        return campaign is not None and campaign.next_seed > 4 * BLOCK

    assert waited_for(has_learned)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with Store(path) as store:
        campaign = last_campaign(store, "ort")
    after = ran(path, 4 * BLOCK, None)
    whole = ran(tmp_path / "whole.db", campaign.next_seed + 4 * BLOCK, None)
    assert after == whole[campaign.next_seed :]


def test_what_cannot_be_resumed_is_one_clear_line(tmp_path):
    path = tmp_path / "crux.db"
    with pytest.raises(UserError, match="no such database"):
        must_go_on(path, "ort", None)
    ran(path, 1, None)
    must_go_on(path, "ort", None)
    with pytest.raises(UserError, match="no campaign of target tvm"):
        must_go_on(path, "tvm", None)
    with pytest.raises(UserError, match="leave --seed out"):
        must_go_on(path, "ort", 3)


# `--native-coverage` on a real onnxruntime: what was met is in the database, and grows from run to run


def printed(folder: Path, *words: str) -> Any:
    """The JSON that a command prints."""
    result = crux_apart(folder, *words, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.slow
def test_what_tests_met_of_the_code_is_told_by_pass_and_grows(tmp_path, store):
    first = printed(tmp_path, "fuzz", "--tests", "6", "--native-coverage")
    second = printed(tmp_path, "fuzz", "--tests", "40", "-j", "2", "--native-coverage")
    assert second["native_blocks"] > first["native_blocks"] > 10_000
    (document,) = printed(tmp_path, "triage", "coverage")
    assert document["target"] == "ort"
    assert document["blocks_met"] == second["native_blocks"]
    assert any(each["name"] == "constant_folding" and each["blocks_met"] for each in document["passes"])
    assert store.rows("SELECT * FROM native_passes WHERE pass = 'constant_folding'")[0]["percent"] > 0


def test_a_target_whose_code_cannot_be_watched_is_one_clear_line(tmp_path):
    result = crux_apart(tmp_path, "fuzz", "--tests", "2", "--native-coverage", "--target", "reference")
    assert result.returncode == 2
    assert "cannot be watched" in result.stderr


# Testers on a Ray cluster that is started here: the same tests as without, also when one is killed

ON_RAY = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif("not __import__('importlib').util.find_spec('ray')", reason="Ray is not installed"),
]
PLAN = Plan("coverage", nodes=4)
CLUSTER_TESTS = 6 * BLOCK


def on_ray(test: Any) -> Any:
    """Mark a test that takes a cluster: not those above."""
    for mark in ON_RAY:
        test = mark(test)
    return test


@on_ray
def test_a_machine_that_is_lost_for_good_costs_its_running_tests_only():
    """Two nodes of one processor each: nobody can take the place of the tester that goes with its node."""
    tools: Any = import_module("ray.cluster_utils")
    with open_testers(CaseOptions(), ORT, PLAN) as testers:
        alone = list(map(told, fuzz(testers.all, tests=CLUSTER_TESTS)))
    machines = tools.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        node = machines.add_node(num_cpus=1)
        with cluster_testers(machines.address, CaseOptions(jobs=2), ORT, PLAN) as testers:
            found = []
            for each in fuzz(testers.all, tests=CLUSTER_TESTS):
                found.append(told(each))
                if len(found) == 2 * BLOCK:
                    machines.remove_node(node, allow_graceful=False)
    finally:
        machines.shutdown()
    assert found == alone


@on_ray
def test_failures_and_clusters_in_the_database_are_those_of_one_machine(tmp_path):
    found = []
    for name, how in (("alone", ()), ("cluster", ("--cluster", "local", "-j", "2"))):
        words = ("fuzz", "--tests", str(CLUSTER_TESTS), "--seed", "4080", "--db", f"{name}.db", *how)
        done = crux_apart(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        with Store(tmp_path / f"{name}.db") as store:
            found.append([(each.case_id, each.symptom, each.cluster) for each in list_failures(store)])
    assert found[0] == found[1]
    assert found[0]


@on_ray
def test_an_address_where_nobody_is_is_one_clear_line():
    with (
        pytest.raises(UserError, match="--cluster"),
        cluster_testers("127.0.0.1:1", CaseOptions(), ORT, PLAN),
    ):
        pass


# The files for clusters in the documents: what they say is well-formed, and they start what there is

SLURM, KUBERAY = ROOT / "docs/cluster/crux.sbatch", ROOT / "docs/cluster/raycluster.yaml"


def crux_words(text: str) -> list[str]:
    """The words of the hunt that a file starts."""
    joined = re.sub(r"\\\n[ #]*", " ", text)
    (line,) = re.findall(r"^[ #]*(?:.*--\s+)?crux (hunt .*?)(?:>.*)?$", joined, re.M)
    return shlex.split(line.replace("$", ""))


def test_both_start_a_hunt_with_options_that_there_are():
    for path in (SLURM, KUBERAY):
        words = crux_words(path.read_text(encoding="utf-8"))
        assert words[0] == "hunt"
        assert "--cluster" in words
        known = {name for each in options(commands()["hunt"]) for name in names_of(each)}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known
