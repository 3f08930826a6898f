"""`--native-coverage` on a real onnxruntime: what was met is in the database, and grows from run to run."""

import json
from pathlib import Path
from typing import Any

import pytest

from generators.fuzz import fuzz
from generators.mixture import Plan
from generators.seeds import BLOCK
from generators.strategies.native import lineage_of
from tests.helpers.campaigns import Remembering
from tests.helpers.commands import crux_apart
from tests.helpers.failing import ORT
from triage.campaigns.coverage_sync import CoverageSync
from triage.campaigns.testers import open_testers
from triage.console.options import CaseOptions
from triage.store.database import Store


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
    assert [point["tests"] for point in document["curve"]][-1] == 40
    assert store.rows("SELECT * FROM native_passes WHERE pass = 'constant_folding'")[0]["percent"] > 0


@pytest.mark.slow
def test_a_campaign_that_is_led_by_the_code_remembers_what_reached_it(tmp_path):
    words = ("--strategy", "native", "--native-coverage")
    printed(tmp_path, "fuzz", "--tests", "64", *words)
    printed(tmp_path, "fuzz", "--tests", "192", *words)
    with Store(tmp_path / "crux.db") as store:
        teaching = CoverageSync(store, "ort", None)
        lesson = teaching.lesson(range(teaching.seed, teaching.seed + 16))
    assert lesson is not None
    assert lesson.reach.roots
    assert sum(lesson.reach.bits(lesson.reach.build, 8 * len(lesson.reach.known))) > 10_000
    assert lineage_of(7, 5, lesson).changes


@pytest.mark.slow
def test_a_campaign_that_is_led_by_the_code_is_the_same_for_any_number_of_workers():
    """Its programs are; of what each test met a few blocks hang on where the memory of its worker lies."""
    found = []
    for jobs in (1, 2):
        plan, teacher = Plan("native", passes_of="ort"), Remembering()
        with open_testers(CaseOptions(jobs=jobs), ORT, plan, native=True) as testers:
            found.append(list(fuzz(testers.all, tests=20 * BLOCK, teacher=teacher)))
    one, two = found
    assert [each.case_id for each in one] == [each.case_id for each in two]
    same = sum(each.release_result == other.release_result for each, other in zip(one, two, strict=True))
    assert same >= 0.95 * len(one)


def test_what_is_led_by_the_code_must_watch_it(tmp_path):
    result = crux_apart(tmp_path, "fuzz", "--tests", "2", "--strategy", "native")
    assert result.returncode == 2
    assert "add --native-coverage" in result.stderr


def test_a_target_whose_code_cannot_be_watched_is_one_clear_line(tmp_path):
    result = crux_apart(tmp_path, "fuzz", "--tests", "2", "--native-coverage", "--target", "reference")
    assert result.returncode == 2
    assert "cannot be watched" in result.stderr
