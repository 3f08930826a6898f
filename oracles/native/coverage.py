"""What was met of a compiler's code, told by library, file and pass."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpus import processes
from corpus.errors import UserError
from oracles.extras import provide
from oracles.native.table import Library, Table
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
    """The pass that a source file holds; empty where it holds none."""
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
    """All of it together."""
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
    """The names of some functions, by their numbers; `fn_` and the address of one that has no name."""
    found = []
    for number in functions.tolist():
        index = int(np.searchsorted(np.array(watch.firsts), number, side="right")) - 1
        table, block = watch.tables[index], number - watch.firsts[index]
        name = table.named[table.function_of[block]].name
        found.append(name or f"fn_{int(table.blocks[block]):x}")
    return found


_ASK = """
import importlib.util, sys
for name in sys.argv[1:]:
    found = importlib.util.find_spec(name)
    print(found.origin if found and found.origin else "")
"""
_SECONDS = 60.0


def find_libraries(patterns: Sequence[tuple[str, str]], python: str | None = None) -> list[Library]:
    """The libraries that match, of this Python's packages or of another one's; raises `UserError`."""
    packages = sorted({pattern.partition("/")[0] for pattern, _ in patterns})
    provide(*(() if python else packages))
    folders = dict(zip(packages, _folders(packages, python or sys.executable), strict=True))
    found = []
    for pattern, scope in patterns:
        package, _, rest = pattern.partition("/")
        folder = folders[package]
        paths = sorted(folder.glob(rest)) if folder else []
        found += [Library(path, scope) for path in paths]
    if not found:
        raise UserError(f"--native-coverage: no library is found of {', '.join(packages)}; is it installed?")
    return found


def _folders(packages: Sequence[str], python: str) -> list[Path | None]:
    """Find each package's folder for that interpreter; None for a package that it lacks."""
    try:
        answer = processes.run([*processes.python(python), "-c", _ASK, *packages], _SECONDS)
    except processes.NotRun as error:
        raise UserError(f"{error}, so it cannot say where its packages lie") from error
    if answer.code:
        raise UserError(f"{python}: cannot say where its packages lie: it ended with {answer.code}")
    return [Path(line).parent if line else None for line in answer.output.split("\n")[: len(packages)]]
