"""Fewer operators."""

from reducer.language import language_of
from reducer.move import Hints, Move, Search, over_sets
from reducer.search import drop_one_at_a_time


def drop_operators(subject, hints: Hints) -> Search:
    """Leave out one operator after the other."""
    return (yield from over_sets(subject, drop_one_at_a_time(range(len(subject.program.ops))), subject.keep))


MOVES = (Move("drop operators", 1, drop_operators, on=language_of("toy").subject),)
