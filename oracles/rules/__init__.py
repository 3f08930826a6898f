"""The oracles, one file each; each turns a case's runs into a verdict, or says that it has none.

A module here is a rule when it defines `ORDER`, its place in the row, and `judge(case, runs, context)`.
`runs` holds the un-optimised run first, then the others. The first rule that returns a verdict decides.
Rules are asked about runs that do not all end well and agree. A rule with `is_suspect(case, runs)` may say
otherwise at first sight: True has it asked whatever the runs are, False lets the case pass, None is no word.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from types import ModuleType

from corpus.case import Case
from oracles.probes.context import Context
from oracles.verdict import Run, Verdict

Rule = Callable[[Case, tuple[Run, ...], Context], Verdict | None]
FirstSight = Callable[[Case, tuple[Run, ...]], bool | None]


@cache
def _modules() -> tuple[ModuleType, ...]:
    modules = [
        importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted(modules, key=lambda module: int(module.ORDER)))


@cache
def find_rules() -> tuple[Rule, ...]:
    """Every rule of this package, in order."""
    return tuple(module.judge for module in _modules())


@cache
def sceptical_rules() -> tuple[Rule, ...]:
    """The rules that have a word at first sight."""
    return tuple(module.judge for module in _modules() if hasattr(module, "is_suspect"))


@cache
def _first_sights() -> tuple[FirstSight, ...]:
    return tuple(module.is_suspect for module in _modules() if hasattr(module, "is_suspect"))


def is_suspect(case: Case, runs: tuple[Run, ...]) -> bool | None:
    """The answer of the first rule that judges the first runs; None if no rule does."""
    said = (ask(case, runs) for ask in _first_sights())
    return next((word for word in said if word is not None), None)
