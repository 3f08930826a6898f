"""Where along a row of releases something changes: a few probes evenly spaced, then every change bisected.

A search is a generator that proposes places and is sent what was seen there: it runs the same from a journal.
What is seen are words; a change is two neighbours of different words, so that a bug may come, change its face
and go more than once. Between two probes that show the same, nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

PROBES = 8
Seen = dict[int, str | None]
"""By place what was seen; None where nothing can be seen."""


def search(count: int, first: Iterable[int] = (), probes: int = PROBES) -> Generator[int, str | None, Seen]:
    """Ask `first`, the probes, then the middle of every gap in which something changes."""
    seen: Seen = {}
    for place in (*first, *evenly(count, probes)):
        if place not in seen:
            seen[place] = yield place
    while (wanted := _next(seen, count)) is not None:
        seen[wanted] = yield wanted
    return seen


def evenly(count: int, probes: int) -> list[int]:
    """At most so many places, both ends among them, the newest first."""
    if count <= probes:
        return list(range(count))[::-1]
    return sorted({round(at * (count - 1) / (probes - 1)) for at in range(probes)}, reverse=True)


def _next(seen: Seen, count: int) -> int | None:
    """The unasked place nearest to the middle of the newest gap in which something changes.

    From an end of the row where nothing can be seen the first place where something can is looked for.
    """
    told = sorted(place for place, what in seen.items() if what is not None)
    if not told:
        return next((place for place in range(count) if place not in seen), None)
    gaps = [(one, other) for one, other in pairwise(told) if seen[one] != seen[other]]
    mute = [place for place in seen if seen[place] is None]
    oldest = max((place for place in mute if place < told[0]), default=-1)
    newest = min((place for place in mute if place > told[-1]), default=count)
    for low, high in reversed([(oldest, told[0]), *gaps, (told[-1], newest)]):
        left = [place for place in range(low + 1, high) if place not in seen]
        if left:
            middle = (low + high) / 2
            return min(left, key=lambda place: (abs(place - middle), -place))
    return None


@dataclass(frozen=True, slots=True)
class Interval:
    """Where one thing shows without a break, as far as was looked; None at an end that is open."""

    last_good: str | None
    first_bad: str
    last_bad: str
    first_fixed: str | None


def intervals(seen: Sequence[tuple[str, str]], wanted: str, silent: frozenset[str]) -> list[Interval]:
    """The runs of releases, oldest first, that show what is wanted.

    `seen` are releases with what they show, in their order; what is `silent` is passed over: it says neither
    that it is there nor that it is gone.
    """
    telling = [(release, what) for release, what in seen if what not in silent]
    found, last_good, start = [], None, None
    for at, (release, what) in enumerate(telling):
        if what == wanted and start is None:
            start, last_good = release, telling[at - 1][0] if at else None
        elif what != wanted and start is not None:
            found.append(Interval(last_good, start, telling[at - 1][0], release))
            start = None
    if start is not None:
        found.append(Interval(last_good, start, telling[-1][0], None))
    return found


def changes(seen: Mapping[int, str | None]) -> list[tuple[int, int]]:
    """The neighbouring places that show different things, the older one first."""
    told = sorted(place for place, what in seen.items() if what is not None)
    return [(one, other) for one, other in pairwise(told) if seen[one] != seen[other]]
