"""Searches for a small subset that still fails, as generators that propose and are answered.

A search yields the set of items to keep and is sent whether that set is interesting; what it returns is
known to be interesting. It is a pure function of the answers, so a journal replays it and speculation can
run ahead of it. All of them start from a set that is known to be interesting.
"""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeAlias

Items: TypeAlias = frozenset[int]
SetSearch: TypeAlias = Generator[Items, bool, Items]

PATIENCE = 2
"""How many essentials in a row may be found with hardly anything discarded before a bisection gives up."""

DENSE = 1 / 8
"""A bisection that discards no more than this share of what is left has found nothing out."""

SMALL = 8
"""With this few items left, bisecting on is cheaper than starting another search."""


def answered(search: SetSearch, shows: Callable[[Items], bool]) -> Items:
    """Run a search to its end, each proposal answered at once; the items that are left."""
    try:
        proposal = next(search)
        while True:
            proposal = search.send(shows(proposal))
    except StopIteration as end:
        found: Items = end.value
        return found


def find_essentials(
    items: Sequence[int],
    near: Sequence[Callable[[Items], Items]] = (),
    weigh: Callable[[int], float] | None = None,
    patience: int = PATIENCE,
    small: int = SMALL,
    neighbours: int = 0,
) -> SetSearch:
    """One essential item at a time, each by bisecting for the shortest prefix that suffices.

    For k essentials of n items this asks at most k(⌈log2 n⌉+1)+k+2 times when the predicate is monotone.
    Essentials of a compiler bug are mostly neighbours, so the items `near` those found, closest first, are
    tried before the next bisection. Where essentials lie dense (a chain that a cut would break) it gives up
    early and returns what it has, so that another way of removing nodes can be tried. So it does where an
    essential needs no more than so many `neighbours`.
    """
    essential: list[int] = []
    rest = list(items)
    dense, tried = 0, Items()
    while rest:
        if essential and essential[-1] not in tried:
            before = len(rest)
            rest, tried = yield from _narrow(essential, rest, near)
            is_near = len(rest) < before
            if (is_near or not tried) and (yield frozenset(essential)):
                return frozenset(essential)
            if is_near and len(rest) <= neighbours:
                break
        if dense >= patience and len(rest) > small:
            break
        few = (1 - DENSE) * len(rest)
        is_last = 0 < dense == patience - 1 and len(rest) > small
        length = yield from _shortest_prefix(essential, rest, weigh, few if is_last else len(rest))
        dense = dense + 1 if length >= few else 0
        if is_last and dense:
            rest = rest[:length]
            break
        essential.append(rest[length - 1])
        rest = rest[: length - 1]
    return frozenset([*essential, *rest])


def _narrow(
    essential: Sequence[int], rest: list[int], near: Sequence[Callable[[Items], Items]]
) -> Generator[Items, bool, tuple[list[int], Items]]:
    """The items left once only neighbours need a look, and the neighbours that did not suffice."""
    tried = Items()
    for neighbours in near:
        around = neighbours(frozenset(essential)) & frozenset(rest)
        if around != tried and len(around) < len(rest):
            if (yield around.union(essential)):
                return sorted(around), tried
            tried = around
    return rest, tried


def _shortest_prefix(
    essential: Sequence[int], rest: Sequence[int], weigh: Callable[[int], float] | None, long: float
) -> Generator[Items, bool, int]:
    """The least length of a prefix of `rest` that suffices beside `essential`; all of it is known to.

    If that is at least `long`, not the least.
    """
    low, high = 0, len(rest)
    while high - low > 1 and low < long:
        middle = _midpoint(rest, low, high, weigh)
        if (yield frozenset([*essential, *rest[:middle]])):
            high = middle
        else:
            low = middle
    return high


def _midpoint(rest: Sequence[int], low: int, high: int, weigh: Callable[[int], float] | None) -> int:
    """The index between low and high (exclusive) that splits the weight between them in half."""
    if weigh is None:
        return (low + high) // 2
    weights = [weigh(item) for item in rest[low:high]]
    half, total = sum(weights) / 2, 0.0
    for index, weight in enumerate(weights):
        total += weight
        if total >= half:
            return min(max(low + index + 1, low + 1), high - 1)
    return (low + high) // 2


def nothing_or(search: SetSearch) -> SetSearch:
    """The empty set where that suffices; else what the search finds."""
    if (yield frozenset()):
        return frozenset()
    return (yield from search)


def fewest(count: int, few: int) -> SetSearch:
    """By bisection; of no more than `few` items, for which that is dearer, one at a time."""
    return find_essentials(range(count)) if count > few else drop_one_at_a_time(range(count))


def fewest_in_full(count: int) -> SetSearch:
    """By bisection to its end, then one at a time."""
    kept = yield from find_essentials(range(count), patience=count)
    return (yield from drop_one_at_a_time(sorted(kept)))


LEAST_RUN = 3


def drop_runs(items: Sequence[int]) -> SetSearch:
    """Runs of neighbours go: half of the items first, then quarters; the last ones first."""
    left = list(items)
    length = len(left) // 2
    while length >= LEAST_RUN:
        end = len(left)
        while end > 0:
            start = max(0, end - length)
            kept = left[:start] + left[end:]
            if kept and (yield frozenset(kept)):
                left = kept
            end = start
        length //= 2
    return frozenset(left)


FIRST_PROBABILITY = 0.1
GROWTH = 1 / (1 - math.exp(-1))


def counter_dd(items: Iterable[int], always: Items = frozenset()) -> SetSearch:
    """Counter-based delta debugging: blocks whose size falls by a fixed law, whatever the answers.

    Follows the finding that probabilistic delta debugging's block sizes depend on the round alone: each
    round's removal probability grows by 1/(1-1/e) and the block size is -1/ln(1-p). It suits many
    essentials that are exchangeable. `always` stays in every proposal.
    """
    keep = list(items)
    probability = FIRST_PROBABILITY
    while keep:
        size = max(1, round(-1 / math.log(1 - probability)) if probability < 0.99 else 1)
        end = len(keep)
        while end > 0:
            start = max(0, end - size)
            fewer = keep[:start] + keep[end:]
            if (fewer or always) and (yield always.union(fewer)):
                keep = fewer
            end = start
        if size == 1:
            break
        probability *= GROWTH
    return always.union(keep)


def drop_one_at_a_time(items: Iterable[int], patience: float = math.inf) -> SetSearch:
    """Each item on its own, the last one first; a set from which none can go is 1-minimal.

    It gives up once `patience` items in a row have stayed.

    Where one can go, the run of items before it is tried with it in doubling blocks, so that k items in a
    row that can go cost O(log k) questions.
    """
    keep = list(items)
    end, stayed = len(keep), 0
    while end > 0 and stayed < patience:
        count = yield from _longest_run(keep, end)
        stayed = 0 if count else stayed + 1
        keep = keep[: end - count] + keep[end:]
        end -= max(count, 1)
    return frozenset(keep)


def _longest_run(keep: Sequence[int], end: int) -> Generator[Items, bool, int]:
    """Count the items before `end` that can go together, by doubling and bisection; never all of them."""
    most = min(end, len(keep) - 1)
    works, fails = 0, most + 1
    while fails - works > 1:
        count = min(2 * works or 1, most) if fails > most else (works + fails) // 2
        if (yield frozenset([*keep[: end - count], *keep[end:]])):
            works = count
        else:
            fails = count
    return works
