"""A campaign's teacher: lessons go into the database as blocks end, and come from there when it goes on."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from corpus.errors import UserError
from corpus.target import Target
from generators.feedback import BLOCK, NOTHING, CoverageSnapshot, FeedbackSchedule, Shard, earned, together
from generators.fuzz import Tested, lesson_of
from oracles.backends import find_backend
from oracles.native.watching import Met, Watch, by_file, find_libraries
from triage.store.campaigns import (
    StrategyCost,
    keep_costs,
    keep_coverage,
    keep_folded,
    keep_lesson,
    last_campaign,
    load_costs,
    load_folded,
    load_lessons,
    load_met,
    next_seed,
    start_campaign,
)
from triage.store.database import Store, open_existing

KEEP_SECONDS = 1.0
"""Between two writes of lessons: each one waits for the disk."""
FEWEST_FOLDED, MOST_FOLDED = 16, 2048
"""After how many blocks what they taught together is written: half as many as before, within these."""


def campaign_name(target: str, shard: Shard | None) -> str:
    """What the campaign of a target, or of a shard of it, is called in the store."""
    return f"{target}, shard {shard}" if shard else target


def must_go_on(database: Path, target: str, seed: int | None) -> None:
    """Raise `UserError` where a database holds no campaign of a target that can go on."""
    if seed is not None:
        raise UserError("--resume: a campaign goes on at its own seed; leave --seed out")
    with open_existing(database) as store:
        if last_campaign(store, target) is None:
            raise UserError(
                f"{database}: holds no campaign of target {target}; leave --resume out to begin one"
            )


class CoverageSync:
    """The lessons of one target's campaign.

    `seed` begins a new campaign; without one the last goes on. A run that was killed tests again what its
    last block had not yet taught.
    """

    def __init__(self, store: Store, target: str, seed: int | None, shard: Shard | None = None) -> None:
        self._store, self._shard = store, shard
        name = campaign_name(target, shard)
        found = last_campaign(store, name) if seed is None else None
        first = next_seed(store, target) if seed is None else seed
        self._campaign = found or start_campaign(store, name, first)
        self.seed = self._campaign.next_seed
        self._kept, folded = load_folded(store, self._campaign.id)
        self._course = FeedbackSchedule(CoverageSnapshot.of(folded), self._kept)
        self._parts: dict[int, CoverageSnapshot] = {}
        self._drawn: dict[int, CoverageSnapshot] = {}
        for block, document in load_lessons(store, self._campaign.id).items():
            self._parts[block] = CoverageSnapshot.of(document)
            self._course.add(block, self._parts[block])
        self.costs = load_costs(store, self._campaign.id)
        self._unkept: dict[int, tuple[int, CoverageSnapshot]] = {}
        self._kept_at = time.monotonic()
        self._fresh = self._not_folded()

    @property
    def coverage(self) -> int:
        """Count the pieces of coverage that the campaign has met."""
        return len(self._course.folded.covered) + len(self._fresh)

    def earned(self) -> Mapping[str, float]:
        """The part that each arm had in the symptoms that were met."""
        return earned(self._course.folded)

    def lesson(self, block: range) -> CoverageSnapshot | None:
        """The lesson that a block draws from, an empty one in a shard; keep what is folded on the way."""
        number, before = self._number(block.start), self._course.blocks
        found = self._course.lesson(number)
        if found is not None:
            found = self._drawn[number] = NOTHING if self._shard else found
        if self._course.blocks > before:
            self._keep_now_and_then()
            self._parts = {each: part for each, part in self._parts.items() if each >= self._course.blocks}
            self._fresh = self._not_folded()
        return found

    def lesson_of_seed(self, seed: int) -> CoverageSnapshot:
        """The lesson from which a seed's program was drawn, if its block has not ended."""
        return self._drawn[self._number(seed)]

    def learn(self, block: range, tests: Sequence[Tested]) -> None:
        """Keep what a block, or a part of it, has taught."""
        number = self._number(block.start)
        self._drawn.pop(number, None)
        if not tests:
            return
        earlier = self._parts.get(number)
        lesson = lesson_of(tests)
        whole = together([earlier, lesson]) if earlier else lesson
        self._parts[number] = whole
        self._course.add(number, whole)
        folded = self._course.folded.covered
        self._fresh.update(key for key in lesson.covered if key not in folded)
        self._unkept[number] = (tests[-1].seed + 1, whole)
        self._spent(tests)
        if time.monotonic() - self._kept_at >= KEEP_SECONDS:
            self.keep()

    def keep(self) -> None:
        """Write what was learned since the last time, all of it or nothing."""
        self._kept_at = time.monotonic()
        if not self._unkept:
            return
        with self._store.transaction():
            for number, (next_seed, lesson) in self._unkept.items():
                keep_lesson(self._store, self._campaign.id, number, next_seed, lesson.document())
            keep_costs(self._store, self._campaign.id, self.costs, self.earned())
        self._unkept = {}

    def _not_folded(self) -> set[str]:
        """The pieces of coverage of blocks that are not folded yet and that are new."""
        folded = self._course.folded.covered
        return {key for part in self._parts.values() for key in part.covered if key not in folded}

    def _keep_now_and_then(self) -> None:
        """Write what was folded, not each time: it is large, and the blocks' own lessons are kept as well."""
        blocks, folded = self._course.blocks, self._course.folded
        if blocks - self._kept < min(max(FEWEST_FOLDED, self._kept // 2), MOST_FOLDED):
            return
        self._kept = blocks
        self.keep()
        keep_folded(self._store, self._campaign.id, blocks, folded.document())

    def _spent(self, tests: Sequence[Tested]) -> None:
        """Add the cost of some tests to that of their arms."""
        for each in tests:
            old = self.costs.get(each.arm, StrategyCost())
            failures = old.failures + each.verdict.is_bug
            self.costs[each.arm] = StrategyCost(old.tests + 1, old.cpu + each.cpu, failures)

    def refusals(self) -> frozenset[str]:
        """What the target seems to refuse, by all tests so far."""
        whole = [self._course.folded, *self._parts.values()]
        refused = Counter[str]()
        for each in whole:
            refused.update(each.refused)
        ran = dict.fromkeys((name for each in whole for name in each.ran), 1)
        return CoverageSnapshot(ran=ran, refused=refused).refusals

    def _number(self, seed: int) -> int:
        """The number of a seed's block within the campaign, whose first seed may lie within a block."""
        blocks = seed // BLOCK - self._campaign.first_seed // BLOCK
        return blocks // self._shard.count if self._shard else blocks


def open_watch(target: Target) -> Watch:
    """The breakpoints for a target's libraries; raises `UserError` where its code cannot be watched."""
    backend = find_backend(target.backend)
    if not backend.libraries:
        raise UserError(f"--native-coverage: the code of target {target.backend} cannot be watched")
    return Watch(find_libraries(backend.libraries, target.get("python") or None))


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

    @property
    def blocks(self) -> int:
        """Count the blocks that were reached."""
        return int(self._met.sum())

    def add(self, met: Met) -> None:
        """A test has met these."""
        self._met[met.functions] = True
        self._met[met.blocks] = True

    def save(self) -> None:
        """Keep what was met by now."""
        libraries = []
        for first, table in zip(self._watch.firsts, self._watch.tables, strict=True):
            bits = np.packbits(self._met[first : first + len(table.blocks)]).tobytes()
            libraries.append((table.build_id, table.library, len(table.blocks), bits))
        files = by_file(self._watch, np.flatnonzero(self._met).astype(np.uint32))
        keep_coverage(self._store, self._target, libraries, files)
