"""How likely a candidate still fails, and what each move costs and gains: learned from the answers so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
class SuccessRates:
    """Counts of yes and of all answers, by context, for all moves together and for each."""

    _seen: dict[tuple[str, Context | None], tuple[int, int]] = field(default_factory=dict)

    def of_yes(self, move: Move[Any], asked: Sequence[bool]) -> float:
        """The chance that the next candidate of a search that was answered so is interesting."""
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


@dataclass(frozen=True, slots=True)
class MoveBenefit:
    """The success of a move: candidates asked, candidates that failed, and refusals before a failing one.

    The run of one reduction is the longest one; a measured one covers 98 in 100 of those that failed.
    """

    asked: int
    found: int
    run: int

    def then(self, answer: bool, refusals: int) -> MoveBenefit:
        """Add an answer, and the number of refusals in a row before it."""
        return MoveBenefit(self.asked + 1, self.found + answer, max(self.run, refusals if answer else 0))


MEASURED: Mapping[str, MoveBenefit] = {
    "drop attributes": MoveBenefit(39, 19, 3),
    "drop axes": MoveBenefit(49, 34, 1),
    "omit optional operands": MoveBenefit(50, 14, 3),
    "plainer element types": MoveBenefit(33, 12, 0),
    "plainer operators": MoveBenefit(55, 0, 1),
    "shrink dims": MoveBenefit(180, 94, 7),
    "simplify values": MoveBenefit(129, 21, 7),
    "size anew what sizes are computed from": MoveBenefit(42, 0, 5),
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
