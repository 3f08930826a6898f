"""The oracles that are asked for by name (`--oracles`), one file each: they take further runs.

A module here defines `NAME` and `ways(case, asking)`, further ways to run a case that passes otherwise. Each
is compared with the un-optimised run by the same rules, or by `judge(case, runs, context)` where the module
has one.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from corpus.values import Value
from oracles.probes.context import Context
from oracles.verdict import Config, Run, Verdict

SETTING = "oracles"
"""The setting of a target that names them: `ort@oracles=metamorphic,perf`."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The part of the target that an oracle may use: its configurations, the un-optimised one first.

    `describe` asks the framework for the types in a graph (`Judge.describe`).
    """

    target: Target
    configs: tuple[Config, ...]
    describe: Callable[[bytes, Mapping[str, Value]], Mapping[str, Any]] = lambda program, inputs: {}

    @property
    def optimised(self) -> Config:
        """The first way that is not the baseline."""
        return self.configs[min(1, len(self.configs) - 1)]


@dataclass(frozen=True, slots=True)
class VariantRun:
    """One more way to run a case: a configuration, and another program or inputs where it has them."""

    config: Config
    program: bytes | None = None
    inputs: Mapping[str, Value] | None = None


class Asked(Protocol):
    """The contents of a module that holds an oracle to ask for."""

    NAME: str

    def ways(self, case: Case, asking: Asking) -> Iterator[VariantRun]:
        """Further ways to run the case."""


def named(oracle: str, config: Config, what: str = "") -> Config:
    """The configuration as this oracle runs it."""
    label = f"{config.label}, {what}" if what else config.label
    return replace(config, label=label, asked_by=f"{oracle}: {what}" if what else oracle)


def instrumented(oracle: str, asking: Asking, setting: str) -> Iterator[VariantRun]:
    """Yield the optimised configuration with a setting by which the backend looks after every pass.

    An empty setting yields none: the backend has no such look.
    """
    if setting:
        settings = (*asking.optimised.settings, (setting, True))
        yield VariantRun(named(oracle, replace(asking.optimised, settings=settings)))


@cache
def asked_oracles() -> dict[str, Asked]:
    """Every oracle of this package by its name."""
    modules = [
        importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
    ]
    return {module.NAME: module for module in modules}


def find_asked(names: str) -> tuple[Asked, ...]:
    """Find the oracles of a list with commas; raises `UserError` for an unknown name."""
    known = asked_oracles()
    chosen = [name for name in names.split(",") if name]
    for name in chosen:
        if name not in known:
            raise UserError(f"oracle {name!r}: there is no such oracle; known are {', '.join(sorted(known))}")
    return tuple(known[name] for name in chosen)


def own_judge(oracle: Asked) -> Callable[[Case, tuple[Run, ...], Context], Verdict | None] | None:
    """The oracle's own way to judge; None where the rules do."""
    return getattr(oracle, "judge", None)
