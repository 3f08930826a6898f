"""Programs written to a folder, one case folder each: the same ones for any number of processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from corpus.case import Case
from corpus.errors import UserError
from generators.counts import Counts, count
from generators.grow import Program, grow

_BATCH = 50


@dataclass(frozen=True, slots=True)
class Generated:
    """What `generate` did: the counts over all programs, and the wall seconds that it took."""

    counts: Counts
    seconds: float

    def facts(self) -> dict[str, float]:
        return {**self.counts.facts(), "seconds": round(self.seconds, 3)}


def as_case(program: Program, seed: int) -> Case:
    """The case of a program: its bytes, its inputs, and the seed that it came from."""
    text = program.model.SerializeToString(deterministic=True)
    return Case("onnx", text, dict(program.inputs), origin=f"seed:{seed}")


def generate(
    folder: Path,
    number: int,
    nodes: int,
    *,
    seed: int = 0,
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> Generated:
    """Write the programs of `number` seeds, from `seed` on, as `folder/seed-N`.

    What an interrupted call has written is kept and not written again. `progress` hears how many programs
    are done. Raises `UserError` where a folder holds another program.
    """
    start = time.perf_counter()
    counts = Counts()
    seeds = range(seed, seed + number)
    batches = [seeds[first : first + _BATCH] for first in range(0, number, _BATCH)]
    for part in _in_order(partial(_write_batch, folder, nodes), batches, jobs):
        counts |= part
        progress(counts.models)
    return Generated(counts, time.perf_counter() - start)


def _in_order(work: Callable[[range], Counts], batches: list[range], jobs: int) -> Iterator[Counts]:
    if jobs <= 1 or len(batches) <= 1:
        yield from map(work, batches)
        return
    with ProcessPoolExecutor(min(jobs, len(batches)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, batches)


def _write_batch(folder: Path, nodes: int, seeds: range) -> Counts:
    counts = Counts()
    for seed in seeds:
        program = grow(seed, nodes)
        _write(as_case(program, seed), folder / f"seed-{seed}")
        counts |= count(program.model, program.types)
    return counts


def _write(case: Case, folder: Path) -> None:
    if not (folder / "case.json").exists():
        case.save(folder)
    elif (folder / "model.onnx").read_bytes() != case.program:
        raise UserError(
            f"{folder}: holds another program; name an empty folder, or the seed and size it was for"
        )
