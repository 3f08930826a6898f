"""Breakpoints as crux sees them: what a sandbox hands to its zygote, and what its workers met.

All tests of a sandbox share one list in memory, which outlives every worker.
"""

import mmap
import os
import re
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpus import processes
from corpus.errors import UserError
from corpus.processes import cache_folder, compiled
from oracles.extras import provide
from oracles.native.table import Library, Table, load_table

SOURCE = Path(__file__).with_name("breakpoints.c")
_LISTED, _EACH_TEST = 0, 16
"""Where `struct totals` of `breakpoints.c` keeps the size of the list, and its flag."""
Blocks = NDArray[np.uint32]
"""Numbers of blocks over all tables of a `Watch`, in order, each once."""


@dataclass(frozen=True)
class Met:
    """The functions of a test, and the blocks within them, of those whose breakpoints stood.

    Functions that the warm-up of the framework enters are left out; nearly every test enters them.
    """

    functions: Blocks
    blocks: Blocks


class Watch:
    """The breakpoints of some libraries; opens descriptors, which `close` closes. Raises `UserError`.

    A block is told once. With `each_test` every test tells all functions that it
    enters, which costs each some milliseconds.
    """

    def __init__(
        self, libraries: Sequence[Library], cache: Path | None = None, *, each_test: bool = False
    ) -> None:
        library, reason = compiled(SOURCE)
        if library is None:
            raise UserError(f"--native-coverage: {reason}; install gcc or clang")
        self.handler = library
        folder = cache or cache_folder()
        self.tables: tuple[Table, ...] = tuple(load_table(each, folder) for each in libraries)
        sizes = [len(table.blocks) for table in self.tables]
        self.firsts = tuple(sum(sizes[:index]) for index in range(len(sizes)))
        self.total = sum(sizes)
        self._is_function = np.concatenate([table.is_function for table in self.tables]).astype(bool)
        self._descriptors = tuple(_in_memory(table.packed()) for table in self.tables)
        room = self.total + 3 & ~3
        self._shared = os.memfd_create("breakpoints")
        os.ftruncate(self._shared, mmap.PAGESIZE + 5 * room)
        self._memory = mmap.mmap(self._shared, mmap.PAGESIZE + 5 * room)
        self._list = mmap.PAGESIZE + room
        struct.pack_into("<Q", self._memory, _EACH_TEST, each_test)
        self._collected: list[Blocks] = []

    def close(self) -> None:
        """Give the memory and the descriptors back."""
        self._memory.close()
        for descriptor in (self._shared, *self._descriptors):
            os.close(descriptor)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that the zygote inherits: shared memory, then a table for each library."""
        return (self._shared, *self._descriptors)

    def option(self) -> str:
        """The zygote's arguments: the handler, the shared memory, and each table with its first number.

        As long for any number of a descriptor: where a process keeps its objects hangs on what it is told.
        """
        tables = (f"{file:04}:{first}" for file, first in zip(self._descriptors, self.firsts, strict=True))
        return ",".join((str(self.handler), f"{self._shared:04}", *tables))

    def met(self) -> Met:
        """The code that the last job reached."""
        return self._told([self._listed()])

    def collect(self) -> None:
        """Keep what the job that has just run met, before the next one begins."""
        self._collected.append(self._listed())

    def take(self) -> Met:
        """The code that all jobs since the last call reached."""
        collected, self._collected = self._collected, []
        return self._told(collected)

    def _listed(self) -> Blocks:
        (count,) = struct.unpack_from("<Q", self._memory, _LISTED)
        end = self._list + 4 * min(count, self.total)
        listed = np.frombuffer(self._memory[self._list : end], "<u4")
        return listed[listed < self.total]  # a worker that went wild may have written anything

    def _told(self, collected: Sequence[Blocks]) -> Met:
        found = np.unique(np.concatenate([np.zeros(0, np.uint32), *collected]))
        is_function = self._is_function[found]
        return Met(found[is_function], found[~is_function])

    def ever(self) -> Blocks:
        """All blocks that were met since the beginning."""
        text = self._memory[mmap.PAGESIZE : mmap.PAGESIZE + self.total]
        return np.flatnonzero(np.frombuffer(text, np.uint8)).astype(np.uint32)


def _in_memory(content: bytes) -> int:
    """A descriptor of a file in memory with this content."""
    descriptor = os.memfd_create("table")
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    return descriptor


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
    files = sorted(set(table.files))
    number = {file: index for index, file in enumerate(files)}
    file_of = np.array([number[file] for file in table.files], np.int64)[table.function_of]
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
