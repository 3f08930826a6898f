"""Fresh programs as their makers give them: forward by weights, by a solver, and programs of TIR.

`random` grows forward, by weights between classes of operators that each program draws for itself.

`smt` (NNSmith, §3.2) chooses operators with symbolic dims, and one query finds them all. Every choice adds
constraints over the dims of its operands and over its attributes: what the operator's own type rule compares;
binning asks that each free number lies between two powers of two drawn for it, so that ones, primes and large
sizes all occur. It needs the extra `smt` (z3).

`tir` makes programs with sequences of passes, grown and mutated together: only `tvm` runs them.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from corpus.errors import UserError
from generators.feedback import CoverageSnapshot
from generators.growth.grow import Program, grow
from generators.language.profile import UNLIMITED, Budget
from generators.solved.realising import solved_program
from generators.strategies import each_seed
from generators.tir.breeding import breed
from generators.tir.programs import TirProgram, make_program
from oracles.extras import how_to_install, provide


def solved(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[Program]:
    """Yield a program a seed; raises `UserError` where the solver is not installed."""
    provide("z3-solver")
    if find_spec("z3") is None:
        raise UserError(f"--strategy smt: z3 is not installed; {how_to_install('z3-solver')}")
    z3 = import_module("z3")
    for seed in seeds:
        yield solved_program(seed, nodes, budget, z3)


def loops(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[TirProgram]:
    """Yield a program a seed; they start from the `.tir.json` files below `source`, if it is given."""
    for seed in seeds:
        yield make_program(seed, nodes, source=source, budget=budget)


def bred_loops(
    seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget
) -> Iterator[TirProgram]:
    """Yield a program a seed, bred from what the campaign has found worth keeping."""
    for seed in seeds:
        yield breed(seed, nodes, lesson.pool, budget)


STRATEGIES = {
    "random": each_seed(lambda seed, nodes, budget: grow(seed, nodes, budget=budget)),
    "smt": solved,
    "tir": loops,
}
TAUGHT = {"tir": bred_loops}
