"""The oracles, one file each; each turns a case's runs into a verdict, or says that it has none.

A module here is a rule when it defines `ORDER`, its place in the row, and `judge(case, runs, context)`.
`runs` holds the un-optimised run first, then the others. The first rule that returns a verdict decides.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from corpus.case import Case
from oracles.context import Context
from oracles.run import Run
from oracles.verdict import Verdict

Rule = Callable[[Case, tuple[Run, ...], Context], Verdict | None]


@cache
def find_rules() -> tuple[Rule, ...]:
    """Every rule of this package, in order."""
    modules = [
        importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
    ]
    return tuple(module.judge for module in sorted(modules, key=lambda module: int(module.ORDER)))
