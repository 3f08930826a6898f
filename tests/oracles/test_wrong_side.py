"""Which side is wrong, by a third opinion that may be wrong itself."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.run import Config, Phase, Run, Status
from oracles.wrong_side import wrong_side

GOOD, BAD, ODD = np.array([1.0, 2.0]), np.array([5.0, -2.0]), np.array([30.0, 40.0])


def ran(value: object) -> Run:
    return Run(Config("c"), Status.OK, Phase.EXECUTE, {} if value is None else {"y": value})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("baseline", "other", "referee", "side"),
    [
        (GOOD, BAD, GOOD, "optimised"),
        (BAD, GOOD, GOOD, "un-optimised"),
        (GOOD, BAD, ODD, "optimised"),
        (GOOD, BAD, None, "optimised"),
        (GOOD[:1], GOOD, GOOD, "un-optimised"),
        (GOOD, GOOD[:1], GOOD, "optimised"),
        (GOOD.astype(int), GOOD, GOOD, "un-optimised"),
        (GOOD, BAD, np.array(["a", "b"]), "optimised"),
        (GOOD, BAD, [GOOD], "optimised"),
    ],
    ids=["optimised", "baseline", "neither", "none", "shape", "other shape", "dtype", "text", "sequence"],
)
def test_the_optimised_is_wrong_unless_the_referee_sides_with_it(
    baseline: object, other: object, referee: object, side: str
) -> None:
    found, note = wrong_side(ran(baseline), ran(other), ran(referee), "y")
    assert found == side
    assert bool(note) == (referee is None or isinstance(referee, list))
