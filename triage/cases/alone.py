"""A program that an oracle has rewritten, as a case of its own: a reader needs no oracle for it."""

from __future__ import annotations

from collections.abc import Callable

from corpus.case import Case
from corpus.target import Target
from oracles.asked import SETTING
from oracles.asked.metamorphic import NAME
from oracles.judge import Judge
from oracles.verdict import Verdict


def rewrites(target: Target) -> bool:
    """Return whether an oracle of the target runs other programs than a case's own."""
    return NAME in target.get(SETTING, "").split(",")


def alone(
    case: Case, judge: Judge, said: Callable[[str], None] = lambda text: None
) -> tuple[Case, Verdict | None]:
    """The rewritten program and its verdict if that is what fails, and fails by itself; else the case."""
    if not rewrites(judge.target):
        return case, None
    verdict = judge.verdict(case)
    other = judge.rewritten(case, verdict) if verdict.is_bug else None
    found = judge.verdict(other) if other is not None else None
    if other is None or found is None or not found.is_bug or judge.rewritten(other, found) is not None:
        return case, verdict
    said("the rewritten program fails by itself: it is taken instead")
    return other, found
