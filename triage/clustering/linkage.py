"""Average linkage with a cut: a partition that is a function of the set of items, not of their order."""

from collections.abc import Callable, Iterable, Mapping

Groups = tuple[tuple[str, ...], ...]


def average_linkage(
    items: Iterable[str],
    distance: Callable[[str, str], float],
    cut: float,
    pinned: Mapping[str, object] | None = None,
) -> Groups:
    """The groups of which no two are, on average, within the cut; sorted, so that ties fall the same way.

    Items `pinned` to the same place begin as one group; items pinned to different places never become one.
    """
    pins = pinned or {}
    groups = _begin(sorted(set(items)), pins)
    between = {(a, b): _average(groups[a], groups[b], distance) for a in groups for b in groups if a < b}
    while near := [pair for pair in between if between[pair] <= cut and _may_join(pair, groups, pins)]:
        keep, gone = min(near, key=lambda pair: (between[pair], pair))
        groups[keep] = tuple(sorted(groups[keep] + groups.pop(gone)))
        between = {pair: value for pair, value in between.items() if gone not in pair and keep not in pair}
        for other in groups:
            if other != keep:
                average = _average(groups[keep], groups[other], distance)
                between[min(keep, other), max(keep, other)] = average
    return tuple(sorted(groups.values()))


def _begin(items: list[str], pins: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """One group for each place of pinned items, and one for each other item; by its first item."""
    by_place: dict[object, tuple[str, ...]] = {}
    for item in items:
        place = ("pinned", pins[item]) if item in pins else item
        by_place[place] = (*by_place.get(place, ()), item)
    return {group[0]: group for group in by_place.values()}


def _average(one: tuple[str, ...], two: tuple[str, ...], distance: Callable[[str, str], float]) -> float:
    return sum(distance(a, b) for a in one for b in two) / (len(one) * len(two))


def _may_join(
    pair: tuple[str, str], groups: Mapping[str, tuple[str, ...]], pins: Mapping[str, object]
) -> bool:
    places = {pins[item] for first in pair for item in groups[first] if item in pins}
    return len(places) <= 1
