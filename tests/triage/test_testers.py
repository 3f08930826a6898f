"""Testers in processes of their own, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from corpus.errors import UserError
from corpus.target import Target
from generators.feedback import CoverageSnapshot, FeedbackSchedule
from generators.fuzz import fuzz, lesson_of
from generators.mixture import BLOCK, Plan
from generators.mutations.modes import Mode
from tests.triage.failing import ORT
from triage.campaigns.testers import RemoteError, open_testers
from triage.console.options import CaseOptions

if TYPE_CHECKING:
    from generators.fuzz import Tested


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


class Classroom:
    """A campaign's teacher that keeps nothing."""

    def __init__(self) -> None:
        self.course = FeedbackSchedule()

    def lesson(self, block: range) -> CoverageSnapshot | None:
        return self.course.lesson(block.start // BLOCK)

    def learn(self, block: range, tests: Sequence[Tested]) -> None:
        self.course.add(block.start // BLOCK, lesson_of(tests))


def bred(jobs: int) -> list[tuple[int, str, str]]:
    with open_testers(
        CaseOptions(jobs=jobs), Target("tvm"), Plan("tir", nodes=6, passes_of="tvm")
    ) as testers:
        found = list(fuzz(testers.all, seed=0, tests=5 * BLOCK, teacher=Classroom()))
    assert any(each.trial and each.trial.bred.parent for each in found)
    return [(each.seed, each.case_id, each.verdict.outcome.value) for each in found]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_and_two_processes_breed_the_same_programs_of_loops() -> None:
    assert bred(2) == bred(1)


@pytest.mark.parametrize(
    ("source", "error"), [(Path("none"), UserError), (cast(Path, object()), RemoteError)], ids=["user", "own"]
)
def test_what_fails_in_a_process_is_told_here(source: Path, error: type[Exception]) -> None:
    plan = Plan("coverage", Mode.STRICT, source=source)
    with open_testers(CaseOptions(jobs=2), ORT, plan) as testers, pytest.raises(error):
        list(fuzz(testers.all, tests=20))
