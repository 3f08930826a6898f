"""Programs of TVM's loop IR with sequences of passes, grown and mutated together: only `tvm` runs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from generators.language.budget import UNLIMITED, Budget
from generators.tir.programs import TirProgram, make_program

FORMAT = "tir"


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[TirProgram]:
    """A program a seed."""
    for seed in seeds:
        yield make_program(seed, nodes)
