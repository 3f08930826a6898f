"""The teacher of campaigns in one process."""

from __future__ import annotations

from collections.abc import Sequence

from generators.feedback import BLOCK, CoverageSnapshot, FeedbackSchedule
from generators.fuzz import Tested as OneTest
from generators.fuzz import lesson_of


class Remembering:
    """A teacher that keeps all lessons of a campaign in memory, which begins at `seed`."""

    def __init__(self, seed: int = 0) -> None:
        self.course = FeedbackSchedule()
        self.first = seed // BLOCK

    def lesson(self, block: range) -> CoverageSnapshot | None:
        return self.course.lesson(block.start // BLOCK - self.first)

    def learn(self, block: range, tests: Sequence[OneTest]) -> None:
        self.course.add(block.start // BLOCK - self.first, lesson_of(tests))
