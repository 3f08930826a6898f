"""Shapes from a solver (NNSmith, §3.2): operators are chosen with symbolic dims, one query finds them all.

Every choice adds constraints over the dims of its operands and over its attributes: what the operator's own
type rule compares; binning asks that each free number lies between two powers of two drawn for it, so that
ones, primes and large sizes all occur. Needs the extra `smt` (z3).
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from corpus.errors import UserError
from generators.growth.grow import Program
from generators.language.profile import UNLIMITED, Budget
from generators.solved.realising import solved_program
from oracles.extras import how_to_install, provide


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """Yield a program a seed; raises `UserError` where the solver is not installed."""
    provide("z3-solver")
    if find_spec("z3") is None:
        raise UserError(f"--strategy smt: z3 is not installed; {how_to_install('z3-solver')}")
    z3 = import_module("z3")
    for seed in seeds:
        yield solved_program(seed, nodes, budget, z3)
