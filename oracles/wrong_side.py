"""Which of two differing results is wrong, by a third opinion."""

from __future__ import annotations

import numpy as np

from oracles.compare import distance
from oracles.run import Run

CLOSER = 0.1
"""An element sides with the optimised run when the third opinion is ten times nearer to it."""

PRESUMED = "the wrong side is presumed: no other implementation gives a value to compare"


def wrong_side(baseline: Run, other: Run, referee: Run, output: str) -> tuple[str, str]:
    """`optimised` or `un-optimised`, and a note where that is only presumed.

    Optimisation is what may change a result, so the optimised run is wrong unless the referee clearly sides
    with it. It must not matter whether the referee can run the case: it often runs a small case and not the
    large one that it was reduced from, and both show the same symptom.
    """
    reference, expected, actual = (run.outputs.get(output) for run in (referee, baseline, other))
    if not (
        isinstance(reference, np.ndarray)
        and isinstance(expected, np.ndarray)
        and isinstance(actual, np.ndarray)
    ):
        return "optimised", PRESUMED
    types = [(value.shape, value.dtype.kind) for value in (reference, expected, actual)]
    if len(set(types)) > 1:
        return ("un-optimised" if types[0] == types[2] else "optimised"), ""
    if expected.dtype != actual.dtype:
        # an un-optimised result is of the declared type, to which the reference evaluator does not keep
        return "optimised", ""
    differs = distance(expected, actual) > 0
    to_baseline, to_other = distance(reference, expected)[differs], distance(reference, actual)[differs]
    return ("un-optimised" if (to_other < CLOSER * to_baseline).mean() > 0.5 else "optimised"), ""
