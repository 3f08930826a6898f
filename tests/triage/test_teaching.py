"""A campaign's lessons in a real database: they outlive a run, a kill, and are the same for all that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corpus.errors import UserError
from corpus.target import Target
from generators.fuzz import fuzz, judge_cases
from generators.mixture import BLOCK, Plan, make_tests
from generators.mutations.modes import Mode
from oracles.run import Phase
from oracles.verdict import Outcome, Verdict
from triage.campaigns.coverage_sync import FEWEST_FOLDED, CoverageSync, must_go_on
from triage.campaigns.fuzzing import Fuzzer
from triage.console.options import CaseOptions
from triage.store.database import Store
from triage.store.jobs.campaigns import last_campaign, load_costs, load_folded

GUIDED = Plan("coverage", Mode.STRICT, nodes=5)
TESTS = 9 * BLOCK


def worker(seeds, seconds, lesson):
    verdict = Verdict(Outcome.PASS, Phase.EXECUTE, "fine")
    return judge_cases(make_tests(GUIDED, seeds, lesson), lambda case, thorough: verdict, seconds)


def ran(path: Path, tests: int, seed: int | None) -> list[tuple[int, str]]:
    """The seeds and cases of one run that goes on in a database."""
    with Store(path) as store:
        teaching = CoverageSync(store, "ort", seed)
        found = fuzz([worker], seed=teaching.seed, tests=tests, teacher=teaching)
        told = [(each.seed, each.case_id) for each in found]
        teaching.keep()
        return told


def test_a_campaign_in_parts_is_the_same_as_in_one(tmp_path: Path) -> None:
    whole = ran(tmp_path / "whole.db", TESTS, None)
    parts = []
    for tests in (5, BLOCK, 40, TESTS):
        parts += ran(tmp_path / "parts.db", min(tests, TESTS - len(parts)), None)
    assert parts == whole


def test_a_seed_that_is_given_begins_anew(tmp_path: Path) -> None:
    first = ran(tmp_path / "crux.db", 6 * BLOCK, seed=0)
    assert ran(tmp_path / "crux.db", 6 * BLOCK, seed=0) == first
    assert ran(tmp_path / "crux.db", 1, None)[0][0] == 6 * BLOCK


def test_the_case_of_a_seed_under_way_is_made_again(tmp_path: Path) -> None:
    with Store(tmp_path / "crux.db") as store:
        teaching = CoverageSync(store, "ort", 0)
        for each in fuzz([worker], seed=0, tests=TESTS, teacher=teaching):
            (made,) = make_tests(GUIDED, range(each.seed, each.seed + 1), teaching.lesson_of_seed(each.seed))
            assert made.case.case_id == each.case_id


def test_lessons_are_folded_so_that_the_table_stays_small(tmp_path: Path) -> None:
    ran(tmp_path / "crux.db", 30 * BLOCK, None)
    with Store(tmp_path / "crux.db") as store:
        campaign = last_campaign(store, "ort")
        assert campaign is not None
        blocks, folded = load_folded(store, campaign.id)
        assert blocks >= FEWEST_FOLDED
        assert folded["covered"]
        assert store.count("lessons") <= FEWEST_FOLDED
        (last,) = store.rows("SELECT arm, tests FROM arms ORDER BY blocks DESC LIMIT 1")
        assert last == {"arm": "coverage|strict", "tests": BLOCK * blocks}


def test_a_campaign_that_is_killed_goes_on_with_what_it_learned(tmp_path: Path) -> None:
    path = tmp_path / "crux.db"
    command = "import sys; from pathlib import Path; from tests.triage.test_teaching import ran;"
    command += "ran(Path(sys.argv[1]), 100_000, None)"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", command, str(path)], cwd=root, env={**os.environ, "PYTHONPATH": "."}
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.2)
        if path.exists():
            with Store(path) as store:
                campaign = last_campaign(store, "ort")
            if campaign and campaign.next_seed > 4 * BLOCK:
                break
    process.send_signal(signal.SIGKILL)
    process.wait()
    with Store(path) as store:
        campaign = last_campaign(store, "ort")
    assert campaign is not None
    assert campaign.next_seed > 4 * BLOCK
    after = ran(path, 4 * BLOCK, None)
    whole = ran(tmp_path / "whole.db", campaign.next_seed + 4 * BLOCK, None)
    assert after == whole[campaign.next_seed :]


def interrupted(path: Path, after: int) -> None:
    """A run that is interrupted after so many tests."""
    given = CaseOptions(seed=0), Target("reference"), "fuzz", Plan("random", Mode.STRICT, nodes=4)
    with Store(path) as store, Fuzzer(store, *given) as fuzzer:
        for step in fuzzer.stretch(tests=100):
            if step.tally.tests == after:
                raise KeyboardInterrupt


def test_an_interrupted_run_has_kept_what_each_test_taught(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "crux.db", BLOCK + 3)
    with Store(tmp_path / "crux.db") as store:
        assert CoverageSync(store, "reference", None).seed == BLOCK + 3
        assert sum(each.tests for each in load_costs(store, 1).values()) == BLOCK + 3


def test_what_cannot_be_resumed_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "crux.db"
    with pytest.raises(UserError, match="no such database"):
        must_go_on(path, "ort", None)
    ran(path, 1, None)
    must_go_on(path, "ort", None)
    with pytest.raises(UserError, match="no campaign of target tvm"):
        must_go_on(path, "tvm", None)
    with pytest.raises(UserError, match="leave --seed out"):
        must_go_on(path, "ort", 3)
