"""Contexts of a higher order: programs whose patterns made their passes fire (OATest §3.3).

A context is kept as the seeds that it was made of: the first grew a program around patterns, each further one
put more into it. What made a pass fire together with another for the first time stays in the campaign's pool.
"""

from __future__ import annotations

import json
import zlib

from generators.language.random_source import RandomSource
from generators.pools import PROGRAM, Bred, Pool

DEEPEST = 4
"""Seeds that a program is made of, at most: all are made again for each program that goes on from it."""
_FRESH = 0.35
"""How often a program begins anew, though there are contexts."""


def bred_of(seed: int, pool: Pool) -> Bred:
    """What the program of a seed is bred on.

    Each context draws a lot for the seed and the best one wins, so that one context more or less in the pool
    changes only the seeds that it wins.
    """
    if not pool.entries or RandomSource(f"context/{seed}").chance(_FRESH):
        return Bred(made_of=json.dumps([seed]))
    root = max(pool.entries, key=lambda each: (zlib.crc32(f"{seed}/{each.key}".encode()), each.key))
    seeds = [*json.loads(root.program)[: DEEPEST - 1], seed]
    return Bred(root.key, PROGRAM, json.dumps(seeds))


def seeds_of(bred: Bred) -> tuple[int, ...]:
    """The seeds that a program is made of, the first one first."""
    return tuple(json.loads(bred.made_of))


def further_nodes(nodes: int) -> int:
    """How many nodes each further seed adds to a program of so many."""
    return max(4, nodes // 2)
