"""What each move costs and finds, measured; from it, after how many refusals in a row a search is given up.

Counts of 104 reductions of 2026-11-22: planted bugs, kinds of bugs, models of exporters, fuzzed failures.
What any reduction asked and found is in its `reduction.json` under `asked`; `tests/bench/bench_cases.py` adds
those of its own up, beside what is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reducer.move import Move


@dataclass(frozen=True, slots=True)
class Yield:
    """The success of a move: candidates asked, candidates that failed, and refusals before a failing one.

    The run of one reduction is the longest one; a measured one covers 98 in 100 of those that failed.
    """

    asked: int
    found: int
    run: int

    def then(self, answer: bool, refusals: int) -> Yield:
        """Add an answer, and the number of refusals in a row before it."""
        return Yield(self.asked + 1, self.found + answer, max(self.run, refusals if answer else 0))


MEASURED: Mapping[str, Yield] = {
    "drop attributes": Yield(39, 19, 3),
    "drop axes": Yield(49, 34, 1),
    "merge inputs of one type": Yield(82, 28, 2),
    "omit optional operands": Yield(50, 14, 3),
    "plainer element types": Yield(33, 12, 0),
    "plainer operators": Yield(55, 0, 1),
    "shrink dims": Yield(180, 94, 7),
    "simplify values": Yield(129, 21, 7),
    "size anew what sizes are computed from": Yield(42, 0, 5),
}
"""Of moves that leave the nodes as they are, or seldom change them; those that drop nodes ask for all."""

MARGIN = 2
"""A search may be refused this many times more often than ever paid."""

AGAIN = 4
"""Where the last search found nothing, the next one gets this part of the patience."""


def patience(move: Move[Any], was_fruitless: bool) -> int | None:
    """After how many refusals in a row a move's search is given up; None where it asks to its end."""
    known = MEASURED.get(move.name)
    if known is None:
        return None
    most = known.run + MARGIN
    return max(1, most // AGAIN) if was_fruitless else most
