"""What a reduction is asked for: settings, limits, and where its journal lies."""

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from corpus.case import Case
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.compare import AUTO, Tolerance
from oracles.verdict import Limits
from reducer.language import language_of
from reducer.moves import all_moves


class DoesNotFail(Exception):
    """The case that was to be reduced does not fail (any more)."""


@dataclass(frozen=True)
class Options:
    """The settings of a reduction: the target or the command that judges, and the bounds.

    `check` is a shell command; its exit code `check_exit` means interesting. Without a command the target's
    symptom is kept. `also` is a second command that must exit with 0. `private` allows nothing of the
    original in the result. `thorough` asks for every subset of few nodes.
    """

    target: Target = field(default_factory=lambda: Target("ort"))
    check: str | None = None
    check_exit: int = 0
    also: str | None = None
    jobs: int = 1
    minutes: float | None = None
    max_checks: int | None = None
    limits: Limits = field(default_factory=Limits)
    tolerance: Tolerance = AUTO
    accept_invalid: bool = False
    timeout: float = 300.0
    private: bool = False
    thorough: bool = False

    def header(self, case: Case) -> Mapping[str, Any]:
        """The settings that must be equal for a journal to be reused."""
        names = ("check", "check_exit", "also", "accept_invalid")
        settings = {name: getattr(self, name) for name in names}
        settings["tolerance"] = list(astuple(self.tolerance))
        if self.thorough:
            settings["thorough"] = True
        if self.private:
            hidden = {name: _digest(settings[name]) for name in ("check", "also") if settings[name]}
            settings |= {"private": True, **hidden}
        return {
            "case_id": case.case_id,
            "target": str(self.target),
            "moves": [move.name for move in all_moves(language_of(case.format).subject)],
            **settings,
        }

    def judge(self, format: str) -> Judge:
        """A judge of the target with these limits and tolerances."""
        return Judge(
            self.target,
            format=format,
            limits=self.limits,
            tolerance=self.tolerance,
            accept_invalid=self.accept_invalid,
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Progress:
    """The state of a reduction after a check, for the live line."""

    move: str
    checks: int
    nodes: int
    bytes: int
    was_interesting: bool
