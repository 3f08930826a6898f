"""The oracles that always judge: each turns a case's runs into a verdict, or says that it has none.

A module here lists its `RULES`. `runs` holds the un-optimised run first, then the others. The first rule that
returns a verdict decides. Rules are asked about runs that do not all end well and agree, but for a rule with
`is_suspect(case, runs)`: True has it asked whatever the runs are, False lets the case pass, None is no word.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from corpus.case import Case
from oracles.probes.context import Context
from oracles.verdict import Run, Verdict

Judging = Callable[[Case, tuple[Run, ...], Context], Verdict | None]
FirstSight = Callable[[Case, tuple[Run, ...]], bool | None]


@dataclass(frozen=True)
class Rule:
    """A rule's place in the row, how it judges, and what it says at first sight."""

    order: int
    judge: Judging
    is_suspect: FirstSight | None = None
    is_thorough: bool = False
    """Whether a suspicion counts only where the lower levels of optimisation are run, too."""

    @property
    def name(self) -> str:
        """What documents call the rule."""
        return self.judge.__name__


@cache
def find_rules() -> tuple[Rule, ...]:
    """Every rule of this package, in order."""
    names = (found.name for found in pkgutil.iter_modules(__path__))
    rules = (rule for name in names for rule in importlib.import_module(f"{__name__}.{name}").RULES)
    return tuple(sorted(rules, key=lambda rule: rule.order))


@cache
def sceptical_rules() -> tuple[Rule, ...]:
    """The rules that have a word at first sight."""
    return tuple(rule for rule in find_rules() if rule.is_suspect is not None)


def is_suspect(case: Case, runs: tuple[Run, ...], *, thorough: bool = True) -> bool | None:
    """The answer of the first rule that judges the first runs; None if no rule does."""
    rules = (rule for rule in sceptical_rules() if thorough or not rule.is_thorough)
    said = (rule.is_suspect(case, runs) for rule in rules if rule.is_suspect is not None)
    return next((word for word in said if word is not None), None)
