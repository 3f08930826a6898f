"""The options that say which programs are drawn, and the plan that they make."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.console.options import rare

if TYPE_CHECKING:
    from generators.feedback import Shard
    from generators.language.profile import Budget
    from generators.mixture import Plan

MIXED = "mixed"


class Mode(StrEnum):
    """The kind of programs to make."""

    STRICT = "strict"
    DISRUPTIVE = "disruptive"
    VULNERABLE = "vulnerable"
    NONFINITE = "nonfinite"
    MIXED = "mixed"


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


@dataclass(frozen=True, slots=True)
class Growth:
    """How the programs of a campaign grow."""

    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="X",
            help="How graphs grow: random, aten, coverage, backward, functions, mutate, patterns, relax, "
            "relax_mutate, relax_patterns, high_order, relax_high_order, smt, tir, uniform; PATH.py:NAME, a "
            "function of yours (with --trust); mixed takes turns.",
        ),
    ] = MIXED
    mode: Modes = Mode.MIXED
    source: Source = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a program may cost; nothing is bounded that is not given."""

    max_flops: Annotated[int | None, rare("--max-flops", "N", "Operations of one run, at most.", min=1)] = (
        None
    )
    max_bytes: Annotated[
        int | None, rare("--max-bytes", "N", "Bytes of all values together, at most.", min=64)
    ] = None
    max_dim: Annotated[int | None, rare("--max-dim", "N", "The largest dim.", min=1)] = None
    max_depth: Annotated[
        int | None, rare("--max-depth", "N", "Operators in a chain, each reading the last.", min=1)
    ] = None
    max_ms: Annotated[
        float | None, rare("--max-ms", "N", "Milliseconds of one run at most, estimated.", min=0.02)
    ] = None

    @property
    def budget(self) -> Budget:
        """The bounds as generators know them."""
        from generators.language.profile import Budget

        seconds = None if self.max_ms is None else self.max_ms / 1000
        return Budget(self.max_flops, self.max_bytes, self.max_dim, self.max_depth, seconds)


@dataclass(frozen=True, slots=True)
class Testing:
    """Where the programs of a campaign are tested, and which of them."""

    native_coverage: Annotated[
        bool, rare("--native-coverage", None, "Watch which code of the target the tests meet (x86-64).")
    ] = False
    cluster: Annotated[
        str, rare("--cluster", "ADDRESS", "Test on a Ray cluster; local starts one here. -j says how wide.")
    ] = ""
    part: Annotated[
        str,
        rare(
            "--shard",
            "I/N",
            "Test one of N parts of the seeds, in a database of its own: for arrays of jobs.",
        ),
    ] = ""


def plan_of(growth: Growth, trust: bool, bounds: Bounds = Bounds(), part: str = "") -> Plan:
    """Collect the options of what to generate, and install what that needs. Raises UserError."""
    from generators import mixture, modes
    from generators.strategies import find_strategy

    mixture.provide_packages()

    if growth.strategy != MIXED:
        find_strategy(growth.strategy, trust)
    shard = _shard_of(part) if part else None
    mode, budget = modes.Mode(growth.mode.value), bounds.budget
    return mixture.Plan(growth.strategy, mode, source=growth.source, trust=trust, budget=budget, shard=shard)


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
