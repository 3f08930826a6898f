"""How likely a candidate still fails, learned from the answers so far; it only orders guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reducer.move import Move

Context: TypeAlias = tuple[bool, int]
"""The last answer in a search, and how often in a row it came; more than `LONGEST` count as that."""

LONGEST = 3

USUAL = {
    (True, 1): 0.45,
    (True, 2): 0.45,
    (True, 3): 0.8,
    (False, 1): 0.25,
    (False, 2): 0.25,
    (False, 3): 0.2,
}
"""The share of yes after each context, over some sixty reductions of planted, real and random failures."""

TRUST = 20.0
"""How many answers of one reduction weigh as much as what is usual."""

OWN_TRUST = 2.0
"""How many answers of one move weigh as much as those of all moves."""


@dataclass
class Odds:
    """Counts of yes and of all answers, by context, for all moves together and for each."""

    _seen: dict[tuple[str, Context | None], tuple[int, int]] = field(default_factory=dict)

    def of_yes(self, move: Move[Any], asked: Sequence[bool]) -> float:
        """Return the chance that the next candidate of a search that was answered so is interesting."""
        context = _context(asked)
        general = move.chance if context is None else self._share("", context, USUAL[context], TRUST)
        return self._share(move.name, context, general, OWN_TRUST)

    def note(self, move: Move[Any], asked: Sequence[bool], answer: bool) -> None:
        """Learn from an answer that came after `asked`."""
        context = _context(asked)
        for name in ("", move.name):
            yes, count = self._seen.get((name, context), (0, 0))
            self._seen[name, context] = (yes + answer, count + 1)

    def _share(self, name: str, context: Context | None, before: float, trust: float) -> float:
        yes, count = self._seen.get((name, context), (0, 0))
        return (yes + trust * before) / (count + trust)


def _context(asked: Sequence[bool]) -> Context | None:
    """Return None at the start of a search."""
    if not asked:
        return None
    run = 0
    for answer in reversed(asked):
        if answer is not asked[-1] or run == LONGEST:
            break
        run += 1
    return asked[-1], run
