"""Which strategy and mode a block gets where a campaign schedules them by what they have found.

An arm is a strategy with a mode. What an arm earned is the part that it had in each symptom: a symptom that
it alone met counts one, one that all arms meet as often counts little. Yield is that by cost, and costs are
those of BENCHMARKS, not of this machine: so the same seeds give the same blocks anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import log2

from generators.feedback import CoverageSnapshot
from generators.reach import Reach

SCHEDULED = "scheduled"
"""The name of the mixture that does so."""
FLOOR, MOST = 0.25, 6.0
"""The least and the most of its usual share that an arm gets."""
PATIENCE = 96.0
"""Tests after which an arm's own yield weighs as much as the mean of all."""
HASTE = 32.0
"""The same of new blocks, which nearly every test meets."""
_COSTS = {"random": 1.0, "backward": 1.1, "coverage": 1.1, "mutate": 1.4, "uniform": 1.5, "functions": 2.1}
"""Of a test by each strategy, one by `random` being 1; another strategy's is `_OTHER`."""
_OTHER = 1.5
_BETWEEN = "|"


def arm(strategy: str, mode: str) -> str:
    """Return the arm's name."""
    return f"{strategy}{_BETWEEN}{mode}"


def strategy_and_mode(name: str) -> tuple[str, str]:
    """Split an arm's name into strategy and mode."""
    strategy, _, mode = name.partition(_BETWEEN)
    return strategy, mode


def earned(lesson: CoverageSnapshot) -> Mapping[str, float]:
    """Credit each arm with the symptoms that it met, in proportion to its part in them."""
    together = Counter[str]()
    for key, times in lesson.found.items():
        together[key.partition("\t")[2]] += times
    gains: dict[str, float] = {}
    for key in sorted(lesson.found):
        name, _, symptom = key.partition("\t")
        gains[name] = gains.get(name, 0.0) + lesson.found[key] / together[symptom]
    return gains


def shares(usual: Mapping[str, float], lesson: CoverageSnapshot) -> Mapping[str, float]:
    """Return the share of each arm: its usual one, by what it has yielded for its cost beside the others."""
    return _by_yield(usual, lesson.tried, earned(lesson), PATIENCE)


def shares_by_reach(usual: Mapping[str, float], reach: Reach) -> Mapping[str, float]:
    """The share of each arm, by the new blocks of the target's code that it met of late for its cost.

    In steps, each 1.4 times the last: a few blocks more or less, which may be chance, seldom change a draw.
    """
    tried = {name: tests for name, (tests, _) in reach.arms.items()}
    gains = {name: gain for name, (_, gain) in reach.arms.items()}
    found = _by_yield(usual, tried, gains, HASTE)
    return {
        name: usual[name] * 2 ** (round(2 * log2(share / usual[name])) / 2) for name, share in found.items()
    }


def _by_yield(
    usual: Mapping[str, float], tried: Mapping[str, float], gains: Mapping[str, float], patience: float
) -> Mapping[str, float]:
    spent = {name: tried.get(name, 0) * _cost(name) for name in usual}
    mean = sum(gains.get(name, 0.0) for name in usual) / max(sum(spent.values()), 1.0)
    if not mean:
        return usual
    found = {}
    for name, share in usual.items():
        own = (gains.get(name, 0.0) + mean * patience) / (spent[name] + patience)
        found[name] = share * min(max(own / mean, FLOOR), MOST)
    return found


def _cost(name: str) -> float:
    return _COSTS.get(strategy_and_mode(name)[0], _OTHER)
