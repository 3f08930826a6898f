"""What campaigns in one process are made of."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from corpus.case import Case
from generators.feedback import CoverageSnapshot, FeedbackSchedule
from generators.fuzz import Tested as OneTest
from generators.fuzz import judge_cases, lesson_of
from generators.mixture import Plan, make_tests
from generators.seeds import BLOCK
from oracles.judge import Judge
from oracles.verdict import Outcome, Phase, Verdict
from triage.campaigns.testers import asker_of


def taught(plan: Plan, judge: Judge, blocks: int, first: int) -> Iterator[tuple[list[Case], float]]:
    """The cases of each block of a campaign that learns which passes fire, and the CPU seconds they took.

    Its epochs are those of any campaign; no case is judged.
    """
    course, fired = FeedbackSchedule(), asker_of(judge)
    passes = Verdict(Outcome.PASS, Phase.COMPARE, "")
    for block in range(blocks):
        lesson = course.lesson(block)
        seeds = range(first + block * BLOCK, first + (block + 1) * BLOCK)
        before = time.process_time()
        drawn = list(make_tests(plan, seeds, lesson))
        yield [each.case for each in drawn], time.process_time() - before
        tests = judge_cases(drawn, lambda case, thorough: passes, 600, fired=fired, known=lesson.pool.seen)
        course.add(block, lesson_of(list(tests)))


class Remembering:
    """A teacher that keeps all lessons of a campaign in memory, which begins at `seed`."""

    def __init__(self, seed: int = 0) -> None:
        self.course = FeedbackSchedule()
        self.first = seed // BLOCK

    def lesson(self, block: range) -> CoverageSnapshot | None:
        return self.course.lesson(block.start // BLOCK - self.first)

    def learn(self, block: range, tests: Sequence[OneTest]) -> None:
        self.course.add(block.start // BLOCK - self.first, lesson_of(tests))
