"""How programs grow, one file a strategy. A file here that names `programs` is found by itself.

A strategy is a function from a batch of seeds to their programs, in order. What it learns within a batch it
may use within that batch only, so that the programs are the same for any number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from corpus.errors import UserError
from generators.grow import Program

Strategy = Callable[[Sequence[int], int, Path | None], Iterator[Program]]
"""From seeds, a number of nodes, and the file that `--from` names."""

DEFAULT = "random"


@cache
def strategy_names() -> tuple[str, ...]:
    return tuple(sorted(info.name for info in iter_modules(__path__)))


def find_strategy(name: str) -> Strategy:
    """The strategy of this name; raises `UserError`."""
    if name not in strategy_names():
        raise UserError(f"--strategy {name}: there is {', '.join(strategy_names())}")
    found: Strategy = import_module(f"{__name__}.{name}").programs
    return found
