"""Programs written to a folder, one case folder each: the same ones for any number of processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.processes import call_apart
from generators.language.emit import language_of
from generators.language.profile import UNLIMITED, Budget, Counts
from generators.mutations.modes import Mode, mode_of
from generators.strategies import DEFAULT, find_strategy
from generators.strategies.coverage import Seen

_BATCH = 50


COVERAGE_FILE = "coverage.json"
"""Beside the programs of the coverage strategy: what all of them cover, to start the next run from."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of generated programs: strategy, first file, changes, costs.

    `trust` lets a strategy be a file of code.
    """

    strategy: str = DEFAULT
    source: Path | None = None
    mode: Mode = Mode.STRICT
    budget: Budget = UNLIMITED
    trust: bool = False


@dataclass(frozen=True, slots=True)
class Generated:
    """The result of `generate`: counts over all programs, and the wall seconds."""

    counts: Counts
    seconds: float

    def facts(self) -> dict[str, float]:
        """The counts of the library, as `crux generate --json` shows them."""
        return {**self.counts.facts(), "seconds": round(self.seconds, 3)}


def generate(
    folder: Path,
    number: int,
    nodes: int,
    *,
    seed: int = 0,
    jobs: int = 1,
    options: Options = Options(),
    progress: Callable[[int], None] = lambda done: None,
) -> Generated:
    """Write the programs of `number` seeds, from `seed` on, as `folder/seed-N`.

    What an interrupted call has written is kept and not written again. `progress` hears how many programs
    are done. Raises `UserError` where a folder holds another program.
    """
    start = time.perf_counter()
    counts, seen = Counts(), Counter[str]()
    seeds = range(seed, seed + number)
    batches = [seeds[first : first + _BATCH] for first in range(0, number, _BATCH)]
    find_strategy(options.strategy, options.trust)
    for part, more in _in_order(partial(_write_batch, folder, nodes, options), batches, jobs):
        counts |= part
        seen.update(more)
        progress(counts.models)
    if options.strategy == "coverage":
        known = Seen.load(options.source) if options.source else Seen()
        known.counts.update(seen)
        known.save(folder / COVERAGE_FILE)
    return Generated(counts, time.perf_counter() - start)


Batch = tuple[Counts, Counter[str]]


def _in_order(work: Callable[[range], Batch], batches: list[range], jobs: int) -> Iterator[Batch]:
    if jobs <= 1 or len(batches) <= 1:
        yield from map(work, batches)
        return
    count = min(jobs, len(batches))
    with ExitStack() as stack:
        idle: SimpleQueue[Connection] = SimpleQueue()
        for _ in range(count):
            idle.put(stack.enter_context(call_apart(_serve, work)))
        pool = ThreadPoolExecutor(count)
        stack.callback(pool.shutdown, cancel_futures=True)
        yield from pool.map(partial(_ask, idle), batches)


def _ask(idle: SimpleQueue[Connection], seeds: range) -> Batch:
    """Have one of the other processes write a batch; raises what it raised."""
    connection = idle.get()
    try:
        connection.send(seeds)
        answer: Any = connection.recv()
    except (EOFError, OSError):
        raise ChildProcessError("a process that writes programs ended") from None
    finally:
        idle.put(connection)
    if isinstance(answer, BaseException):
        raise answer
    batch: Batch = answer
    return batch


def _serve(connection: Connection, work: Callable[[range], Batch]) -> None:
    """Write batches until the connection is closed."""
    while True:
        seeds = connection.recv()
        try:
            answer: Any = work(seeds)
        except Exception as error:
            answer = error
        connection.send(answer)


def _write_batch(folder: Path, nodes: int, options: Options, seeds: range) -> Batch:
    counts, seen = Counts(), Counter[str]()
    strategy = find_strategy(options.strategy, options.trust)
    programs = strategy(seeds, nodes, options.source, options.budget)
    for seed, program in zip(seeds, programs, strict=True):
        language = language_of(program.format)
        _write(language.in_mode(mode_of(options.mode, seed), seed, program), folder / f"seed-{seed}")
        counts |= program.counts()
        seen.update(language.coverage(program))
    return counts, seen


def _write(case: Case, folder: Path) -> None:
    if not (folder / "case.json").exists():
        case.save(folder)
    elif (folder / find_format(case.format).program_file).read_bytes() != case.program:
        raise UserError(
            f"{folder}: holds another program; name an empty folder, or the seed and size it was for"
        )
