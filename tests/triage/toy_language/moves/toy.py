"""Fewer lines."""

from reducer.language import language_of
from reducer.move import Hints, Move, Search, over_sets
from reducer.search import drop_one_at_a_time


def drop_lines(subject, hints: Hints) -> Search:
    """Leave out one line after the other."""
    return (
        yield from over_sets(subject, drop_one_at_a_time(range(len(subject.program.lines))), subject.keep)
    )


MOVES = (Move("drop lines", 1, drop_lines, on=language_of("toy").subject),)
