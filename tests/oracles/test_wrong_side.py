"""Which side is wrong: the one that is clearly further from a truth, which may be wrong itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from corpus.values import Value
from oracles.numerics.compare import Difference, Tolerance, compare
from oracles.probes.context import Truth
from oracles.probes.wrong_side import judge_sides

GOOD, BAD, ODD = np.array([1.0, 2.0]), np.array([5.0, -2.0]), np.array([30.0, 40.0])


def difference_of(expected: Value, actual: Value) -> Difference:
    found = compare("y", expected, actual, Tolerance())
    assert found is not None
    return found


def truths(*values: Value) -> list[Truth]:
    return [Truth("some", {"y": value} if value is not None else {}) for value in values]


@pytest.mark.parametrize(
    ("baseline", "other", "told", "side"),
    [
        (GOOD, BAD, [GOOD], "optimised"),
        (BAD, GOOD, [GOOD], "un-optimised"),
        (GOOD, BAD, [(GOOD + BAD) / 2], "neither"),
        (GOOD, BAD, [ODD], "optimised"),
        (GOOD, BAD, [ODD, BAD], "un-optimised"),
        (GOOD, BAD, [], "optimised"),
        (GOOD[:1], GOOD, [GOOD], "un-optimised"),
        (GOOD, GOOD[:1], [GOOD], "optimised"),
        (GOOD, BAD.astype(int), [GOOD], "optimised"),
        (GOOD, BAD, [np.array(["a", "b"])], "optimised"),
        (GOOD, BAD, [[GOOD]], "optimised"),
        (np.array([1, 2]), np.array([1, 3]), [np.array([1, 3])], "un-optimised"),
        (np.array([True]), np.array([False]), [np.array([True])], "optimised"),
        (np.array([1.0, np.nan]), np.array([1.0, 0.0]), [np.array([1.0, np.nan])], "optimised"),
    ],
    ids=[
        "optimised",
        "baseline",
        "in the middle",
        "far from both",
        "the second tells",
        "none",
        "shape",
        "other shape",
        "dtype",
        "text",
        "sequence",
        "integers",
        "booleans",
        "nan",
    ],
)
def test_the_side_that_is_further_from_the_truth_is_wrong(
    baseline: Value, other: Value, told: list[Value], side: str
) -> None:
    assert judge_sides(difference_of(baseline, other), baseline, other, truths(*told)).side == side


def test_a_side_that_no_truth_tells_is_presumed_and_says_so() -> None:
    assert "presumed" in judge_sides(difference_of(GOOD, BAD), GOOD, BAD, []).note
    assert "some" in judge_sides(difference_of(GOOD, BAD), GOOD, BAD, truths(GOOD)).note


def test_what_must_be_confirmed_and_is_not_is_no_bug() -> None:
    """float32 overflows where float64 does not: the infinity is right for its type."""
    baseline, other = np.array([np.inf], np.float32), np.array([1e30], np.float32)
    found = compare("y", baseline, other, Tolerance())
    assert found is not None
    wild = replace(found, unconfirmed=np.array([True]))
    assert judge_sides(wild, baseline, other, truths(np.array([1e40]))).side == "neither"
    assert judge_sides(wild, baseline, other, truths(np.array([np.inf]))).side == "optimised"
