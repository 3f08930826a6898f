"""Sequences of passes: drawn, and mutated as Tzer mutates them; always such as the backend can run.

Tzer (section 3.3) mutates a sequence by points, by subsequences and by crossing two. What a pass needs before
it is put in afterwards, from the backend's table.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from generators.language.values import RandomSource
from oracles.abilities import Sequences
from oracles.backends import find_backend

Passes: TypeAlias = tuple[str, ...]

FEWEST, MOST = 1, 8
LONGEST = 16
"""Passes of a sequence at most, those left out that were put in for others."""

LONG = 25
"""Passes of a long sequence at least."""

SECOND_THOUGHTS = 2
"""How often a pass is drawn where each time it is one that seldom changes anything."""

FRESH = 0.3
"""How often a sequence is drawn anew where there are some to mutate."""


def draw_sequence(draws: RandomSource, passes: Sequences) -> Passes:
    """A random sequence of the backend's passes."""
    count = draws.between(FEWEST, MOST)
    return passes.repaired(tuple(draw_pass(draws, passes) for _ in range(count)))


def long_sequences(seeds: Sequence[int], name: str) -> list[Passes]:
    """At least `LONG` passes for every seed; none for a backend that runs no passes by name."""
    passes = find_backend(name).sequences if name else None
    if passes is None or not passes.runs_passes:
        return [()] * len(seeds)
    return [_long_sequence(RandomSource(f"long passes/{seed}"), passes) for seed in seeds]


def _long_sequence(draws: RandomSource, passes: Sequences) -> Passes:
    found = passes.repaired(tuple(draw_pass(draws, passes) for _ in range(draws.between(LONG, 2 * LONG))))
    while len(found) < LONG:  # repairing leaves out what cannot stand any more
        found = passes.repaired((*found, draw_pass(draws, passes)))
    return found


def draw_pass(draws: RandomSource, passes: Sequences) -> str:
    """A pass; one that seldom changes anything is mostly drawn again."""
    for _ in range(SECOND_THOUGHTS):
        name = draws.pick(passes.names)
        if name not in passes.seldom:
            break
    return name


def next_sequence(draws: RandomSource, passes: Sequences, pool: Sequence[Passes]) -> Passes:
    """A new sequence, or a mutant of one in the pool."""
    if not pool or draws.random() < FRESH:
        return draw_sequence(draws, passes)
    mutate = draws.pick(MUTATIONS)
    return passes.repaired(mutate(draws, passes, draws.pick(pool), draws.pick(pool))[:LONGEST])


def change_point(draws: RandomSource, passes: Sequences, one: Passes, other: Passes) -> Passes:
    """One pass replaced, put in or left out."""
    place = draws.between(0, len(one) - 1)
    new = draws.pick(((draw_pass(draws, passes),), (one[place], draw_pass(draws, passes)), ()))
    return (*one[:place], *new, *one[place + 1 :]) or one


def take_subsequence(draws: RandomSource, passes: Sequences, one: Passes, other: Passes) -> Passes:
    """A stretch of it, once or twice."""
    start = draws.between(0, len(one) - 1)
    stretch = one[start : draws.between(start + 1, len(one))]
    return stretch * draws.pick((1, 2))


def cross(draws: RandomSource, passes: Sequences, one: Passes, other: Passes) -> Passes:
    """The beginning of one and the end of another."""
    return one[: draws.between(1, len(one))] + other[draws.between(0, len(other) - 1) :]


Mutation: TypeAlias = Callable[[RandomSource, Sequences, Passes, Passes], Passes]
MUTATIONS: tuple[Mutation, ...] = (change_point, take_subsequence, cross)


def sequences(seeds: Sequence[int], name: str) -> list[Passes]:
    """One sequence a seed, each of which may come of those before it; none for some of the seeds.

    None at all for a backend of that name that runs no passes by name, or no name. The seeds are a block,
    which has one sequence or none where the backend wants that.
    """
    passes = find_backend(name).sequences if name else None
    if passes is None:
        return [()] * len(seeds)
    if passes.of_blocks:
        draws = RandomSource(f"passes/{seeds[0]}")
        return [draw_sequence(draws, passes) if draws.random() < passes.share else ()] * len(seeds)
    pool: list[Passes] = []
    found: list[Passes] = []
    for seed in seeds:
        draws = RandomSource(f"passes/{seed}")
        found.append(next_sequence(draws, passes, pool) if draws.random() < passes.share else ())
        pool += found[-1:] if found[-1] else []
    return found
