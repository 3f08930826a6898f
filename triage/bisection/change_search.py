"""Where along a row of releases something changes: a few probes evenly spaced, then every change bisected.

What to ask next is a function of what was seen, so a search runs the same from a journal.
What is seen are words; a change is two neighbours of different words, so that a bug may come, change its face
and go more than once. Between two probes that show the same, nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

PROBES = 8
Seen = dict[int, str | None]
"""By place what was seen; None where nothing can be seen."""


def upcoming(seen: Seen, count: int, first: Iterable[int] = (), probes: int = PROBES) -> list[int]:
    """The next place to ask, and after it those that will be asked whatever is seen, then those that may be.

    Asked are `first`, the probes, then the middle of every gap in which something changes; none at the end.
    """
    begun = [place for place in dict.fromkeys((*first, *evenly(count, probes))) if place not in seen]
    sure = begun or list(_middles(seen, count))
    likely = (each for place in sure for each in _beside(seen, count, place)) if not begun else ()
    return list(dict.fromkeys((*sure, *likely)))


def evenly(count: int, probes: int) -> list[int]:
    """Places to ask first, at most `probes` of them with both ends, the newest first."""
    if count <= probes:
        return list(range(count))[::-1]
    return sorted({round(at * (count - 1) / (probes - 1)) for at in range(probes)}, reverse=True)


def _middles(seen: Seen, count: int) -> Iterator[int]:
    """Yield the places near the middle of each gap in which something changes, the newest gap first.

    From an end of the row where nothing can be seen, look for the first place where something can.
    """
    told = sorted(place for place, what in seen.items() if what is not None)
    if not told:
        yield from [place for place in range(count) if place not in seen][:1]
        return
    gaps = [(one, other) for one, other in pairwise(told) if seen[one] != seen[other]]
    mute = [place for place in seen if seen[place] is None]
    oldest = max((place for place in mute if place < told[0]), default=-1)
    newest = min((place for place in mute if place > told[-1]), default=count)
    for low, high in reversed([(oldest, told[0]), *gaps, (told[-1], newest)]):
        left = [place for place in range(low + 1, high) if place not in seen]
        if left:
            yield _nearest(left, (low + high) / 2)


def _beside(seen: Seen, count: int, place: int) -> Iterator[int]:
    """Yield the next places of a gap, given that this place shows one side or the other."""
    told = [each for each, what in seen.items() if what is not None]
    low = max((each for each in told if each < place), default=-1)
    high = min((each for each in told if each > place), default=count)
    for one, other in ((place, high), (low, place)):
        left = [each for each in range(one + 1, other) if each not in seen]
        if left:
            yield _nearest(left, (one + other) / 2)


def _nearest(places: list[int], middle: float) -> int:
    return min(places, key=lambda place: (abs(place - middle), -place))


@dataclass(frozen=True, slots=True)
class Interval:
    """A run of places that show the same thing; None at an open end."""

    last_good: str | None
    first_bad: str
    last_bad: str
    first_fixed: str | None


def intervals(seen: Sequence[tuple[str, str]], wanted: str, silent: frozenset[str]) -> list[Interval]:
    """Return the runs of releases, oldest first, that show what is wanted.

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
    """Return the neighbouring places that show different things, the older one first."""
    told = sorted(place for place, what in seen.items() if what is not None)
    return [(one, other) for one, other in pairwise(told) if seen[one] != seen[other]]
