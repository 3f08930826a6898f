"""Random programs with some of their nodes in model-local functions, plain, nested or wrapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from generators.growth.grow import Program, grow
from generators.language.budget import UNLIMITED, Budget
from generators.language.random_source import RandomSource
from generators.mutations.functions import wrap
from oracles.relation.program import DTypeFamily

_UNTYPED = frozenset({DTypeFamily.CONTRIB})
"""Inside a function, onnx finds no types for the results of other operator sets."""


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """Yield a wrapped form of each seed's random program; the results are the same."""
    for seed in seeds:
        program = grow(seed, nodes, _UNTYPED, budget)
        yield replace(program, model=wrap(program.model, RandomSource(f"functions/{seed}/{nodes}")))
