"""A shorter sequence of the case's own passes: none of them, else those that it takes."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from reducer.move import Hints, Move, Search, over_sets
from reducer.search import Items, SetSearch, drop_one_at_a_time, find_essentials
from reducer.subject.base import Subject


def drop_passes(subject: Subject, hints: Hints) -> Search:
    """Drop what the failure does not take; where a pass would miss one before it the backend refuses both."""
    count = len(subject.passes)
    if not count:
        return subject
    return (yield from over_sets(subject, _search(count), partial(_keep, subject)))


def _search(count: int) -> SetSearch:
    if (yield frozenset()):
        return frozenset()
    kept = yield from find_essentials(range(count), patience=count)
    return (yield from drop_one_at_a_time(sorted(kept)))


def _keep(subject: Subject, keep: Items) -> Subject:
    return replace(subject, passes=tuple(_at(subject.passes, keep)))


def _at(names: tuple[str, ...], places: Items) -> Iterator[str]:
    return (name for place, name in enumerate(names) if place in places)


MOVES = (Move("drop passes", 250, drop_passes, on=Subject),)
