"""What a campaign learns, and what a block of it may draw from: the same for any number of workers.

The blocks of a campaign are parted into epochs. A block of epoch e draws from what the epochs up to e - 2
have learned, merged in the order of their seeds; so the blocks of an epoch can be tested side by side while
those of the one before are still under way, and nobody's speed changes a program.

An arm is a strategy with a mode. What an arm earned is the part that it had in each symptom: a symptom that
it alone met counts one, one that all arms meet as often counts little. Yield is that by cost, and costs are
those of BENCHMARKS, not of this machine: so the same seeds give the same blocks anywhere.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

from corpus.errors import UserError
from corpus.reading import Fields, members
from generators.pools import EMPTY, Pool, Trial

BLOCK = 16
"""Seeds whose programs are drawn alike: of one strategy and size."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Every `count`-th block of seeds, from the `index`-th on, counted from 1: one of several jobs' part.

    A shard learns nothing from its tests: so all together test what `1/1` tests, whatever the count.
    """

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def owns(self, seed: int) -> bool:
        """Whether a seed's block is one of the shard's."""
        return seed // BLOCK % self.count == self.index - 1

    def share_of(self, seed: int, tests: int) -> int:
        """How many of the seeds from `seed` on are the shard's."""
        return sum(map(self.owns, range(seed, seed + tests)))


def blocks_of(seed: int, tests: int | None, shard: Shard | None) -> Iterator[range]:
    """Split the seeds into blocks; a block of the mixture is never cut in two."""
    left = float("inf") if tests is None else tests
    for first in count(seed - seed % BLOCK, BLOCK):
        if left <= 0:
            return
        if shard is None or shard.owns(first):
            block = range(max(first, seed), first + BLOCK)
            yield block[: int(min(len(block), left))]
            left -= len(block)


GROWTH, LONGEST = 8, 1024
"""An epoch is this fraction of the blocks before it; at least one block, at most the second number.

No more workers are busy than there are blocks in an epoch. With 64 a campaign on TVM kept 62 of 1,000 busy.
"""
MANY_REFUSALS = 4
"""Programs with an operator that must be refused, and none accepted, until it counts as refused."""


MANY_FAILURES, MOSTLY = 6, 0.5
"""How often an operator or a pass leads to one symptom, and in what part of its tests, until it is worn."""


MOST_PIECES, MOST_SYMPTOMS, MOST_LED = 400_000, 20_000, 5_000
"""What a lesson holds at most: a campaign of days meets new shapes without end."""
_KINDS = ("covered", "ran", "refused", "tried", "found", "led")
_BRED = Fields({}, members("parent changed made_of kind", str))
_ENTRY = Fields({"key": str, "program": str}, {"passes": [str], "idle": int, "kind": str})
_TRIAL = Fields(
    {"key": str, "bred": _BRED}, {**members("news passes", [str]), "program": str, "failed": bool}
)
LESSON = Fields(
    {},
    {
        **members(" ".join(_KINDS), {"": int}),
        "pool": Fields({}, {"entries": [_ENTRY], "seen": [str]}),
        "trials": [_TRIAL],
    },
)
"""What a lesson's document holds."""


