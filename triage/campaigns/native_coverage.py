"""Coverage of the target's own code over a campaign: what its tests met goes into the database."""

from __future__ import annotations

import time

import numpy as np

from corpus.errors import UserError
from corpus.target import Target
from generators.feedback import NOTHING, CoverageSnapshot
from generators.fuzz import Sighted, nothing
from generators.mixture import DrawnCase
from generators.reach import NewlyReached
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.native.coverage import by_file, find_libraries
from oracles.native.watching import Blocks, Met, Watch
from triage.store.database import Store
from triage.store.jobs.coverage import FileRow, LibraryRow, keep_coverage, load_met

SAVE_SECONDS = 20.0
"""Between two points of the curve."""


def open_watch(target: Target) -> Watch:
    """The breakpoints for a target's libraries; raises `UserError` where its code cannot be watched."""
    backend = find_backend(target.backend)
    if not backend.libraries:
        raise UserError(f"--native-coverage: the code of target {target.backend} cannot be watched")
    return Watch(find_libraries(backend.libraries, target.get("python") or None))


def release_result(judge: Judge, lesson: CoverageSnapshot | None, start: Blocks) -> Sighted:
    """Tells what the tests of a block reach that its lesson does not know; `start` every process meets.

    They run in a worker of their own, whose memory lies at the same addresses on each start: so it is the
    same for any number of workers and in any order of the blocks.
    """
    watch = judge.watch
    if watch is None:
        return nothing
    judge.executor.renew()
    known = (lesson or NOTHING).reach.bits(watch.build, watch.total)
    known[start] = True
    watch.ask_again(known)

    def sighted(each: DrawnCase, news: Met | None) -> NewlyReached | None:
        blocks = np.concatenate([news.functions, news.blocks]) if news else np.zeros(0, np.uint32)
        fresh = np.unique(blocks[~known[blocks]])
        return NewlyReached(
            watch.build, each.arm, tuple(fresh.tolist()), each.lineage if len(fresh) else None
        )

    return sighted


class NativeCoverage:
    """All that the tests on a target met, with what earlier runs had met of the same builds."""

    def __init__(self, store: Store, target: Target, watch: Watch) -> None:
        self._store, self._target, self._watch = store, str(target), watch
        self._met = np.zeros(watch.total, bool)
        for first, table in zip(watch.firsts, watch.tables, strict=True):
            kept = np.frombuffer(load_met(store, self._target, table.build_id), np.uint8)
            bits = np.unpackbits(kept, count=len(table.blocks)) if len(kept) else np.zeros(0, np.uint8)
            if len(bits) == len(table.blocks):
                self._met[first : first + len(bits)] = bits
        self._saved = time.monotonic()

    @property
    def blocks(self) -> int:
        """Count the blocks that were reached."""
        return int(self._met.sum())

    def add(self, met: Met) -> None:
        """A test has met these."""
        self._met[met.functions] = True
        self._met[met.blocks] = True

    def save_now_and_then(self, run: int, tests: int) -> None:
        """Save where the last time was some seconds ago."""
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self.save(run, tests)

    def save(self, run: int, tests: int) -> None:
        """Keep what was met by now, after `tests` tests of a run."""
        libraries = []
        for first, table in zip(self._watch.firsts, self._watch.tables, strict=True):
            bits = np.packbits(self._met[first : first + len(table.blocks)]).tobytes()
            libraries.append(LibraryRow(self._target, table.build_id, table.library, len(table.blocks), bits))
        reached = by_file(self._watch, np.flatnonzero(self._met).astype(np.uint32))
        files = [
            FileRow(
                each.library,
                each.file,
                each.pass_name,
                each.functions,
                each.functions_met,
                each.blocks,
                each.blocks_met,
            )
            for each in reached
        ]
        keep_coverage(self._store, run, tests, libraries, files)
        self._saved = time.monotonic()
