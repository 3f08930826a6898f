"""The options of commands that make programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from generators.language.budget import Budget
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
    bool,
    typer.Option("--native-coverage", help="Watch which code of the target the tests meet (x86-64)."),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Test on a Ray cluster; local starts one here. -j says how wide."
    ),
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

MaxFlops = Annotated[
    int | None, typer.Option("--max-flops", metavar="N", help="Operations of one run, at most.", min=1)
]
MaxBytes = Annotated[
    int | None,
    typer.Option("--max-bytes", metavar="N", help="Bytes of all values together, at most.", min=64),
]
MaxDim = Annotated[int | None, typer.Option("--max-dim", metavar="N", help="The largest dim.", min=1)]
MaxDepth = Annotated[
    int | None,
    typer.Option("--max-depth", metavar="N", help="Operators in a chain, each reading the last.", min=1),
]
MaxMs = Annotated[
    float | None,
    typer.Option("--max-ms", metavar="N", help="Milliseconds of one run at most, estimated.", min=0.02),
]


def budget_of(
    flops: int | None, memory: int | None, dim: int | None, depth: int | None, ms: float | None
) -> Budget:
    """What a program may cost; nothing is bounded that is not given."""
    from generators.language.budget import Budget

    return Budget(flops, memory, dim, depth, None if ms is None else ms / 1000)


def plan_of(strategy: str, mode: Mode, source: Path | None, trust: bool, budget: Budget) -> Plan:
    """Collect the options of what to generate. Raises"""
    from generators import mixture
    from generators.changes import modes
    from generators.strategies import find_strategy

    if strategy not in (MIXED, SCHEDULED):
        find_strategy(strategy, trust)
    return mixture.Plan(strategy, modes.Mode(mode.value), source=source, trust=trust, budget=budget)
