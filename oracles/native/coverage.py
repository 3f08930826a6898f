"""What was met of a compiler's code, told by library, file and pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.native.table import Table
from oracles.native.watching import Blocks, Watch

_PASS = re.compile(r"(?:^|/)(?:core/optimizer|transform|transforms|jit/passes|optimizer)/(.+)\.(?:cc|cpp|h)$")
"""Files that hold the passes of an optimiser; what follows names the pass."""
UNKNOWN = ""
"""The file of functions of which no file is known."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The share of some code that was reached; `passes` names the pass if the file holds one."""

    library: str
    file: str
    functions: int
    functions_met: int
    blocks: int
    blocks_met: int

    @property
    def pass_name(self) -> str:
        """The optimiser's pass that the file holds; empty where it holds none."""
        return pass_of(self.file)


def pass_of(file: str) -> str:
    """Return the pass that a source file holds; empty where it holds none."""
    found = _PASS.search(file)
    return found[1] if found else ""


def by_file(watch: Watch, met: Blocks) -> list[Reached]:
    """List the coverage of every file, the one with most blocks first."""
    found: list[Reached] = []
    for first, table in zip(watch.firsts, watch.tables, strict=True):
        flags = np.zeros(len(table.blocks), bool)
        flags[met[(met >= first) & (met < first + len(table.blocks))] - first] = True
        found += _of_table(table, flags)
    return sorted(found, key=lambda each: (-each.blocks, each.library, each.file))


def _of_table(table: Table, met: NDArray[np.bool_]) -> Iterator[Reached]:
    files = sorted({named.file for named in table.named})
    number = {file: index for index, file in enumerate(files)}
    file_of = np.array([number[named.file] for named in table.named], np.int64)[table.function_of]
    is_function = table.is_function.astype(bool)
    kinds = (is_function, is_function & met, np.ones(len(met), bool), met)
    counts = [np.bincount(file_of[kind], minlength=len(files)).tolist() for kind in kinds]
    for file, *numbers in zip(files, *counts, strict=True):
        yield Reached(table.library, file, *numbers)


def total(reached: Iterable[Reached]) -> Reached:
    """Return all of it together."""
    each = list(reached)
    return Reached(
        ", ".join(dict.fromkeys(one.library for one in each)),
        UNKNOWN,
        sum(one.functions for one in each),
        sum(one.functions_met for one in each),
        sum(one.blocks for one in each),
        sum(one.blocks_met for one in each),
    )


def function_names(watch: Watch, functions: Blocks) -> list[str]:
    """Return the names of some functions, by their numbers; `fn_` and the address of one that has no name."""
    found = []
    for number in functions.tolist():
        index = int(np.searchsorted(np.array(watch.firsts), number, side="right")) - 1
        table, block = watch.tables[index], number - watch.firsts[index]
        name = table.named[table.function_of[block]].name
        found.append(name or f"fn_{int(table.blocks[block]):x}")
    return found
