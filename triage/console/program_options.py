"""The options that say which programs are drawn, and the plan that they make."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import rare

if TYPE_CHECKING:
    from generators.feedback import Shard
    from generators.language.profile import Budget
    from generators.mixture import Plan

MIXED, SCHEDULED = "mixed", "scheduled"


class Mode(StrEnum):
    """The kind of programs to make."""

    STRICT = "strict"
    DISRUPTIVE = "disruptive"
    VULNERABLE = "vulnerable"
    NONFINITE = "nonfinite"
    MIXED = "mixed"


Strategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="X",
        help="How graphs grow: random, aten, coverage, backward, functions, mutate, patterns, relax, "
        "relax_mutate, relax_patterns, high_order, relax_high_order, smt, uniform; PATH.py:NAME, a function "
        "of yours (with --trust); "
        "mixed takes turns; scheduled gives more turns to what finds more, native (with --native-coverage) "
        "to what reaches more of the target's own code.",
    ),
]
NativeCoverage = Annotated[
    bool, rare("--native-coverage", None, "Watch which code of the target the tests meet (x86-64).")
]
Cluster = Annotated[
    str, rare("--cluster", "ADDRESS", "Test on a Ray cluster; local starts one here. -j says how wide.")
]
Part = Annotated[
    str,
    rare("--shard", "I/N", "Test one of N parts of the seeds, in a database of its own: for arrays of jobs."),
]
Source = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="A saved coverage.json, the model that is to be mutated, or a folder of patterns.",
    ),
]
Modes = Annotated[
    Mode,
    typer.Option(
        "--mode",
        help="Valid programs, broken ones, ones with a dangerous value, valid ones with NaN and infinity, "
        "or all of these.",
    ),
]

MaxFlops = Annotated[int | None, rare("--max-flops", "N", "Operations of one run, at most.", min=1)]
MaxBytes = Annotated[int | None, rare("--max-bytes", "N", "Bytes of all values together, at most.", min=64)]
MaxDim = Annotated[int | None, rare("--max-dim", "N", "The largest dim.", min=1)]
MaxDepth = Annotated[
    int | None, rare("--max-depth", "N", "Operators in a chain, each reading the last.", min=1)
]
MaxMs = Annotated[
    float | None, rare("--max-ms", "N", "Milliseconds of one run at most, estimated.", min=0.02)
]


def budget_of(
    flops: int | None, memory: int | None, dim: int | None, depth: int | None, ms: float | None
) -> Budget:
    """What a program may cost; nothing is bounded that is not given."""
    from generators.language.profile import Budget

    return Budget(flops, memory, dim, depth, None if ms is None else ms / 1000)


def plan_of(
    strategy: str, mode: Mode, source: Path | None, trust: bool, budget: Budget, part: str = ""
) -> Plan:
    """Collect the options of what to generate, and install what that needs. Raises UserError."""
    from generators import mixture
    from generators.mutations import modes
    from generators.strategies import find_strategy

    mixture.provide_packages()

    if strategy not in (MIXED, SCHEDULED):
        find_strategy(strategy, trust)
    shard = _shard_of(part) if part else None
    return mixture.Plan(
        strategy, modes.Mode(mode.value), source=source, trust=trust, budget=budget, shard=shard
    )


def own_tests(plan: Plan, seed: int | None, tests: int) -> int:
    """Those of so many tests that are the plan's shard's; UserError where none is."""
    from corpus.errors import UserError

    own = plan.shard.share_of(seed or 0, tests) if plan.shard else tests
    if tests and not own:
        raise UserError(f"--shard {plan.shard}: none of {tests} tests; blocks of seeds go to shards in turns")
    return own


def _shard_of(text: str) -> Shard:
    from corpus.errors import UserError
    from generators.feedback import Shard

    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError(f"--shard {text}: not I/N with I from 1 to N, such as 3/8")
    return Shard(int(found[1]), int(found[2]))