@dataclass(frozen=True)
class CoverageSnapshot:
    """The lesson of some tests: how often each piece of coverage and each operator came up.

    `ran` and `refused` count the programs with an operator or a pass, of those that the target ran and of
    those that it does not support. `tried` counts the tests of each arm (strategy and mode), `found` the
    failures by arm and symptom, `led` those by operator or pass and symptom, with a tab between. `pool` holds
    the programs to breed from, `trials` are tests that it does not hold yet.
    """

    covered: Mapping[str, int] = field(default_factory=dict)
    ran: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    tried: Mapping[str, int] = field(default_factory=dict)
    found: Mapping[str, int] = field(default_factory=dict)
    led: Mapping[str, int] = field(default_factory=dict)
    pool: Pool = EMPTY
    trials: tuple[Trial, ...] = ()

    @cached_property
    def refusals(self) -> frozenset[str]:
        """The operators that the target does not seem to support."""
        many = (name for name, times in self.refused.items() if times >= MANY_REFUSALS)
        return frozenset(name for name in many if name not in self.ran)

    @cached_property
    def worn(self) -> frozenset[str]:
        """The operators and passes whose programs mostly fail, in ways that were often met.

        A failure is laid to what most of the programs with its symptom hold.
        """
        most, known = dict[str, int](), Counter[str]()
        for key, failures in self.led.items():
            symptom = key.partition("\t")[2]
            most[symptom] = max(failures, most.get(symptom, MANY_FAILURES))
        for key, failures in self.led.items():
            structure, _, symptom = key.partition("\t")
            known[structure] += failures if failures == most[symptom] else 0
        return frozenset(
            name for name, failures in known.items() if failures > MOSTLY * self.ran.get(name, 0)
        )

    def folded(self) -> CoverageSnapshot:
        """The lesson with its trials in the pool."""
        return replace(self, pool=self.pool.after(self.trials), trials=()) if self.trials else self

    def document(self) -> dict[str, Any]:
        """The lesson as JSON has it."""
        counted: dict[str, Any] = {name: dict(getattr(self, name)) for name in _KINDS}
        if self.pool != EMPTY:
            counted["pool"] = self.pool.document()
        if self.trials:
            counted["trials"] = [each.document() for each in self.trials]
        return counted

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CoverageSnapshot:
        """Read a lesson from a `document` of the shape `LESSON`; raises `UserError` where it is damaged."""
        counted = {name: document[name] for name in _KINDS if name in document}
        try:
            trials = tuple(map(Trial.of, document.get("trials", ())))
            pool = Pool.of(document.get("pool", {}))
        except (ValueError, LookupError, TypeError, OverflowError) as error:
            why = " ".join(str(error).split())[:120]
            raise UserError(f"a lesson in the database is damaged ({why}); take it from a copy") from None
        return cls(**counted, pool=pool, trials=trials)


NOTHING = CoverageSnapshot()


def together(lessons: Iterable[CoverageSnapshot]) -> CoverageSnapshot:
    """Merge several lessons in the order of their seeds; the pool is the first one's."""
    sums = [Counter[str]() for _ in _KINDS]
    pool, trials = EMPTY, list[Trial]()
    for each in lessons:
        for name, counts in zip(_KINDS, sums, strict=True):
            counts.update(getattr(each, name))
        pool = each.pool if pool is EMPTY else pool
        trials += each.trials
    counted: dict[str, Any] = dict(zip(_KINDS, sums, strict=True))
    return CoverageSnapshot(**counted, pool=pool, trials=tuple(trials))


def bounded(lesson: CoverageSnapshot, most: int = MOST_PIECES) -> CoverageSnapshot:
    """The lesson, but of too many pieces of coverage or symptoms only those that came up most often.

    What is forgotten counts as new when it comes again. The same for the same lesson anywhere.
    """
    covered, found = _commonest(lesson.covered, most), _commonest(lesson.found, MOST_SYMPTOMS)
    return replace(lesson, covered=covered, found=found, led=_commonest(lesson.led, MOST_LED))


