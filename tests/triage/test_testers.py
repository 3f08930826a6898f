"""Testers in processes of their own, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from corpus.errors import UserError
from generators.changes.modes import Mode
from generators.fuzz import fuzz
from generators.mixture import Plan
from tests.triage.failing import ORT
from triage.campaigns.testers import RemoteError, open_testers
from triage.console.options import CaseOptions


def outcomes(jobs: int, plan: Plan) -> list[tuple[int, str, str]]:
    with open_testers(CaseOptions(jobs=jobs), ORT, plan) as testers:
        assert testers.release
        found = fuzz(testers.all, seed=7, tests=100)
        return [(each.seed, each.case_id, each.verdict.outcome.value) for each in found]


def test_one_and_two_processes_test_the_same_cases_with_the_same_outcomes() -> None:
    plan = Plan(nodes=5)
    alone = outcomes(1, plan)
    assert [seed for seed, _, _ in alone] == list(range(7, 107))
    assert outcomes(2, plan) == alone


@pytest.mark.parametrize(
    ("source", "error"), [(Path("none"), UserError), (cast(Path, object()), RemoteError)], ids=["user", "own"]
)
def test_what_fails_in_a_process_is_told_here(source: Path, error: type[Exception]) -> None:
    plan = Plan("coverage", Mode.STRICT, source=source)
    with open_testers(CaseOptions(jobs=2), ORT, plan) as testers, pytest.raises(error):
        list(fuzz(testers.all, tests=20))
