"""A campaign's teacher: lessons go into the database as blocks end, and come from there when it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpus.errors import UserError
from generators.fuzz import Tested, lesson_of
from generators.learning import Course, Lesson, together
from generators.mixture import BLOCK
from generators.scheduling import earned
from triage.store.database import Store, open_existing
from triage.store.jobs.campaigns import (
    keep_arms,
    keep_folded,
    keep_lesson,
    last_campaign,
    load_folded,
    load_lessons,
    start_campaign,
)
from triage.store.jobs.runs import next_seed


def must_go_on(database: Path, target: str, seed: int | None) -> None:
    """Raise `UserError` where a database holds no campaign of a target that can go on."""
    if seed is not None:
        raise UserError("--resume: a campaign goes on at its own seed; leave --seed out")
    with open_existing(database) as store:
        if last_campaign(store, target) is None:
            raise UserError(
                f"{database}: holds no campaign of target {target}; leave --resume out to begin one"
            )


class Teaching:
    """What the campaign of a target has learned. `seed` begins a new campaign; without one the last goes on.

    A run that was killed tests again what its last block had not yet taught.
    """

    def __init__(self, store: Store, target: str, seed: int | None) -> None:
        self._store = store
        found = last_campaign(store, target) if seed is None else None
        first = next_seed(store, target) if seed is None else seed
        self._campaign = found or start_campaign(store, target, first)
        self.seed = self._campaign.next_seed
        blocks, folded = load_folded(store, self._campaign.id)
        self._course = Course(Lesson.of(folded), blocks)
        self._parts: dict[int, Lesson] = {}
        self._drawn: dict[int, Lesson] = {}
        for block, document in load_lessons(store, self._campaign.id).items():
            self._parts[block] = Lesson.of(document)
            self._course.add(block, self._parts[block])

    def lesson(self, block: range) -> Lesson | None:
        """What a block draws from; what is folded on the way is kept as such."""
        number, before = self._number(block.start), self._course.blocks
        found = self._course.lesson(number)
        if found is not None:
            self._drawn[number] = found
        if self._course.blocks > before:
            folded = self._course.folded
            keep_folded(self._store, self._campaign.id, self._course.blocks, folded.document())
            gains = earned(folded)
            arms = {name: (tests, gains.get(name, 0.0)) for name, tests in folded.tried.items() if name}
            keep_arms(self._store, self._campaign.id, self._course.blocks, arms)
            self._parts = {each: part for each, part in self._parts.items() if each >= self._course.blocks}
        return found

    def lesson_of_seed(self, seed: int) -> Lesson:
        """What the program of a seed was drawn from, whose block is under way."""
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
        keep_lesson(self._store, self._campaign.id, number, tests[-1].seed + 1, whole.document())

    def refusals(self) -> frozenset[str]:
        """What the target seems to refuse, by all that was tested."""
        return together([self._course.folded, *self._parts.values()]).refusals()

    def _number(self, seed: int) -> int:
        """The number of a seed's block within the campaign, whose first seed may lie within a block."""
        return seed // BLOCK - self._campaign.first_seed // BLOCK