def _commonest(counts: Mapping[str, int], most: int) -> Mapping[str, int]:
    """All counts, or where they are too many three quarters of as many as may be."""
    if len(counts) <= most:
        return counts
    kept = sorted(counts, key=lambda key: (-counts[key], zlib.crc32(key.encode()), key))[: most * 3 // 4]
    return {key: counts[key] for key in sorted(kept)}


def operators(covered: Mapping[str, int]) -> list[str]:
    """The operators among some pieces of coverage."""
    return [key for key in covered if ":" not in key and ">" not in key]


def epoch_starts() -> Iterator[int]:
    """Yield the first block of each epoch, blocks counted from the beginning of the campaign."""
    start = 0
    while True:
        yield start
        start += min(max(start // GROWTH, 1), LONGEST)


def blocks_before(block: int) -> int:
    """Count the blocks that a block learns from: all of the epochs up to the second before its own."""
    previous = own = 0
    for start in epoch_starts():
        if start > block:
            return previous
        previous, own = own, start
    raise AssertionError("epochs do not end")


class FeedbackSchedule:
    """The lessons of a campaign, as its blocks end; what was learned before may be given `folded`.

    `folded` is what the first `blocks` blocks taught.
    """

    def __init__(self, folded: CoverageSnapshot = NOTHING, blocks: int = 0) -> None:
        self.folded, self.blocks = folded, blocks
        self._waiting: dict[int, CoverageSnapshot] = {}
        self.ended = blocks

    def add(self, block: int, lesson: CoverageSnapshot) -> None:
        """A block has ended, or ended once more with more of its tests."""
        self._waiting[block] = lesson
        self.ended = max(self.ended, block + 1)

    def lesson(self, block: int) -> CoverageSnapshot | None:
        """The lesson that a block draws from; None until all blocks behind it have ended.

        Blocks are asked for in their order.
        """
        wanted = blocks_before(block)
        if self.ended < wanted:
            return None
        if wanted > self.blocks:
            self._fold_to(wanted)
        return self.folded

    def _fold_to(self, wanted: int) -> None:
        """Fold epoch by epoch: what is forgotten on the way is the same however far it goes at once."""
        for start in epoch_starts():
            if self.blocks < start <= wanted:
                new = [self._waiting.pop(each, NOTHING) for each in range(self.blocks, start)]
                self.folded, self.blocks = bounded(together([self.folded, *new]).folded()), start
            if start >= wanted:
                return


FLOOR, MOST = 0.25, 6.0
"""The least and the most of its usual share that a language gets."""
PATIENCE = 96.0
"""Tests after which a language's own yield weighs as much as the mean of all."""
LEAST = 0.1
"""The least share of blocks of a mixture that a language gets."""
_COSTS = {
    **{"random": 1.0, "backward": 1.1, "coverage": 1.1, "mutate": 1.4, "uniform": 1.5, "functions": 2.1},
    "tir": 0.5,
    **dict.fromkeys(("relax", "relax_mutate", "relax_patterns", "relax_high_order"), 2.2),
}
"""Of a test by each strategy, one by `random` being 1; another strategy's is `_OTHER`."""
_OTHER = 1.5
_BETWEEN = "|"


def arm(strategy: str, mode: str) -> str:
    """The arm's name."""
    return f"{strategy}{_BETWEEN}{mode}"


def strategy_of(name: str) -> str:
    """The strategy of an arm."""
    return name.partition(_BETWEEN)[0]


def earned(lesson: CoverageSnapshot) -> Mapping[str, float]:
    """Credit each arm with the symptoms that it met, in proportion to its part in them."""
    together = Counter[str]()
    for key, times in lesson.found.items():
        together[key.partition("\t")[2]] += times
    gains: dict[str, float] = {}
    for key in sorted(lesson.found):
        name, _, symptom = key.partition("\t")
        gains[name] = gains.get(name, 0.0) + lesson.found[key] / together[symptom]
    return gains


def shares_of_languages(
    beside: Mapping[str, Collection[str]], lesson: CoverageSnapshot
) -> Mapping[str, float]:
    """The share of each language of a mixture, by what its strategies yielded; "" is that of all the others.

    None gets less than `LEAST` of all blocks, so that what it finds late still counts.
    """
    language = {strategy: name for name, strategies in beside.items() for strategy in strategies}
    spent = dict.fromkeys(("", *beside), 0.0)
    gains = dict(spent)
    for name, tests in lesson.tried.items():
        spent[language.get(strategy_of(name), "")] += tests * _COSTS.get(strategy_of(name), _OTHER)
    for name, gain in earned(lesson).items():
        gains[language.get(strategy_of(name), "")] += gain
    mean = sum(gains.values()) / max(sum(spent.values()), 1.0)
    if not mean:
        return dict.fromkeys(spent, 1.0 / len(spent))
    yields = {name: (gains[name] / mean + PATIENCE) / (spent[name] + PATIENCE) for name in spent}
    found = {name: min(max(each, FLOOR), MOST) for name, each in yields.items()}
    free = 1.0 - LEAST * len(found)
    return {name: LEAST + free * share / sum(found.values()) for name, share in found.items()}
