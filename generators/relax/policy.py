"""What programs of a policy look like, as a strategy: operators, forms of expressions, types, sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from generators.language.budget import Budget
from generators.relax.choices import FORMS, Choices
from generators.relax.programs import make_program

__all__ = ["FORMS", "POLICY", "Policy", "Strategy"]

Strategy = Callable[[Sequence[int], int, Path | None, Budget], Iterator[object]]


@dataclass(frozen=True)
class Policy(Choices):
    """A policy of drawing programs; a strategy file makes one and calls its `programs()`."""

    def programs(self) -> Strategy:
        """Return the strategy of this policy, as `--strategy FILE.py:NAME` takes one."""

        def made(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[object]:
            return (make_program(seed, nodes, self, budget) for seed in seeds)

        return made


POLICY = Policy()
